"""Makes the pictures of the documentation from real runs.

python tools/pictures.py     writes docs/images/submit.svg, report.png and ui.png

`rsctl submit` runs README's job in a pseudo-terminal, and pyte keeps what a terminal would show.
The report shows the quickstart, in the browser that the tests use (.ci/browser). `make
pictures` has what this needs.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from shutil import copytree

import pyte

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS, LINES = 118, 200
WIDTH, HEIGHT, MARGIN = 8.4, 19, 18
"""Width of a character, height of a line, and space around the text, in pixels."""
FOREGROUND, BACKGROUND = "#d8dee9", "#1e222a"
COLOURS = {
    "default": FOREGROUND, "black": "#7f8899", "red": "#ff6b6b", "green": "#8fd17f",
    "brown": "#e5c07b", "blue": "#6cb2ff", "magenta": "#d19df0", "cyan": "#5fd0d6",
    "white": "#ffffff", "brightblack": "#7f8899",
}  # fmt: skip


def main() -> None:
    """Take all pictures, on a machine that has time: they show how long a job takes."""
    busy = os.getloadavg()[0]
    if busy > (os.cpu_count() or 1):
        raise SystemExit(f"the load is {busy:.0f}: take the pictures when the machine is idle")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        work = home / "digits"
        copytree(ROOT / "examples" / "quickstart", work)
        _run(["rsctl", "submit", "job.yaml"], work)
        _run(["rsctl", "report", "@last"], work)
        _run(["python", str(ROOT / "tools" / "ui_picture.py"), str(IMAGES / "ui.png")], work)
        _screenshot(work / "report.html", IMAGES / "report.png", home / "browser")
        (work / "job.yaml").write_text(_readme_job())
        command = ["rsctl", "submit", "job.yaml"]
        screen = pyte.Screen(COLUMNS, LINES)
        stream = pyte.ByteStream(screen)
        stream.feed(f"\x1b[32m$\x1b[0m {' '.join(command)}\r\n".encode())
        for part in _in_terminal(command, work):
            stream.feed(part)
        (IMAGES / "submit.svg").write_text(_svg(screen))


def _run(command: list[str], work: Path) -> None:
    subprocess.run(command, cwd=work, env=_environment(work), check=True)


def _readme_job() -> str:
    found = re.search(
        r'```yaml title="job\.yaml"\n(.*?)```', (ROOT / "README.md").read_text(), re.S
    )
    if found is None:
        raise SystemExit('README.md has no block ```yaml title="job.yaml"')
    return found[1]


def _environment(work: Path) -> dict[str, str]:
    """The variables of a user without configuration, whose home is the folder above."""
    kept = {name: os.environ[name] for name in ("LANG", "PATH") if name in os.environ}
    return {**kept, "HOME": str(work.parent), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}


def _in_terminal(command: list[str], work: Path) -> Iterator[bytes]:
    """The output of a command in a terminal. Raises CalledProcessError if it fails."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(
        command, cwd=work, env=_environment(work), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                yield part.replace(os.fsencode(work.parent), b"/home/me")
        except OSError:  # how Linux says that the other side is closed
            pass
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _svg(screen: pyte.Screen) -> str:
    last = max(number for number, line in enumerate(screen.display) if line.strip())
    width = 2 * MARGIN + COLUMNS * WIDTH
    height = 2 * MARGIN + (last + 1) * HEIGHT
    texts = [text for number in range(last + 1) for text in _texts(screen, number)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img"'
        f' width="{width:.0f}" height="{height}"><title>rsctl submit in a terminal</title>',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"'
        ' font-size="14">',
        *texts,
        "</g></svg>\n",
    ])  # fmt: skip


def _texts(screen: pyte.Screen, number: int) -> Iterator[str]:
    line = [screen.buffer[number][column] for column in range(COLUMNS)]
    column = 0
    for (colour, bold), cells in groupby(line, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in cells)
        shown = text.strip()
        if shown:
            begin = column + len(text) - len(text.lstrip())
            fill = COLOURS.get(colour, FOREGROUND if colour == "default" else f"#{colour}")
            weight = ' font-weight="bold"' if bold else ""
            yield (
                f'<text x="{MARGIN + begin * WIDTH:.1f}" y="{MARGIN + number * HEIGHT + 14}"'
                f' textLength="{len(shown) * WIDTH:.1f}" fill="{fill}"{weight}>'
                f"{escape(shown).replace(' ', chr(160))}</text>"
            )
        column += len(text)


def _screenshot(page: Path, picture: Path, profile: Path) -> None:
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--no-first-run", f"--user-data-dir={profile}", "--window-size=1000,900",
         "--host-resolver-rules=MAP * ~NOTFOUND", f"--screenshot={picture}", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


if __name__ == "__main__":
    main()
