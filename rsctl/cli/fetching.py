"""The progress, findings and summary of a download."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rsctl.cli.output import can_redraw, is_quiet
from rsctl.cli.show import print_important, print_message, show_findings
from rsctl.findings import RsctlError
from rsctl.job.shell_words import path_word
from rsctl.runs.stream.formatting import format_bytes

if TYPE_CHECKING:
    from rsctl.api import Fetched, FetchProgress, ResultKind, Run

_CLEAR = "\r\x1b[2K"


def fetch_and_show(
    run: Run,
    folder: str | None,
    only: Iterable[ResultKind] = (),
    include: Collection[str] = (),
    max_unpacked: int | None = None,
) -> Fetched:
    """Download a run's results, with progress on a terminal. Raises RsctlError."""
    view = _ProgressLine()
    try:
        fetched = run.fetch(
            folder, only=only, include=include, max_unpacked=max_unpacked, on_progress=view.show
        )
    finally:
        view.clear()
    show_findings(fetched.findings)
    print_message(_summary(fetched, is_chosen=bool(include)))
    return fetched


def fetch_after(run: Run, folder: str) -> None:
    """Download a run's results after it has ended; shows a warning if they are not available."""
    command = f"rsctl get {run.id} {shlex.quote(path_word(folder))}"
    try:
        fetched = fetch_and_show(run, folder)
        is_complete = not any(finding.is_error for finding in fetched.findings)
    except (RsctlError, OSError, KeyboardInterrupt) as problem:
        if isinstance(problem, RsctlError):
            show_findings(problem.findings)
        elif isinstance(problem, OSError):
            print_important(f"error: {problem}")
        is_complete = False
    if not is_complete:
        print_important(f"warning: some results of {run.id} are missing; to continue: {command}")


class _ProgressLine:
    """One line that is overwritten repeatedly if standard error is a terminal."""

    def __init__(self) -> None:
        self._is_shown = can_redraw(sys.stderr) and not is_quiet()
        self._begun = monotonic()
        self._first: int | None = None
        self.show: Callable[[FetchProgress], object] = self._write if self._is_shown else bool

    def _write(self, progress: FetchProgress) -> None:
        if self._first is None:
            self._first = progress.bytes
        seconds = max(monotonic() - self._begun, 0.1)
        rate = format_bytes(int((progress.bytes - self._first) / seconds))
        done, total = format_bytes(progress.bytes), format_bytes(progress.all_bytes)
        line = f"{progress.files} of {progress.all_files} files, {done} of {total}, {rate}/s"
        room = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + line[:room])
        sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        if self._first is not None:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def _summary(fetched: Fetched, is_chosen: bool) -> str:
    folder = Path(fetched.directory)
    if not fetched.files:
        return f"no files to download to {folder}" + is_chosen * " match --include"
    new = [file for file in fetched.files if file.state == "fetched"]
    unchecked = sum(file.checksum is None and "://" in file.location for file in new)
    noun = "file" if len(new) == 1 else "files"
    text = f"{folder}: {len(new)} {noun} fetched, {format_bytes(sum(f.size for f in new))}"
    if len(new) < len(fetched.files):
        text += f"; {len(fetched.files) - len(new)} already existed"
    return text + (f"; {unchecked} verified by size only" if unchecked else "")
