"""The gate: each metric of each cell of a candidate against a baseline, to one verdict.

`evaluate` decides by the runs that there are, `confirm` by these and fresh ones of what was
suspected. The rule is in `verdict`; what can be compared at all is in `checks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Optional

import msgspec

from rsctl.bench.checks import MetricCheck, UndecidedCheck, conclude, fill, make_cases
from rsctl.bench.differences import Difference
from rsctl.bench.fingerprint import Cell, refusals, shown_differences, with_repetitions
from rsctl.bench.formats.html import html_table
from rsctl.bench.formats.text import HEAD, check_row
from rsctl.bench.records import Against, worst_exit_code
from rsctl.bench.results import CellRuns, Results, Series, cell_label
from rsctl.bench.step_parts import BUCKETS, NO_STEPS, PARTS, Moved, causes, moved_values
from rsctl.bench.verdict import (
    ALPHA,
    CONFIRMED,
    NO_EVIDENCE,
    WORST_FIRST,
    Evidence,
    Floor,
    Verdict,
    adjusted,
    decide,
    decide_confirmed,
    shares,
    worst,
)
from rsctl.findings import ExitCode, RsctlError, error, first_of
from rsctl.job.gate_checks import OF_THE_RUN, metric_of
from rsctl.job.suggestions import close_match
from rsctl.runs.stream.sanitize import sanitize_text

_HEADLINES = {
    Verdict.PASS: "no regression beyond the allowed limits",
    Verdict.REGRESSED: "regressed",
    Verdict.INCONCLUSIVE: "inconclusive: these runs are not sufficient for a decision",
    Verdict.NO_DATA: "no data for a decision",
}
_MOST = 4
"""Metrics of a kind that the headline names."""


class Gate(msgspec.Struct, kw_only=True):
    """The outcome. `refused` says in what a baseline was measured otherwise, so that it was not
    taken; `differences` is what the change under test may have changed. `failures` are the exit
    codes of the candidate's runs that have failed, `baseline_failures` those of a baseline that ran
    beside it: `against` it, in turn. `outdated` says what is better than the baseline by more than
    it may be worse. `confirmation` is the bench of the fresh runs. `moved` are the parts of a step
    that became longer in the cells that regressed, the worst first; `lacks_steps` says that only
    one side of what regressed has recorded them. `rehearsed` is whether the
    candidate ran in an emulated cloud on this machine. `diverged` has each metric, also one
    without a check, that ends in values that are not finite, though the baseline has values of it.
    `shortened` has each metric of which a run logged at most half as many values as any run of the
    baseline: its training may have ended early.
    """

    verdict: Verdict
    exit_code: int
    baseline: str
    candidate: str
    checks: list[MetricCheck]
    refused: list[Difference] = []
    differences: list[Difference] = []
    failures: list[int] = []
    against: Optional[Against] = None
    baseline_failures: list[int] = []
    outdated: list[str] = []
    confirmation: Optional[str] = None
    moved: list[Moved] = []
    lacks_steps: bool = False
    rehearsed: bool = False
    diverged: list[str] = []
    shortened: list[str] = []

    def _repr_html_(self) -> str:
        return html_table(self.headline, [HEAD, *map(check_row, self.worst_first)])

    @property
    def missing_steps(self) -> str | None:
        """Why it is not known which part of a step became longer, and what to do."""
        return NO_STEPS if self.lacks_steps else None

    @property
    def suspects(self) -> list[MetricCheck]:
        """The checks that a confirmation would repeat."""
        return [check for check in self.checks if check.suspected and not check.confirmed]

    @property
    def worst_first(self) -> list[MetricCheck]:
        """The checks, the worst first; regressions by their size."""

        def size(check: MetricCheck) -> float:
            if check.effect is None and check.verdict is Verdict.REGRESSED:
                return -math.inf  # it has diverged
            return -abs(check.effect or 0.0) / (check.floor or 1.0)

        return sorted(self.checks, key=lambda c: (WORST_FIRST.index(c.verdict), size(c)))

    @property
    def is_tolerable(self) -> bool:
        """Whether only missing runs or data prevent a verdict: no run has failed or diverged, and
        the baseline measured the same thing.
        """
        is_decided = self.verdict in (Verdict.PASS, Verdict.REGRESSED)
        return not (is_decided or self.refused or self.has_failed_runs)

    @property
    def is_too_good(self) -> bool:
        """Whether the gate fails because of an outdated baseline (`--fail-on-improvement`)."""
        is_worse = self.verdict is Verdict.REGRESSED
        return bool(self.outdated) and not is_worse and self.exit_code == ExitCode.GATE_FAILED

    @property
    def outdated_headline(self) -> str:
        """A line with all that is better than an outdated baseline."""
        return f"baseline is outdated: {'; '.join(self.outdated)}"

    @property
    def has_failed_runs(self) -> bool:
        """Whether a run of either side has failed, or one of the candidate has diverged."""
        return bool(self.failures or self.baseline_failures or self.diverged)

    @property
    def headline(self) -> str:
        """The verdict in one line, for people."""
        counts = [
            f"{number} {verdict.value}"
            for verdict in WORST_FIRST
            if (number := sum(check.verdict is verdict for check in self.checks))
        ]
        counted = f" ({', '.join(counts)})" if len(self.checks) > 1 else ""
        text = f"{self.candidate} against {self.baseline}: {_HEADLINES[self.verdict]}{counted}"
        if self.failures:
            text += f"; runs of the candidate failed: {len(self.failures)}"
        if self.baseline_failures:
            text += f"; runs of the baseline failed: {len(self.baseline_failures)}"
        if self.diverged:
            text += f"; diverged: {first_of(self.diverged, _MOST)}"
        if self.shortened:
            text += f"; fewer values were logged: {first_of(self.shortened, _MOST)}"
        if self.rehearsed:
            text += "; a rehearsal on this machine, which does not measure the cloud"
        return sanitize_text(text)


def require_known(floors: Iterable[str], names: list[str], holders: str) -> None:
    """Raises RsctlError for a metric that is not among the names of those that `holders` have, or
    that every run has.
    """
    of_runs = [f"run.{name}" for name in OF_THE_RUN]
    for unknown in floors:
        if unknown not in of_runs and not {unknown, metric_of(unknown)} & {*names}:
            near = close_match(unknown, [*names, *of_runs])
            remedy = f"did you mean {near}?" if near else f"metrics: {', '.join(names) or 'none'}"
            message = f"neither {holders} has a metric {unknown!r}"
            raise RsctlError(ExitCode.USAGE, error("gate", message, remedy))


def require_goals(floors: Mapping[str, Floor], *sides: Results) -> None:
    """Raises RsctlError if a metric has no declared goal."""
    for name in floors:
        names = {name, metric_of(name)}
        goals = {s.goal for side in sides for s in side.series if s.name in names}
        if goals and goals == {None}:
            message = f"the goal of {name} is unknown"
            remedy = f"set metrics.{name}.goal: max or min in the job file, and measure again"
            raise RsctlError(ExitCode.USAGE, error("goal", message, remedy))


def evaluate(
    baseline: Results, candidate: Results, floors: Mapping[str, Floor], alpha: float = ALPHA
) -> Gate:
    """The verdict of the runs that there are. Raises RsctlError if a metric has no goal."""
    require_goals(floors, baseline, candidate)
    cases = make_cases(baseline, candidate, floors)
    judge(cases, alpha)
    return make_gate(baseline, candidate, cases)


def judge(cases: Sequence[UndecidedCheck], alpha: float = ALPHA) -> None:
    """Decide the checks by the runs that there are."""
    shared = [_share(case, cases, alpha) for case in cases]
    evidence = [case.weigh(share or 1.0) for case, share in zip(cases, shared, strict=True)]
    levels = _levels(cases, evidence, alpha)
    for case, found, level, share in zip(cases, evidence, levels, shared, strict=True):
        if not case.cells:
            continue
        fill(case, found, level, share)
        verdict = decide(found, level, case.floor, alpha)
        case.check.suspected = found.is_beyond(case.floor)
        conclude(case, verdict, found, alpha)


def confirm(
    first: Gate,
    baseline: Results,
    candidate: Results,
    fresh: Results,
    floors: Mapping[str, Floor],
    alpha: float = ALPHA,
) -> Gate:
    """The verdict after fresh runs of the cells of suspected checks; others stay as they were."""
    cases = make_cases(baseline, together(candidate, fresh), floors)
    judge_again(first, make_cases(baseline, fresh, floors), cases, alpha)
    return make_gate(baseline, candidate, cases, fresh)


def judge_again(
    first: Gate,
    fresh: Sequence[UndecidedCheck],
    cases: Sequence[UndecidedCheck],
    alpha: float = ALPHA,
) -> None:
    """Decide the suspected checks of a gate by `fresh` runs alone, and by `cases` of all runs."""
    alone = {check_key(case.check): case for case in fresh}
    suspects = {check_key(check) for check in first.suspects}
    kept = {check_key(check): check for check in first.checks}
    shared = [_share(case, cases, alpha * CONFIRMED) for case in cases]
    evidence = [
        case.weigh(share or 1.0) if check_key(case.check) in suspects else NO_EVIDENCE
        for case, share in zip(cases, shared, strict=True)
    ]
    levels = _levels(cases, evidence, alpha * CONFIRMED)
    for case, pooled, level, share in zip(cases, evidence, levels, shared, strict=True):
        key = check_key(case.check)
        if key in suspects:
            _confirm(case, alone.get(key), pooled, level, share, alpha)
        else:
            case.check = kept.get(key, case.check)


def _confirm(
    case: UndecidedCheck,
    alone: UndecidedCheck | None,
    pooled: Evidence,
    level: float,
    share: float,
    alpha: float,
) -> None:
    """Decide a suspected check; `alone` is the same of the fresh runs only."""
    check = case.check
    check.suspected = check.confirmed = True
    if alone is None or not alone.cells or not case.cells:
        why = alone.check.reason if alone else None
        check.verdict = Verdict.NO_DATA
        check.reason = f"suspected, and the fresh runs cannot confirm it: {why or 'no data'}"
        return
    fill(case, pooled, level, share)
    verdict = decide_confirmed(alone.weigh(), pooled, level, case.floor, alpha)
    case.lost = [*alone.lost, *case.lost]
    conclude(case, verdict, pooled, alpha)
    if check.verdict is Verdict.INCONCLUSIVE:
        check.reason = "suspected, and fresh runs did not confirm it"


def _levels(
    cases: Sequence[UndecidedCheck], evidence: Sequence[Evidence], alpha: float
) -> list[float]:
    """The p of each case, adjusted for the number of cases."""
    is_across = [case.check.cell is None for case in cases]
    pairs = list(zip(evidence, is_across, strict=True))
    single, across = adjusted(
        [e.p for e, a in pairs if not a], [e.p for e, a in pairs if a], _smallest(cases), alpha
    )
    one, all_of = iter(single), iter(across)
    return [next(all_of) if a else next(one) for a in is_across]


def _share(case: UndecidedCheck, cases: Sequence[UndecidedCheck], alpha: float) -> float:
    """The alpha that a case has for itself, were it the most significant."""
    across = sum(c.check.cell is None for c in cases)
    single, whole = shares(len(cases) - across, across, _smallest(cases), alpha)
    return whole if case.check.cell is None else single


def _smallest(cases: Sequence[UndecidedCheck]) -> float:
    """The least p that the case with the most runs can reach."""
    return min((case.smallest_p for case in cases), default=1.0)


def make_gate(
    baseline: Results,
    candidate: Results,
    cases: Sequence[UndecidedCheck],
    fresh: Results | None = None,
) -> Gate:
    """The gate of checks that are decided; a metric that has diverged in all runs has regressed."""
    checks = [case.check for case in cases]
    sides = [candidate, *([fresh] if fresh else [])]
    diverged = list(_diverged(baseline, sides))
    _fail_diverged(checks, diverged)
    runs = [*candidate.cells, *(fresh.cells if fresh else [])]
    verdict = worst([check.verdict for check in checks])
    refused = [
        difference
        for check in checks
        if check.cell is not None and candidate.of_cell(check.cell) is not None
        for difference in refusals(
            baseline.fingerprint, candidate.fingerprint, check.cell, check.metric
        )
    ]
    both = _regressed_steps(baseline, candidate, checks)
    steps = [sides for sides in both if all(sides)]
    return Gate(
        verdict=verdict,
        exit_code=int(exit_code(verdict, runs)),
        baseline=baseline.label,
        candidate=candidate.label,
        checks=checks,
        refused=list(dict.fromkeys(refused)),
        differences=shown_differences(baseline.fingerprint, candidate.fingerprint),
        failures=[code for cell in runs for code in cell.failures],
        confirmation=fresh.label if fresh else None,
        moved=next(filter(None, (causes(moved_values(*sides)) for sides in steps)), []),
        lacks_steps=not steps and any(map(any, both)),
        rehearsed=candidate.is_rehearsed,
        diverged=[f"{s.title} in {s.diverged} of {len(s.values)} runs" for s in diverged],
        shortened=list(_shortened(baseline, sides)),
    )


def _diverged(baseline: Results, sides: Sequence[Results]) -> Iterator[Series]:
    """The series with diverged runs of all sides, of which a comparable baseline has values."""
    for _, series in _comparable(
        baseline, sides, lambda old, new: bool(new.diverged and old.known)
    ):
        yield series


def _shortened(baseline: Results, sides: Sequence[Results]) -> Iterator[str]:
    """The metrics of which some run logged at most half as many values as the baseline.

    The verdict stays: a script may log less often, or reach its goal sooner.
    """

    def is_shorter(old: Series, new: Series) -> bool:
        return bool(old.logged and new.logged and new.logged * 2 <= old.logged)

    for before, series in _comparable(baseline, sides, is_shorter):
        yield f"{series.title} {series.logged} instead of {before.logged}"


def _comparable(
    baseline: Results, sides: Sequence[Results], concerns: Callable[[Series, Series], bool]
) -> Iterator[tuple[Series, Series]]:
    """The series of the baseline and of a side that `concerns` chooses, if measured alike."""
    for side in sides:
        for series in side.series:
            before = baseline.find(series.name, series.cell)
            if (
                before
                and concerns(before, series)
                and not refusals(baseline.fingerprint, side.fingerprint, series.cell, series.name)
            ):
                yield before, series


def _fail_diverged(checks: Sequence[MetricCheck], diverged: Sequence[Series]) -> None:
    """A metric that has diverged in all runs has regressed: noise does not explain it, as failures.

    So has its curve.
    """
    for series in diverged:
        if series.diverged < len(series.values):
            continue
        for check in checks:
            if check.cell == series.cell and metric_of(check.metric) == series.name:
                check.verdict = Verdict.REGRESSED
                check.reason = f"the last value of {series.name} is not finite in any run"


def _regressed_steps(
    baseline: Results, candidate: Results, checks: Sequence[MetricCheck]
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """The medians of a step's parts on both sides in each cell that regressed, worst first."""
    regressed = [
        check
        for check in checks
        if check.verdict is Verdict.REGRESSED and check.steps is None and check.effect is not None
    ]
    regressed.sort(key=lambda check: -abs(check.effect or 0.0))
    cells = [check.cell for check in regressed if check.cell is not None]
    return [(_step_medians(baseline, cell), _step_medians(candidate, cell)) for cell in cells]


def _step_medians(side: Results, cell: Cell) -> dict[str, float]:
    """The medians of a cell's runs of each part of their step."""
    found = {name: side.find(name, cell) for name in (*PARTS, BUCKETS)}
    return {n: median(series.known) for n, series in found.items() if series and series.known}


def exit_code(verdict: Verdict, cells: Sequence[CellRuns] = ()) -> ExitCode:
    """The exit code of a gate: if all runs of a cell have failed, the exit code of the bench."""
    if verdict is Verdict.REGRESSED:
        return ExitCode.GATE_FAILED
    broken = [code for cell in cells if cell.has_failed for code in cell.failures]
    worst_failure = worst_exit_code(broken)
    if worst_failure is not None:
        return worst_failure
    return ExitCode.SUCCEEDED if verdict is Verdict.PASS else ExitCode.INCONCLUSIVE


def together(first: Results, again: Results) -> Results:
    """The runs of both, series by series."""
    series = []
    for one in first.series:
        series.append(one.followed_by(again.find(one.name, one.cell)))
    prints = with_repetitions(first.fingerprint, again.fingerprint)
    return msgspec.structs.replace(first, series=series, fingerprint=prints)


def check_key(check: MetricCheck) -> tuple[str, str]:
    """The metric and the cell of a check: no two checks of a gate share both."""
    return check.metric, "*" if check.cell is None else cell_label(check.cell)
