"""README and the pages of the documentation, as a reader follows them in a terminal.

A page is one session in a folder of its own, with a fresh RSCTL_HOME:

- `<!-- console: files of FOLDER -->` copies a folder of the repository there;
- a fenced block with `title="FILE"` becomes that file, at this point of the page;
- the `$ ` lines of a ```console block run in bash, one after the other;
- `<!-- not run: REASON -->` before a block leaves it out.

What follows a `$ ` line is its output. A line `...` stands for any number of lines, and `...` at
the end of a line for its rest. Numbers, run IDs and the width of columns may differ. A command must
succeed, unless the next one is `echo $?`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
DEVELOPERS = Path(sys.executable).parent
"""The programs of the environment that the tests run in."""

_FENCE = re.compile(r"^( *)```(\w+)(?: title=\"([^\"]+)\")?$")
_FILES = re.compile(r"^<!-- console: files of (\S+) -->$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_MARK = "\x1e"


class Step(NamedTuple):
    """One thing that the reader does: copy a folder, write a file, or type a command."""

    line: int
    folder: str = ""
    file: str = ""
    text: str = ""
    command: str = ""
    output: tuple[str, ...] = ()


class Page(NamedTuple):
    """The steps of a page in their order, and the blocks that do not run with the reason."""

    path: Path
    steps: list[Step]
    not_run: list[tuple[int, str]]

    @property
    def commands(self) -> list[Step]:
        return [step for step in self.steps if step.command]


def read_page(path: Path) -> Page:
    """Raises ValueError for a mark that no console block follows."""
    page = Page(path, [], [])
    lines = path.read_text().splitlines()
    reason, number = "", 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if found := _FILES.match(line):
            page.steps.append(Step(number, folder=found[1]))
        elif found := _NOT_RUN.match(line):
            reason = found[1]
        elif found := _FENCE.match(line):
            indent, language, title = found.groups()
            end = lines.index(f"{indent}```", number)
            block = [each.removeprefix(indent) for each in lines[number:end]]
            if language == "console" and reason:
                page.not_run.append((number, reason))
                reason = ""
            elif language == "console":
                page.steps.extend(_commands(number + 1, block))
            elif title:
                page.steps.append(Step(number, file=title, text="\n".join(block) + "\n"))
            number = end + 1
        if reason and line.strip() and not _NOT_RUN.match(line):
            raise ValueError(f"{path}:{number}: no console block follows `not run: {reason}`")
    return page


def _commands(first: int, block: list[str]) -> Iterator[Step]:
    number = 0
    while number < len(block):
        start = number
        if not block[number].startswith("$ "):
            raise ValueError(f"line {first + number}: a console block begins with `$ `")
        command = block[number][2:]
        number += 1
        while command.endswith("\\"):
            command += "\n" + block[number]
            number += 1
        output = []
        while number < len(block) and not block[number].startswith("$ "):
            output.append(block[number])
            number += 1
        yield Step(first + start, command=command, output=tuple(output))


def run_page(
    page: Page, folder: Path, programs: Path | str, **variables: str
) -> list[tuple[Step, int, str]]:
    """Every command of a page with its exit code and what it printed, in order."""
    work = folder / "work"
    work.mkdir(parents=True)
    script = ["exec </dev/null 2>&1"]
    for number, step in enumerate(page.steps):
        if step.folder:
            script.append(f"cp -r {TOP / step.folder}/. .")
        elif step.file:
            source = folder / f"file-{number}"
            source.write_text(step.text)
            script.append(f"mkdir -p $(dirname {step.file}) && cp {source} {step.file}")
        else:
            script += [
                "(exit ${code:-0})",
                step.command,
                f"code=$?; printf '{_MARK}%s %s{_MARK}' {number} $code",
            ]
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=work,
        env={**environment(folder, programs), **variables},
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
    )
    parts = ran.stdout.split(_MARK)
    found = []
    for printed, mark in zip(parts[::2], parts[1::2], strict=False):
        number, code = map(int, mark.split())
        found.append((page.steps[number], code, printed))
    return found


def check_page(
    path: Path, folder: Path, programs: Path | str = DEVELOPERS, **variables: str
) -> None:
    """Run a page, and compare all that it printed with what the page shows.

    `programs` has `rsctl` and `python`: a folder, or several as in PATH. `variables` are more than
    a reader's.
    """
    page = read_page(path)
    ran = run_page(page, folder, programs, **variables)
    assert [step.line for step, _, _ in ran] == [step.line for step in page.commands]
    for number, (step, code, printed) in enumerate(ran):
        asked = number + 1 < len(ran) and ran[number + 1][0].command == "echo $?"
        where = f"{path}:{step.line}: {step.command}\nended with {code}:\n{printed}"
        assert code == 0 or asked, where
        assert not step.output or fits(step.output, printed), where


def environment(folder: Path, programs: Path | str) -> dict[str, str]:
    """The variables of a user without configuration, credentials and CI."""
    kept = ("LANG", "RSCTL_BASE", "DOCKER_HOST", "TMPDIR", "SSL_CERT_FILE")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(folder),
        "RSCTL_HOME": str(folder / "home"),
        "RSCTL_CONFIG": str(folder / "config"),
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
    }


def fits(expected: tuple[str, ...], printed: str) -> bool:
    """Whether a command printed what the page shows."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        elif line.endswith("..."):
            pattern += re.escape(_stable(line[:-3])) + r".*\n"
        else:
            pattern += re.escape(_stable(line)) + r"\n"
    lines = [_stable(line) + "\n" for line in printed.rstrip("\n").split("\n")]
    return re.fullmatch(pattern, "".join(lines)) is not None


def _stable(line: str) -> str:
    """A line without what differs from run to run: IDs, numbers, folders, widths of columns."""
    line = re.sub(r"/\S*/runs/", "RUNS/", line)
    line = re.sub(r"\b([a-z][a-z0-9-]*)-[0-9a-z]{6}\b", r"\1-ID", line)
    line = re.sub(r"\d+(?:[.,:]\d+)*(?:e[-+]\d+)?", "0", line)
    return re.sub(r"\s+", " ", line).strip()


def all_pages() -> list[Path]:
    """README, the pages for agents, and the pages of the site, except for the reference."""
    written = [path for path in DOCS.rglob("*.md") if path.parent != DOCS / "reference"]
    agents = [TOP / "AGENTS.md", TOP / "skills" / "rsctl" / "SKILL.md"]
    return [TOP / "README.md", *agents, *sorted(written)]


def main() -> None:
    """Print the pages that are named as they really run, to write or compare them."""
    import tempfile

    for name in sys.argv[1:]:
        page = read_page(Path(name).resolve())
        with tempfile.TemporaryDirectory() as folder:
            for step, code, printed in run_page(page, Path(folder), DEVELOPERS):
                same = "" if not step.output or fits(step.output, printed) else "  # OTHER"
                print(f"{step.line}: $ {step.command}  [{code}]{same}\n{printed}")


if __name__ == "__main__":
    main()
