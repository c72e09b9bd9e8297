"""The reports of a job's ranks side by side, and how they are put into words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from rsctl.runs.stalls.reports import Collective, Group, NodeReport, RankReport

REDUCERS = "reducers"
"""The name under which ranks report what goes over reducers."""
MISSING = "-"
"""The state of a rank without a process that has imported torch."""

_DEFAULT = ("0", "0 of gloo")

_STATES = {
    "T": "has been stopped by a signal",
    "t": "has been stopped by a debugger",
    "D": "waits for a device or a file system",
}


_INSIDE = {
    "data": "waits for the data loader",
    "checkpoint": "reads or writes a checkpoint",
    "compile": "compiles for torch.compile",
    "import": "imports a module",
    "exit": "waits for its threads to end",
}


class JobView:
    """The reports of a job, by rank. `absent` are the replicas without a report."""

    def __init__(self, nodes: Iterable[NodeReport], expected: Iterable[str]) -> None:
        self.nodes = {node.replica: node for node in nodes}
        self.ranks: dict[int, RankReport] = {
            report.rank: report for node in self.nodes.values() for report in node.reports
        }
        if self.ranks:  # otherwise it is not known whether the script uses torch
            for node in self.nodes.values():
                for rank in node.missing:
                    stub = RankReport(number=0, rank=rank, state=MISSING, replica=node.replica)
                    self.ranks.setdefault(rank, stub)
        self._tell_groups_apart()
        self.absent = [name for name in expected if name not in self.nodes]
        self.silent = sorted(r.rank for r in self.ranks.values() if not r.answers)

    def _tell_groups_apart(self) -> None:
        """Give groups of one name and different ranks, such as those of a mesh, own names."""
        known: dict[str, set[str]] = {}
        for report in self.ranks.values():
            for name, group in report.groups.items():
                known.setdefault(name, set()).update([group.ranks] if group.ranks else [])
        shared = {name for name, ranks in known.items() if len(ranks) > 1 and name != REDUCERS}
        for rank, report in self.ranks.items() if shared else ():
            groups = {
                f"{name} of ranks {group.ranks}" if name in shared else name: group
                for name, group in report.groups.items()
            }
            self.ranks[rank] = replace(report, groups=groups)

    def members(self, name: str, group: Group) -> set[int]:
        """The ranks of a group, as one of them knows them; none if only a part of all is in it and
        it is not known which.
        """
        is_of_all = name in (*_DEFAULT, REDUCERS)
        return parse_ranges(group.ranks) or (set(self.ranks) if is_of_all else set())

    def called_by(self, name: str, rank: int) -> int:
        """How many collectives of a group a rank has called."""
        report = self.ranks.get(rank)
        group = report.groups.get(name) if report is not None else None
        return group.called if group is not None else 0

    def calls(self, name: str, number: int) -> dict[int, Collective]:
        """By rank, the collective of this number."""
        found = {}
        for rank, report in self.ranks.items():
            entry = report.groups[name].entry(number) if name in report.groups else None
            if entry is not None:
                found[rank] = entry
        return found

    def replicas(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The nodes of ranks, each once."""
        known = [self.ranks[rank].replica for rank in ranks if rank in self.ranks]
        return tuple(dict.fromkeys(known))

    def where(self, rank: int) -> str:
        """`rank 2 (worker-2)`."""
        return f"rank {rank} ({self.ranks[rank].replica})"

    def named(self, ranks: Iterable[int]) -> str:
        """Ranks with their replicas; of many only the numbers."""
        some = sorted(ranks)
        if len(some) > 3:
            return f"ranks {ranges(some)}"
        return " and ".join(self.where(rank) for rank in some)

    def at(self, ranks: Sequence[int]) -> str:
        """The script's line of the first of these ranks, as the end of a sentence about them."""
        report = self.ranks[ranks[0]]
        return f"; {_pronoun(ranks)} is at {report.at}" if report.at else ""

    def doing(self, ranks: Sequence[int]) -> str:
        """The activity of the first of the ranks that others wait for, as the end of a sentence."""
        report, it = self.ranks[ranks[0]], _pronoun(ranks)
        at = f" at {report.at}" if report.at else ""
        if report.state == MISSING:
            return f"; {it} has not imported torch, or it has ended"
        if report.state in _STATES:
            return f"; {_possessive(ranks)} process {report.pid} {_STATES[report.state]}{at}"
        if report.locked:
            what = f" while {it} {_INSIDE[report.inside]}" if report.inside in _INSIDE else ""
            return f"; native code holds Python's lock{what}{at}"
        if report.inside == "exit":
            return f"; {self.at_exit(ranks)}"
        if report.inside in _INSIDE:
            return f"; {it} {_INSIDE[report.inside]}{at}"
        return f"; {it} is{at}" if at else ""

    def at_exit(self, ranks: Sequence[int]) -> str:
        """Say that the script of the first of these ranks has ended, and a thread has not."""
        report = self.ranks[ranks[0]]
        at = f", at {report.at}" if report.at else ""
        return f"{_possessive(ranks)} script has ended, and a thread of it has not{at}"

    def line(self, report: RankReport) -> str:
        """One rank, for the list of all."""
        state = _STATES.get(report.state, "") or ("" if report.answers else "does not answer")
        if report.state == MISSING:
            state = "has not imported torch, or has ended"
        pending = pending_calls(report)
        calls = f"waits in {pending[0].describe()}" if pending else "waits in a collective"
        does = state or (calls if report.waits else "")
        if not does and report.inside in _INSIDE:
            does = _INSIDE[report.inside]
        parts = [self.where(report.rank), does, report.at and f"at {report.at}"]
        return ", ".join(filter(None, parts))


def state_text(state: str) -> str:
    """The meaning of the kernel's letter for a process that is held up."""
    return _STATES.get(state, "is held up")


def pending_calls(report: RankReport) -> list[Collective]:
    """The collectives that a rank has called and that have not ended."""
    groups = report.groups.values()
    return [call for group in groups for call in group.entries if not call.ended]


def of_group(name: str) -> str:
    """The group of a collective, as the end of its name; empty for the default group."""
    if name == REDUCERS:
        return " over the reducers"
    return "" if name in _DEFAULT else f" of process group {_shortened(name)}"


def _shortened(name: str) -> str:
    """A name of a group; torch gives some a hash of 40 digits."""
    first, *rest = name.split(" ", 1)
    return " ".join([first[:12], *rest])


def _pronoun(ranks: Sequence[int]) -> str:
    """The word for the first of some ranks, at the end of a sentence about them."""
    return "it" if len(ranks) == 1 else f"rank {ranks[0]}"


def _possessive(ranks: Sequence[int]) -> str:
    """The same before a noun."""
    return "its" if len(ranks) == 1 else f"{_pronoun(ranks)}'s"


def conjugated(ranks: Sequence[int], verb: str) -> str:
    """A verb in the form for so many ranks."""
    if len(ranks) != 1:
        return verb
    return "does" if verb == "do" else f"{verb}s"


def numbers(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0-2`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def ranges(ranks: Iterable[int]) -> str:
    """`0-2, 5` for 0, 1, 2 and 5; `0 and 1` for two."""
    some = sorted(ranks)
    if len(some) == 2:
        return f"{some[0]} and {some[1]}"
    parts: list[list[int]] = []
    for rank in some:
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)


def parse_ranges(text: str) -> set[int]:
    """The ranks of `0-3,6`; empty for a text of another form, or with too many."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdigit() and last.isdigit() and len(last) < 6 and len(first) < 6):
            return set()
        if int(last) - int(first) > 1 << 16:
            return set()
        found |= set(range(int(first), int(last) + 1))
    return found
