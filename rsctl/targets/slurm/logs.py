"""The log of a job: a file for each task, of all of its starts, read by one process."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from rsctl.node.platforms.slurm_task import STAMP
from rsctl.runs.stream.events import LogEvent, now, parse_time
from rsctl.targets.slurm.cluster import Cluster, FileState, Part

_MOST_BYTES = 1 << 20
"""Most bytes of one file in one read; of all files, eight times as many."""

_LONGEST_LINE = 1 << 20
_SETTLED_SECONDS = 2.0
"""How long after the job's end, and after the last line, there may be further ones."""

_REPLICA = re.compile(r"logs/\d+/([a-z][a-z0-9-]*-\d+)\.log")
_STEP = re.compile(r"logs/\d+/([a-z][a-z0-9-]*)\.step")
_STEPS = {"workers": "worker", "chief": "worker", "reducers": "reducer"}
_NOISE = re.compile(
    r"srun: (got SIGCONT|forcing job termination|Job step aborted|Complete StepId"
    r"|Terminating StepId|error: .* task \S+: (Terminated|Exited with exit code)"
    r"|Force Terminated)|slurmstepd\S*: error: \*\*\* STEP \S+ ON \S+ CANCELLED"
)
"""Lines that srun prints of a step that was stopped, or whose tasks have explained their ends."""


class SlurmLog:
    """See JobLog. The cursor has how many bytes of each file have been given."""

    def __init__(self, cluster: Cluster, folder: str, cursor: Mapping[str, Any]) -> None:
        self._cluster, self._folder = cluster, folder
        self._offsets: dict[str, int] = dict(cursor.get("files", {}))
        self._wait, self._due = 0.5, 0.0
        self._ended: float | None = None
        self._quiet_since: float | None = None
        self.is_complete = False

    def read(self) -> list[LogEvent] | None:
        """See JobLog."""
        if time.monotonic() < self._due:
            return None
        files = self._cluster.files(self._folder) or []
        parts = self._grown(files)
        contents = self._cluster.read(self._folder, parts) if parts else {}
        is_last = self._ended is not None and time.time() > self._ended + _SETTLED_SECONDS
        lines: list[LogEvent] = []
        for part in parts:
            lines += self._lines(part, contents.get(part.path, b""), dict(files), is_last)
        self._take_pause(bool(lines), is_last)
        # Sorted by time; lines of one file stay in their order.
        return sorted(lines, key=lambda line: line.time)

    def finish(self, ended: str) -> None:
        """See JobLog."""
        if self._ended is None:
            # This machine's clock may be behind the cluster's.
            self._ended = min(parse_time(ended).timestamp(), time.time())
            self._due = 0.0

    def cursor(self) -> dict[str, Any]:
        """See JobLog."""
        return {"files": dict(self._offsets)}

    def _take_pause(self, has_lines: bool, is_last: bool) -> None:
        if has_lines:
            self._wait, self._due, self._quiet_since = 0.5, 0.0, None
            return
        at = time.monotonic()
        self._quiet_since = self._quiet_since or at
        if is_last:
            self.is_complete = True
        self._wait = 0.2 if self._ended is not None else min(self._wait * 1.3, 4.0)
        self._due = at + self._wait

    def _grown(self, files: list[FileState]) -> list[Part]:
        parts, left = [], 8 * _MOST_BYTES
        for path, size in files:
            offset = self._offsets.get(path, 0)
            wanted = min(size - offset, _MOST_BYTES, left)
            if wanted > 0 and _replica_of(path) is not None:
                parts.append(Part(path, offset, wanted))
                left -= wanted
        return parts

    def _lines(
        self, part: Part, content: bytes, sizes: Mapping[str, int], is_last: bool
    ) -> list[LogEvent]:
        """The whole lines of a part; the rest, too, if no more will come or it is too long."""
        replica = _replica_of(part.path)
        end = content.rfind(b"\n") + 1
        is_whole = is_last and part.offset + len(content) == sizes[part.path]
        if is_whole or (end == 0 and len(content) >= _LONGEST_LINE):
            end = len(content)
        lines, offset = [], part.offset
        for raw in _split(content[:end]):
            stamp, text = _stamped(raw.rstrip(b"\n").decode(errors="replace"))
            if stamp is not None or not _NOISE.search(text):
                event_id = f"{part.path}:{offset}"
                lines.append(LogEvent(stamp or now(), str(replica), event_id, "stdout", text))
            offset += len(raw)
        self._offsets[part.path] = offset
        return lines


def _split(content: bytes) -> list[bytes]:
    """Lines with their ends. A carriage return does not end a line."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _stamped(text: str) -> tuple[str | None, str]:
    match = STAMP.match(text)
    return (text[: match.end() - 1], text[match.end() :]) if match else (None, text)


def _replica_of(path: str) -> str | None:
    """The replica of a log file; what the steps and the batch script print is the first one's."""
    if match := _REPLICA.fullmatch(path):
        return match[1]
    if match := _STEP.fullmatch(path):
        return f"{_STEPS.get(match[1], match[1])}-0"
    return "worker-0" if path.endswith(".batch.log") else None
