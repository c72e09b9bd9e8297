"""The local copies of a run's logs, one journal for each replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.folder import RunFolder
from rsctl.runs.store_errors import DiskFull, is_full
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.journal import JournalCopy, allow_many_files
from rsctl.targets.managed.service import SERVICE


class LogMirror:
    """Opens a replica's journal when its first line comes. Sizes in bytes."""

    def __init__(self, folder: RunFolder, sizes: Mapping[str, int]) -> None:
        allow_many_files()
        self._folder = folder
        self._sizes = dict(sizes)
        self._journals: dict[str, JournalCopy] = {}

    def write(self, lines: Iterable[LogEvent]) -> None:
        """Append lines, except lines of the service itself. Raises RsctlError."""
        by_replica: dict[str, list[LogEvent]] = {}
        for line in lines:
            if line.replica != SERVICE:
                by_replica.setdefault(line.replica, []).append(line)
        try:
            for replica, written in by_replica.items():
                self._journal(replica).write(
                    (line.time, line.stream, line.text) for line in written
                )
        except OSError as problem:
            raise _disk_error(self._folder, problem) from None

    def sizes(self) -> dict[str, int]:
        """The content of the journals, for later readers."""
        return self._sizes | {name: journal.size for name, journal in self._journals.items()}

    def close(self) -> None:
        """Close all."""
        for journal in self._journals.values():
            journal.close()

    def _journal(self, replica: str) -> JournalCopy:
        if replica not in self._journals:
            size = self._sizes.get(replica, 0)
            self._journals[replica] = JournalCopy(self._folder.log(replica), size)
        return self._journals[replica]


def _disk_error(folder: RunFolder, problem: OSError) -> RsctlError:
    message = f"cannot save the log in {folder.path}: {problem.strerror}; the job continues"
    remedy = "free disk space, then continue with `rsctl logs -f`"
    kind = DiskFull if is_full(problem, folder.path) else RsctlError
    return kind(ExitCode.ENVIRONMENT, error("disk", message, remedy))
