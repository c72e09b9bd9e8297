"""Ranks that have called different collectives where all must call the same. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rsctl.runs.stalls.job_view import JobView, numbers, of_group
from rsctl.runs.stalls.reports import Collective
from rsctl.runs.stalls.verdict_type import Verdict, blaming


def find_mismatch(job: JobView) -> Verdict | None:
    """The earliest collective that has not ended and that ranks have called in different forms."""
    names = sorted({name for report in job.ranks.values() for name in report.groups})
    for name in names:
        for number in _pending_numbers(job, name):
            calls = job.calls(name, number)
            if len({call.form for call in calls.values()}) > 1:
                return _describe(job, name, number, calls)
    return None


def _pending_numbers(job: JobView, name: str) -> list[int]:
    """The collectives that some rank has called and that have not ended for it."""
    groups = [report.groups[name] for report in job.ranks.values() if name in report.groups]
    return sorted({entry.number for group in groups for entry in group.entries if not entry.ended})


def _describe(job: JobView, name: str, number: int, calls: Mapping[int, Collective]) -> Verdict:
    """The guilty are the ranks that differ from more than half. Of two sides of equal size it is
    not known which one is right.
    """
    forms = Counter(call.form for call in calls.values())
    usual, most = forms.most_common(1)[0]
    if most * 2 > len(calls):
        odd = sorted(rank for rank, call in calls.items() if call.form != usual)
        return _odd_ranks(job, name, number, calls, odd)
    sides = "; ".join(
        f"{job.named(rank for rank, call in calls.items() if call.form == form)} "
        f"called {next(c for c in calls.values() if c.form == form).describe()}"
        for form, _ in forms.most_common(3)
    )
    message = (
        f"the ranks do not call the same collective (number {number}{of_group(name)}): {sides}"
    )
    return Verdict(kind="mismatch", message=message, waiting=tuple(sorted(calls)))


def _odd_ranks(
    job: JobView, name: str, number: int, calls: Mapping[int, Collective], odd: list[int]
) -> Verdict:
    rank, rest = odd[0], sorted(set(calls) - set(odd))
    skipped = _skipped(job, name, number, rank, rest)
    at = job.at(odd)
    if skipped is not None:
        message = (
            f"{job.named(odd)} has skipped {skipped.describe()} (collective {skipped.number}"
            f"{of_group(name)}), which the other ranks have called{at}"
        )
    else:
        message = (
            f"{job.named(odd)} called {calls[rank].describe()} where "
            f"{numbers(rest)} called {calls[rest[0]].describe()} "
            f"(collective {number}{of_group(name)}){at}"
        )
    waiting = [rank for rank in sorted(job.ranks) if rank not in odd]
    return blaming(job, "mismatch", message, odd, waiting)


def _skipped(
    job: JobView, name: str, number: int, rank: int, others: list[int]
) -> Collective | None:
    """The collective that a rank has left out: its calls equal the others' calls, one later."""
    here = job.ranks[rank].groups[name].entry(number)
    for other in others:
        group = job.ranks[other].groups[name]
        missed, following = group.entry(number), group.entry(number + 1)
        if here is None or missed is None or following is None:
            continue
        if here.form == following.form and here.form != missed.form:
            return missed
    return None
