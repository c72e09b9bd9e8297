"""The goodput of a run, by its records: states, metrics, findings, phases that a cloud reports."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Optional

import msgspec

from rsctl.runs.cost import run_cost
from rsctl.runs.findings import RESTART_IN_PLACE
from rsctl.runs.folder import RunFolder
from rsctl.runs.goodput import NEW_STEPS, NO_STEPS, Evidence, Interval, Step, Wait, break_down
from rsctl.runs.reader import StateReader
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stragglers import RANK, STEP_GLOBS, waits_of
from rsctl.runs.stream.events import STALL, FindingEvent, MetricEvent
from rsctl.runs.stream.headline import is_chief
from rsctl.runs.timeline import SECOND, moment, spans_of

CHECKPOINTS = ("checkpoint.seconds", "node.checkpoint.seconds")
"""The metrics with the seconds that a checkpoint took, reported at its end: by the script, and by
rsctl's binding to PyTorch.
"""

_MOST_SECONDS = 1e9
_LEAST_MISSING = 2 * SECOND
"""Billed seconds beyond the observed ones that are not due to rounding."""


class GoodputPart(msgspec.Struct, frozen=True):
    """The paid seconds of one cause, and their US dollars where machines are billed."""

    seconds: float
    dollars: Optional[float] = None


class Goodput(msgspec.Struct, kw_only=True, frozen=True):
    """The `share` of a run's paid time that went into new training steps, so far if it is active.

    `seconds` are paid, and `parts` divide them by cause: each second has one. `unpaid` are the
    seconds that are not billed. A cloud bills from some state on; on your own machines all time
    from the start on counts. Without a `share`, `unknown` is the reason. `until` is the time up to
    which the log of an active run has been read from its cloud: later time does not count.
    """

    share: Optional[float] = None
    seconds: float
    parts: dict[str, GoodputPart] = {}
    unpaid: dict[str, float] = {}
    dollars: Optional[float] = None
    unknown: Optional[str] = None
    until: Optional[str] = None


class _Collected(msgspec.Struct):
    """The part of the stored progress of collecting a run that goodput needs."""

    read_until: Optional[str] = None


def goodput_of(store: Store, run: RunRecord) -> Goodput:
    """The goodput of a run. Does not contact its target. Raises StoreError."""
    kept = None if run.ended else store.progress(run.run)
    until = msgspec.json.decode(kept, type=_Collected).read_until if kept else None
    if until is not None:
        run = msgspec.structs.replace(run, ended=until)
    events = StateReader(RunFolder(run.run).states).read()
    findings = [event for event in events if isinstance(event, FindingEvent)]
    found = break_down(spans_of(run, events), _evidence(store, run, findings))
    paid, cost = dict(found.paid), run_cost(run)
    unknown = found.unknown
    billed = round((cost.seconds or 0) * SECOND) if cost else 0
    if (missing := billed - sum(paid.values())) > _LEAST_MISSING:
        paid["unknown"] = paid.get("unknown", 0) + missing
        unknown = unknown or "rsctl has not observed all of the time that is billed"
    total = sum(paid.values())
    dollars = cost.dollars if cost else None
    is_known = total > 0 and found.unknown != NO_STEPS and "unknown" not in found.paid
    if not total:
        unknown = "it has not run"
    return Goodput(
        share=paid.get(NEW_STEPS, 0) / total if is_known else None,
        seconds=total / SECOND,
        parts={
            cause: GoodputPart(time / SECOND, None if dollars is None else dollars * time / total)
            for cause, time in paid.items()
        },
        unpaid={cause: time / SECOND for cause, time in found.unpaid.items()},
        dollars=dollars,
        unknown=unknown,
        until=until,
    )


def _evidence(store: Store, run: RunRecord, findings: list[FindingEvent]) -> Evidence:
    copies: list[Interval] = []
    checkpoints: list[Interval] = []
    ranks: list[MetricEvent] = []
    for metric in store.values(run.run, "input.*.seconds", *CHECKPOINTS, *STEP_GLOBS):
        if metric.name.startswith(RANK):
            ranks.append(metric)
        elif metric.name not in CHECKPOINTS:
            copies.append(_before(metric))
        elif is_chief(metric.replica):
            checkpoints.append(_before(metric))
    return Evidence(
        steps=[Step(_time(time), number) for time, number in store.steps(run.run)],
        restarts=_times(findings, RESTART_IN_PLACE),
        stalls=_stalls(run.run, _times(findings, STALL)),
        copies=copies,
        checkpoints=checkpoints,
        waits=[Wait(_time(time), share) for time, share in waits_of(ranks)],
    )


def _before(metric: MetricEvent) -> Interval:
    """The seconds up to the report of their number."""
    time = _time(metric.time)
    took = metric.value if 0 <= metric.value < _MOST_SECONDS else 0.0
    return Interval(time - round(took * SECOND), time)


def _times(findings: Iterable[FindingEvent], code: str) -> list[int]:
    return [_time(event.time) for event in findings if event.finding.code == code]


def _stalls(run: str, times: list[int]) -> list[Interval]:
    if not times:
        return []
    description = RunFolder(run).known_description()
    limit = description.stall if description else 0.0
    return [Interval(time - round(limit * SECOND), time) for time in times]


def _time(time: str) -> int:
    """As `moment`; 0 for an invalid time of a log."""
    try:
        return _second(time[:20]) + int(time[20:26])
    except ValueError:
        return 0


@lru_cache(maxsize=64)
def _second(beginning: str) -> int:
    """The time of `YYYY-MM-DDTHH:MM:SS.`, which many lines of a log share."""
    return moment(f"{beginning}000000Z")
