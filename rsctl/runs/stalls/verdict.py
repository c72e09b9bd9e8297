"""Who holds up a job: a rank that others wait for and that waits for none itself. Pure.

The rules, the first that applies decides:

1. Of the collectives that a rank has called and that have not ended, the earliest which ranks have
   called in different forms (another operation, another shape) is a mismatch (`mismatch.py`).
2. A node that reaches no other node, and that no other node reaches, while the others reach each
   other, has lost its network.
3. A rank waits for the ranks of the group that have called fewer collectives than it. The guilty
   are those that are waited for and wait for none; then ranks that are known to be held up, then
   nodes that do not report. A rank that does not answer, and of which no more is known, is not
   guilty. Where all that are waited for wait themselves, they wait in a circle.
4. Where no rank's calls are known, a rank that is inside `torch.distributed` waits for those that
   are not.
5. The script of a rank has ended and its threads have not. The other ranks have ended, or their
   transport waits at their end for this rank's end.
6. All that were called have been called by all: what sums or carries them has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rsctl.runs.stalls.job_view import (
    MISSING,
    REDUCERS,
    JobView,
    conjugated,
    numbers,
    of_group,
    pending_calls,
    state_text,
)
from rsctl.runs.stalls.mismatch import find_mismatch
from rsctl.runs.stalls.reports import NodeReport, RankReport
from rsctl.runs.stalls.verdict_type import Verdict, blaming

_FEWEST_NODES = 3  # of two nodes that do not reach each other, either may have lost its network
_FEWEST_RANKS = 3
_IDLE_SECONDS = 0.5  # as many as a node that works takes for its report


def find_verdict(nodes: Iterable[NodeReport], expected: Iterable[str]) -> Verdict:
    """Who holds up a job, by the last reports of its nodes; `expected` are all of its replicas."""
    job = JobView(nodes, expected)
    verdict = (
        find_mismatch(job)
        or _isolated(job)
        or _waited_for(job)
        or _by_stacks(job)
        or _silent(job)
        or _not_ended(job)
        or _beyond_ranks(job)
    )
    if verdict is None:
        absent = " and ".join(job.absent[:3])
        more = f"; {absent} {_does(job.absent)} not report" if absent else ""
        message, replicas = _idle(job)
        verdict = Verdict(kind="idle", message=message + more, replicas=replicas)
    lines = tuple(job.line(report) for _, report in sorted(job.ranks.items()))
    return msgspec.structs.replace(verdict, lines=lines)


def _isolated(job: JobView) -> Verdict | None:
    """Rule 2."""
    waiting = [r.rank for r in job.ranks.values() if r.waits]
    workers = {node.index: node for node in job.nodes.values() if node.trains and node.reports}
    alone = [index for index in workers if index is not None and _is_alone(index, workers)]
    if not waiting or len(workers) < _FEWEST_NODES or len(alone) != 1:
        return None
    node = workers[alone[0]]
    own = sorted(report.rank for report in node.reports)
    message = (
        f"{node.replica} ({numbers(own)}) has lost its network: it reaches no other node, and no "
        f"other node reaches it; {numbers(sorted(waiting))} {conjugated(waiting, 'wait')}"
    )
    return Verdict(
        kind="network",
        message=message,
        guilty=tuple(own),
        replicas=(node.replica,),
        waiting=tuple(rank for rank in sorted(waiting) if rank not in own),
    )


def _is_alone(index: int, workers: dict[int | None, NodeReport]) -> bool:
    others = {other: node for other, node in workers.items() if other != index}
    return (
        set(others) <= set(workers[index].unreached)
        and all(index in node.unreached for node in others.values())
        and all(not set(node.unreached) & set(others) for node in others.values())
    )


class _Waits:
    """Who waits for whom: `edges` by the rank that waits; `reasons` by the rank waited for, the
    collective that it has not called.
    """

    def __init__(self, job: JobView) -> None:
        self.edges: dict[int, set[int]] = {}
        self.reasons: dict[int, tuple[str, int]] = {}
        for rank, report in job.ranks.items():
            for name, group in report.groups.items():
                if group.called <= group.ended:
                    continue
                others = job.members(name, group) - {rank}
                behind = {each for each in others if job.called_by(name, each) < group.called}
                self.edges.setdefault(rank, set()).update(behind)
                for each in behind:
                    self.reasons.setdefault(each, (name, job.called_by(name, each) + 1))
        self.waited = {other for others in self.edges.values() for other in others}


def _waited_for(job: JobView) -> Verdict | None:
    """Rule 3."""
    found = _Waits(job)
    if not found.waited:
        return None
    known = [job.ranks[rank] for rank in sorted(found.waited) if rank in job.ranks]
    free = [r for r in known if not found.edges.get(r.rank)]
    alive = [r.rank for r in free if r.answers and not r.waits]
    if alive:
        return _missing(job, found, alive)
    held = [r.rank for r in free if r.is_held_up]
    waiting = sorted(rank for rank in found.edges if rank not in held)
    if held:
        return _silent_ranks(job, held, waiting)
    unknown = sorted(found.waited - set(job.ranks))
    if job.absent:
        return _absent(job, waiting, unknown)
    unproven = sorted([*unknown, *(r.rank for r in known if not r.answers)])
    if unproven:
        return _unproven(job, unproven, waiting)
    elsewhere = [r.rank for r in free if not pending_calls(r) and r.rank not in found.edges]
    if len(elsewhere) == 1 == len(known) and len(job.ranks) >= _FEWEST_RANKS:
        return _missing(job, found, elsewhere)
    if len(free) < len(known) or not free:
        return _circle(job, found.edges)
    return None


def _missing(job: JobView, found: _Waits, guilty: list[int]) -> Verdict:
    waiting = sorted(rank for rank in found.edges if rank not in guilty)
    name, number = found.reasons[guilty[0]]
    call = next(iter(job.calls(name, number).values()), None)
    what = f"{call.describe()} (collective {number}{of_group(name)})" if call else "a collective"
    verb = "has" if len(guilty) == 1 else "have"
    message = (
        f"{job.named(guilty)} {verb} not called {what}, for which {numbers(waiting)} "
        f"{conjugated(waiting, 'wait')}{job.doing(guilty)}"
    )
    return blaming(job, "missing", message, guilty, waiting)


def _circle(job: JobView, edges: Mapping[int, set[int]]) -> Verdict:
    """Ranks that wait for each other, in collectives of different groups.

    The guilty is the one rank to which all waits lead: without it no circle is left. Otherwise the
    guilty are those that wait in another collective than most. Where neither is so, such as for two
    ranks, it is not known which side is right.
    """
    sides: dict[str, list[int]] = {}
    for rank in sorted(edges):
        sides.setdefault(_waits_in(job, rank), []).append(rank)
    crossing = [rank for rank in edges if not _has_circle(edges, rank)]
    fewest = min(sides.values(), key=len)
    if len(crossing) == 1:
        odd = crossing
    elif len(sides) == 2 and 2 * len(fewest) < len(edges):
        odd = fewest
    else:
        texts = [f"{job.named(some)} {_in(what, some)}" for what, some in sides.items()]
        message = (
            f"the ranks wait for each other: {'; '.join(texts[:3])}: they call the collectives of "
            "different process groups in different orders"
        )
        return Verdict(kind="circle", message=message, waiting=tuple(sorted(edges)))
    waiting = {what: [r for r in ranks if r not in odd] for what, ranks in sides.items()}
    others = [f"{numbers(some)} {_in(what, some)}" for what, some in waiting.items() if some]
    message = (
        f"{job.named(odd)} {_in(_waits_in(job, odd[0]), odd)}{job.at(odd)}; {'; '.join(others[:3])}"
    )
    return blaming(job, "mismatch", message, odd, sorted(set(edges) - set(odd)))


def _in(what: str, ranks: list[int]) -> str:
    return f"{conjugated(ranks, 'wait')} in {what}"


def _has_circle(edges: Mapping[int, set[int]], without: int) -> bool:
    """Whether ranks wait for each other, one rank left out."""
    left = {rank: others - {without} for rank, others in edges.items() if rank != without}
    while free := [rank for rank, others in left.items() if not others & set(left)]:
        for rank in free:
            del left[rank]
    return bool(left)


def _waits_in(job: JobView, rank: int) -> str:
    """The earliest collective that holds up a rank, and its group."""
    for name, group in job.ranks[rank].groups.items():
        if group.called > group.ended:
            call = group.entry(group.ended + 1)
            what = call.describe() if call else f"collective {group.ended + 1}"
            return f"{what}{of_group(name) or ' of the default process group'}"
    return "a collective"


def _by_stacks(job: JobView) -> Verdict | None:
    """Rule 4: some wait to form a process group, others do not come to it."""
    waiting = sorted(r.rank for r in job.ranks.values() if r.waits)
    others = sorted(r.rank for r in job.ranks.values() if not r.waits and r.answers)
    if waiting and job.absent:
        return _absent(job, waiting, [])
    if not waiting or not others or any(_has_called_all(job, rank) for rank in others):
        return None
    where = job.at(waiting[:1]).removeprefix("; it is")
    message = (
        f"{job.named(others)} {conjugated(others, 'do')} not join the others: {numbers(waiting)} "
        f"{conjugated(waiting, 'wait')}{where}{job.doing(others)}"
    )
    return blaming(job, "missing", message, others, waiting)


def _has_called_all(job: JobView, rank: int) -> bool:
    """Whether a rank's calls are known, and none of the others has called more."""
    groups = job.ranks[rank].groups
    return bool(groups) and all(
        group.called >= max(job.called_by(name, other) for other in job.ranks)
        for name, group in groups.items()
    )


def _silent(job: JobView) -> Verdict | None:
    waiting = sorted(r.rank for r in job.ranks.values() if r.waits)
    held = [rank for rank in job.silent if job.ranks[rank].is_held_up]
    if held and len(held) < max(2, len(job.ranks)):
        return _silent_ranks(job, held, waiting)
    if job.silent:
        return _unproven(job, job.silent, waiting)
    may_blame_absent = waiting or not job.ranks  # otherwise such a node may have succeeded
    return _absent(job, waiting, []) if job.absent and may_blame_absent else None


def _silent_ranks(job: JobView, silent: list[int], waiting: list[int]) -> Verdict:
    doing = job.doing(silent)
    message = f"{job.named(silent)} {conjugated(silent, 'do')} not answer{doing}"
    return blaming(job, "silent", message + _who_waits(job, waiting), silent, waiting)


def _unproven(job: JobView, silent: list[int], waiting: list[int]) -> Verdict:
    """Ranks of which it is not known whether they only are slow."""
    who = f"{numbers(silent)} {conjugated(silent, 'do')} not answer"
    if len(silent) == len(job.ranks) > 1:
        who = "no rank answers"
    at = job.at(silent) if silent[0] in job.ranks else ""
    message = f"the cause is not known: {who}{at}{_who_waits(job, waiting)}"
    return Verdict(kind="unknown", message=message)


def _who_waits(job: JobView, waiting: list[int]) -> str:
    if not waiting:
        return ""
    pending = next(iter(pending_calls(job.ranks[waiting[0]])), None)
    what = f" in {pending.describe()}" if pending else ""
    return f"; {numbers(waiting)} {conjugated(waiting, 'wait')}{what}"


def _absent(job: JobView, waiting: list[int], ranks: list[int]) -> Verdict:
    names = " and ".join(job.absent[:3])
    message = (
        f"{names} {_does(job.absent)} not report: the node has stopped or has lost its network"
    )
    return Verdict(
        kind="silent",
        message=message
        + (f"; {numbers(waiting)} {conjugated(waiting, 'wait')}" if waiting else ""),
        guilty=tuple(ranks),
        replicas=tuple(job.absent),
        waiting=tuple(waiting),
    )


def _does(names: list[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _not_ended(job: JobView) -> Verdict | None:
    """Rule 5."""
    alive = [report for report in job.ranks.values() if report.state not in (MISSING, "X")]
    guilty = sorted(report.rank for report in alive if report.inside == "exit")
    others = [report for report in alive if report.inside != "exit"]
    if not guilty or any(report.at or pending_calls(report) for report in others):
        return None
    message = f"{job.named(guilty)} {conjugated(guilty, 'do')} not end: {job.at_exit(guilty)}"
    return blaming(job, "exit", message, guilty)


def _beyond_ranks(job: JobView) -> Verdict | None:
    """Rule 6."""
    waiting = tuple(sorted(r.rank for r in job.ranks.values() if r.waits))
    held = [n for n, node in job.nodes.items() if not node.trains and node.held]
    if held and waiting:
        state = job.nodes[held[0]].held[0]
        message = (
            f"{' and '.join(held)} does not sum gradients: its process {state.pid} "
            f"{state_text(state.state)}; all ranks wait for it"
        )
        return Verdict(kind="reducer", message=message, replicas=tuple(held), waiting=waiting)
    if not waiting:
        return None
    name, what = _pending_of_all(job.ranks[waiting[0]])
    if name == REDUCERS:
        message = f"all ranks have called {what}, and the reducers have not returned it"
        return Verdict(kind="reducer", message=message, waiting=waiting)
    message = f"all ranks have called {what}, and it does not end: "
    pairs = [(n.replica, f"worker-{i}") for n in job.nodes.values() for i in n.unreached]
    if pairs:
        message += f"{pairs[0][0]} does not reach {pairs[0][1]} by the network"
    else:
        message += "the network between them does not deliver, or the backend hangs"
    return Verdict(kind="network", message=message, waiting=waiting)


def _pending_of_all(report: RankReport) -> tuple[str | None, str]:
    """The group of the earliest collective of a rank that has not ended, and its form."""
    name = next((n for n, g in report.groups.items() if g.called > g.ended), None)
    group = report.groups[name] if name is not None else None
    call = group.entry(group.ended + 1) if group else None
    return name, call.describe() if call else "a collective"


def _idle(job: JobView) -> tuple[str, tuple[str, ...]]:
    """The message, and the node of the rank that alone has not ended."""
    loading = [r.rank for r in job.ranks.values() if r.inside == "data"]
    if loading:
        waits = conjugated(loading, "wait")
        return f"{job.named(loading)} {waits} for data{job.at(loading)}", ()
    alive = sorted(rank for rank, report in job.ranks.items() if report.state != MISSING)
    doing = job.doing(alive) if alive else ""
    if len(alive) == 1 and doing.startswith("; it "):
        message = f"{job.named(alive)}{doing[4:]}, and no rank is known to wait for it"
        return message, job.replicas(alive)
    if alive:
        return f"no rank is known to wait for another{doing}", ()
    if all(node.idle >= _IDLE_SECONDS for node in job.nodes.values() if node.trains):
        return "no process uses a processor, reads or writes", ()
    return "no rank has imported torch, so rsctl does not know which rank waits for another", ()
