"""A gate by a history: a baseline of the last commits, and thresholds by how much those differ."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rsctl.bench.checks import MetricCheck
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.forecast import Forecast
from rsctl.bench.gate import Gate, check_key, evaluate, exit_code
from rsctl.bench.history import short_commit
from rsctl.bench.history_series import CommitPoint, HistorySeries
from rsctl.bench.results import CellRuns, Results, Series, cell_label, describe_cell
from rsctl.bench.stats import stdev, student_t
from rsctl.bench.steps import middle
from rsctl.bench.verdict import ALPHA, Floor, Verdict, worst
from rsctl.findings import ExitCode, RsctlError, error

WINDOW = 20
"""The number of commits that are a baseline, if none is given."""

SEARCHED = 300
"""The number of commits at the end of a history in which a gate looks for steps."""

_OF_POWER = 0.8416  # standard deviations that 80 % of a normal distribution are below
_FEWEST = 3  # commits of which a threshold can be computed


class Threshold(NamedTuple):
    """By how much a single commit may be worse than the window's median.

    `deviation` is the standard deviation of one further commit, by the commits' medians in the unit
    of the metric, and `level` the size of the window's median.
    """

    deviation: float
    level: float
    commits: int

    @property
    def amount(self) -> float:
        """The one-sided 95 % prediction limit, as a part of the window's median."""
        return self.limit(ALPHA, is_relative=True)

    def limit(self, alpha: float, is_relative: bool) -> float:
        """The deviation that one further commit exceeds with probability alpha, by Student's t."""
        size = self.level if is_relative else 1.0
        return student_t(1 - alpha, self.commits - 1) * self.deviation / size

    def detectable(self, floor: Floor, alpha: float) -> float:
        """The regression of a commit that is beyond floor and limit in 80 % of cases."""
        size = self.level if floor.is_relative else 1.0
        limit = self.limit(alpha, floor.is_relative)
        return max(floor.amount, limit) + _OF_POWER * self.deviation / size


class HistoryBaseline(NamedTuple):
    """The last commits of a job's series as a baseline, with the thresholds by metric and cell."""

    results: Results
    thresholds: dict[tuple[str, str], Threshold]

    def of(self, check: MetricCheck) -> list[Threshold]:
        """The thresholds of a check; for the check across all cells those of its metric."""
        cell = None if check.cell is None else cell_label(check.cell)
        return [
            threshold
            for (name, label), threshold in self.thresholds.items()
            if name == check.metric and cell in (None, label)
        ]


def history_baseline(
    series: Sequence[HistorySeries],
    label: str,
    job: str,
    most: int,
    like: Fingerprint | None = None,
) -> HistoryBaseline:
    """The runs of the last `most` commits since the last step, of each metric and cell of a job.

    Of several series of one metric and cell it takes the one that was measured as `like`, if there
    is one, otherwise the one with the latest commit: values of different conditions are never
    mixed. Raises RsctlError if the job has no series.
    """
    mine = [one for one in series if one.job == job]
    if not mine:
        names = ", ".join(dict.fromkeys(one.job for one in series)) or "none"
        message = f"{label} has no records of the job {job}"
        remedy = (
            f"record it first: rsctl gate JOB --record {shlex.quote(label)}; jobs in it: {names}"
        )
        raise RsctlError(ExitCode.USAGE, error("history", message, remedy))
    chosen = _chosen(mine, like)
    fixed: dict[str, CellPrint] = {}
    definitions: dict[str, dict[str, Any]] = {}
    results = Results(label=label, kind="baseline")
    thresholds: dict[tuple[str, str], Threshold] = {}
    for one in chosen:
        window = one.window(most)
        key = cell_label(one.cell)
        fixed.setdefault(key, CellPrint(one.cell, one.fixed))
        definitions.setdefault(one.metric, one.definition)
        results.series.append(
            Series(
                name=one.metric,
                unit=one.unit,
                goal=one.goal,
                cell=one.cell,
                values=[value for point in window for value in point.values],
            )
        )
        if window[-1].committed >= results.made:
            results.made, results.fingerprint.shown = window[-1].committed, one.shown
        if threshold := _threshold(window):
            thresholds[one.metric, key] = threshold
    results.cells = [CellRuns(cell=entry.cell) for entry in fixed.values()]
    results.fingerprint.cells, results.fingerprint.metrics = list(fixed.values()), definitions
    results.label = f"{label}, {_extent(chosen, most)}"
    return HistoryBaseline(results, thresholds)


def _extent(chosen: Sequence[HistorySeries], most: int) -> str:
    """The commits of a baseline, by the job's own metrics, and the step for the worse that they
    begin at: a gate that passes after it says nothing about the commits before.
    """
    own = [one for one in chosen if not one.metric.startswith("run.")] or chosen
    longest = max(len(one.window(most)) for one in own)
    text = f"last {longest} commits" if longest > 1 else "last commit"
    for one in own:
        step = one.steps[-1] if one.steps else None
        if step and step.is_worse and one.window(most) == one.window(len(one.points)):
            what = f"{describe_cell(one.cell, one.metric)} became worse ({step.size_text})"
            return f"{text}, since {short_commit(step.commit)}, where {what}"
    return text


def floors_of(baseline: HistoryBaseline) -> dict[str, Floor]:
    """The thresholds as allowed regressions, of the job's own metrics that have a goal.

    For a metric of several cells the largest.
    """
    found: dict[str, Floor] = {}
    for series in baseline.results.series:
        threshold = baseline.thresholds.get((series.name, cell_label(series.cell)))
        if threshold is None or not series.goal or series.name.startswith("run."):
            continue
        known = found.get(series.name)
        amount = max(threshold.amount, known.amount if known else 0.0)
        found[series.name] = Floor(_rounded(amount))
    return found


def with_limits(
    forecasts: Sequence[Forecast], baseline: HistoryBaseline, checks: int, alpha: float = ALPHA
) -> list[Forecast]:
    """The forecasts, by the largest limit of a metric's cells; so many checks share alpha."""

    def limited(known: Forecast) -> Forecast:
        mine = [t for (name, _), t in baseline.thresholds.items() if name == known.metric]
        if known.detectable is None or not mine:
            return known
        share = alpha / max(1, checks)
        least = max(each.detectable(known.floor, share) for each in mine)
        return known._replace(detectable=max(known.detectable, least))

    return [limited(each) for each in forecasts]


def within_thresholds(
    gate: Gate, baseline: HistoryBaseline, cells: Sequence[CellRuns] = (), alpha: float = ALPHA
) -> Gate:
    """A gate in which a regression that the window's own commits also show is inconclusive.

    The checks share alpha. `cells` are the candidate's: one whose runs have all failed decides the
    exit code then.
    """
    share = alpha / max(1, len(gate.checks))
    checks = [_within(check, baseline.of(check), share) for check in gate.checks]
    if checks == gate.checks:
        return gate
    verdict = worst([check.verdict for check in checks])
    code = int(exit_code(verdict, cells)) if verdict is not gate.verdict else gate.exit_code
    return msgspec.structs.replace(gate, checks=checks, verdict=verdict, exit_code=code)


def improvements(
    baseline: Results,
    candidate: Results,
    floors: Mapping[str, Floor],
    gate: Gate,
    alpha: float = ALPHA,
) -> list[MetricCheck]:
    """The checks of a gate that are better by more than may be worse, by the same test.

    A curve is better if its worst part is.
    """
    reversed_gate = evaluate(candidate, baseline, floors, alpha)
    better = {
        check_key(check)
        for check in reversed_gate.checks
        if check.verdict is Verdict.REGRESSED and check.effect is not None
    }
    return [
        check
        for check in gate.checks
        if check_key(check) in better and (check.steps is None or _is_better(check))
    ]


def _is_better(check: MetricCheck) -> bool:
    """Whether the worst part of a curve is better by more than it may be worse."""
    effect = check.effect or 0.0
    return (effect if check.goal == "max" else -effect) > check.floor


def outdated_text(check: MetricCheck) -> str:
    """By how much a check is better than its baseline, for people."""
    effect = check.effect or 0.0
    amount = f"{100 * abs(effect):.3g} %" if check.is_relative else f"{abs(effect):.4g}"
    return f"{check.title} is {amount} better"


def _chosen(mine: Sequence[HistorySeries], like: Fingerprint | None) -> list[HistorySeries]:
    groups: dict[tuple[str, str], list[HistorySeries]] = {}
    for one in mine:
        groups.setdefault((one.metric, cell_label(one.cell)), []).append(one)
    return [max(group, key=lambda one: _rank(one, like)) for group in groups.values()]


def _rank(one: HistorySeries, like: Fingerprint | None) -> tuple[bool, str]:
    is_alike = like is not None and (
        like.of_cell(one.cell) == one.fixed and like.metrics.get(one.metric) == one.definition
    )
    return is_alike, one.points[-1].committed


def _threshold(window: Sequence[CommitPoint]) -> Threshold | None:
    values = [point.value for point in window]
    level = middle(values)
    if len(values) < _FEWEST or not level:
        return None
    found = Threshold(math.sqrt(1 + 1 / len(values)) * stdev(values), abs(level), len(values))
    return found if math.isfinite(found.amount) else None


def _within(check: MetricCheck, thresholds: Sequence[Threshold], alpha: float) -> MetricCheck:
    if check.verdict is not Verdict.REGRESSED or check.effect is None or not thresholds:
        return check
    limit, commits = max((t.limit(alpha, check.is_relative), t.commits) for t in thresholds)
    if abs(check.effect) > limit:
        return check
    amount = f"{100 * limit:.2g} %" if check.is_relative else f"{limit:.4g}"
    reason = (
        f"exceeds the allowed regression, but single ones of the last {commits} commits differ by "
        f"up to {amount}, too"
    )
    return msgspec.structs.replace(check, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _rounded(amount: float) -> float:
    """Up to a tenth of a percent, and at least that."""
    return max(math.ceil(1000 * amount), 1) / 1000
