"""The reports of nodes about what their ranks do, read from the log.

Any program can print such a line: a line of another form is
ignored, and texts become one line each.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import msgspec
from msgspec import Meta, field

from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import converted, record_of

_MOST_RANKS = 1024
_MOST_GROUPS = 1024
_MOST_FRAMES = 64
_LONGEST = 300
_Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
_SIZED = ("all_reduce", "allreduce", "broadcast", "reduce")
"""How the names of collectives begin whose sizes must be equal on all ranks."""
_RankNumber = Annotated[int, Meta(ge=0, lt=1 << 16)]


class Collective(msgspec.Struct, frozen=True):
    """One call of a collective by a rank; `number` counts the calls of its process group."""

    number: _Count
    op: str
    sizes: Any = None
    dtypes: Any = None
    ended: bool = False

    @property
    def form(self) -> tuple[str, str]:
        """The operation, and sizes and dtypes where all ranks must agree on them, too."""
        is_sized = self.op.lstrip("_").startswith(_SIZED)
        return self.op, f"{self.sizes} {self.dtypes}" if is_sized else ""

    def describe(self) -> str:
        """`all_reduce of [1024] Float`."""
        sizes = self.sizes if isinstance(self.sizes, list) else []
        dtypes = self.dtypes if isinstance(self.dtypes, list) else []
        what = " ".join(str(part) for part in (*sizes[:1], *dtypes[:1]))
        return _clean(f"{self.op} of {what}" if what else self.op)


class Group(msgspec.Struct, frozen=True):
    """A process group as a rank sees it: how many collectives it has called, and how many of them
    have ended; its ranks, such as `0-3`.
    """

    called: _Count = 0
    ended: _Count = 0
    ranks: str = ""
    entries: list[Collective] = []

    def entry(self, number: int) -> Collective | None:
        """The collective of this number, if it is among the last."""
        return next((entry for entry in self.entries if entry.number == number), None)


class RankReport(msgspec.Struct, frozen=True):
    """The activity of one rank.

    `state` is the kernel's letter for the process, `at` the script's line.

    `locked` says that its thread gets processor time and not the interpreter's lock, which native
    code holds. Another rank that does not answer may only be slow. `inside` is the call that the
    script is in; `exit` is the end of its threads.
    """

    number: _Count
    rank: _RankNumber
    pid: _Count = 0
    state: str = "S"
    answers: bool = True
    locked: bool = False
    groups: dict[str, Group] = {}
    at: Optional[str] = None
    inside: Optional[Literal["collective", "data", "checkpoint", "compile", "import", "exit"]] = (
        None
    )
    stack: list[str] = []
    replica: str = ""

    @property
    def is_held_up(self) -> bool:
        """Whether it is known why it does not answer: what it does is not a wait for others."""
        is_held = self.state in ("T", "t", "D") or (self.locked and self.inside != "collective")
        return not self.answers and is_held

    @property
    def waits(self) -> bool:
        """Whether it has called a collective that has not ended."""
        pending = any(group.called > group.ended for group in self.groups.values())
        return (self.answers and pending) or (self.inside == "collective" and not self.is_held_up)


class Held(msgspec.Struct, frozen=True):
    """A process of a node, other than a rank, that a stop or a device holds up."""

    pid: _Count
    state: str


class NodeReport(msgspec.Struct, frozen=True):
    """The activity of one node: seconds without progress, and without use of a processor.

    `asked` is the number of the request that it answers. `over` says that it progresses again,
    `ended` that its command has failed. `missing` are ranks of the node that have not imported
    torch, or have ended. `index` is the node's number among the workers, `unreached` are the
    numbers of those that it cannot reach.
    """

    number: _Count = 0
    ranks: Annotated[int, Meta(ge=0, le=_MOST_RANKS)] = 0
    asked: Optional[_Count] = None
    quiet: float = 0.0
    idle: float = 0.0
    trains: bool = True
    held: list[Held] = []
    missing: list[_RankNumber] = []
    index: Optional[_Count] = None
    unreached: list[_Count] = []
    over: bool = False
    ended: bool = False
    replica: str = ""
    reports: tuple[RankReport, ...] = field(default=())


class StallReports:
    """Puts the lines of nodes together; the last whole report of each node counts."""

    def __init__(self) -> None:
        self._ranks: dict[str, list[RankReport]] = {}

    def read(self, line: LogEvent) -> NodeReport | None:
        """The report that is whole with this line; None for all other lines."""
        record = record_of(line.text, "rank", "stall")  # once: every line of a log is read here
        if record.get("rsctl") == "rank":
            rank_report = converted(record, RankReport)
            if rank_report is not None:
                self._add(line.replica, rank_report)
            return None
        node = converted(record, NodeReport)
        if node is None:
            return None
        ranks = [rank for rank in self._ranks.pop(line.replica, []) if rank.number == node.number]
        return msgspec.structs.replace(node, replica=line.replica, reports=tuple(ranks))

    def _add(self, replica: str, report: RankReport) -> None:
        """Take a line of a rank. A rank with many process groups has several lines."""
        known = self._ranks.setdefault(replica, [])
        of_rank = (report.number, report.rank)
        for index, other in enumerate(known):
            if (other.number, other.rank) == of_rank:
                groups = {**other.groups, **report.groups}
                if len(groups) <= _MOST_GROUPS:
                    known[index] = msgspec.structs.replace(other, groups=groups)
                return
        if len(known) < _MOST_RANKS:
            known.append(
                msgspec.structs.replace(
                    report,
                    replica=replica,
                    at=report.at and _clean(report.at),
                    stack=[_clean(frame) for frame in report.stack[:_MOST_FRAMES]],
                )
            )


def _clean(text: str) -> str:
    return sanitize_line(text[:_LONGEST])
