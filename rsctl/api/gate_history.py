"""Gates by a history, and what a gate adds to one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import msgspec

from rsctl.api.gate_candidate import Candidate, RunBench, just_run
from rsctl.api.gate_decision import PreparedGate, prepare_gate
from rsctl.api.history import Recorded, commit_to_record, record_results, require_history
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.bench.commits import KnownCommit
from rsctl.bench.comparable import history_changes
from rsctl.bench.fingerprint import Fingerprint
from rsctl.bench.forecast import Forecast
from rsctl.bench.gate import Gate, evaluate, exit_code
from rsctl.bench.history import History, require_recordable, without
from rsctl.bench.history_files import read_history
from rsctl.bench.history_gate import (
    SEARCHED,
    WINDOW,
    HistoryBaseline,
    floors_of,
    history_baseline,
    with_limits,
    within_thresholds,
)
from rsctl.bench.history_series import HistorySeries, make_series
from rsctl.bench.results import Results
from rsctl.bench.rules import GateRules
from rsctl.bench.verdict import Verdict
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.git_location import GIT


@dataclass(frozen=True)
class HistoryGate(PreparedGate):
    """A gate whose baseline is the last commits of a history, or whose baseline it limits.

    The commits are those that were measured as the candidate was, on the same machines. `series`
    are without the candidate's own state and `known` with it; with `only_own` both have only that,
    which nothing is compared with.
    """

    history: str
    series: list[HistorySeries]
    window: int
    has_baseline: bool
    known: list[HistorySeries]
    only_own: bool

    def is_of(self, results: Results) -> bool:
        """Whether the baseline is what was measured itself."""
        return super().is_of(results) if self.has_baseline else self.only_own

    def like(self, results: Results) -> HistoryBaseline:
        """The window of the history that fits what was measured."""
        if self.only_own:
            return HistoryBaseline(Results(label=self.history, kind="baseline"), {})
        return history_baseline(
            self.series, self.history, self.candidate.name, self.window, results.fingerprint
        )

    def _forecasts(self, repeat: int) -> list[Forecast]:
        """A regression has to be beyond what single commits differ by, too."""
        found = super()._forecasts(repeat)
        if self.only_own:
            return found
        window = history_baseline(self.series, self.history, self.candidate.name, self.window)
        cells = len(self.candidate.cells)
        checks = len(found) * (cells + (cells > 1))
        return with_limits(found, window, checks, self.rules.alpha)

    def _condition_changes(self, planned: list[Fingerprint]) -> list[str]:
        if self.has_baseline:
            return super()._condition_changes(planned)
        return history_changes(self.known, self.candidate.name, planned, self.rules.floors)

    def _new_baseline(self) -> tuple[list[str], str]:
        if self.has_baseline:
            return super()._new_baseline()
        where = self.history
        if self.rules.is_history_from_file and not where.startswith(("gs://", "s3://", GIT)):
            where = os.path.relpath(os.path.join(self.candidate.folder, where))
        return ["rsctl", "gate", *self.candidate.job_arguments, "--record", where], ""

    @property
    def _is_by_bench(self) -> bool:
        return self.has_baseline and super()._is_by_bench

    def decide(self, results: Results) -> Gate:
        """The verdict of the runs that there are."""
        window = self.like(results)
        before = self._compared(results) if self.has_baseline else window.results
        gate = evaluate(before, results, self.rules.floors, self.rules.alpha)
        return within_thresholds(gate, window, results.cells, self.rules.alpha)

    def confirm(self, gate: Gate, results: Results, run: RunBench = just_run) -> Gate:
        """The verdict after fresh runs of the cells that are suspected. Raises RsctlError."""
        window = self.like(results)
        matched = self if self.has_baseline else replace(self, baseline=window.results)
        confirmed = PreparedGate.confirm(matched, gate, results, run)
        return within_thresholds(confirmed, window, results.cells, self.rules.alpha)

    def conclude(self, gate: Gate, results: Results, fail_on_improvement: bool = False) -> Gate:
        """The gate with what is better than the baseline by more than it may be worse."""
        matched = self if self.has_baseline else replace(self, baseline=self.like(results).results)
        return PreparedGate.conclude(matched, gate, results, fail_on_improvement)


def prepare_gate_of(
    candidate: Candidate,
    rules: GateRules,
    *,
    commit: str | None = None,
    on_outdated: OnOutdated = ignore,
) -> PreparedGate:
    """A gate by a baseline, by a history, or by both; nothing runs. Raises RsctlError.

    The last commits of the rules' history replace the baseline, or only limit it: what single
    commits differ by is not a regression. Without allowed regressions those of the history hold.
    Records of the candidate's own state do not count: of benches that measure the same, of their
    commits, and of `commit`, which its samples will be recorded at.
    """
    if rules.history is None:
        return prepare_gate(candidate, rules, on_outdated=on_outdated)
    history, most = rules.history, rules.window or WINDOW
    require_history(history, "gate.history" if rules.is_history_from_file else "--history")
    records = _read(candidate, rules)
    others = without(records, candidate.name, candidate.benches, commit)
    only_own = not _has(others, candidate)
    known = make_series(records, most=max(SEARCHED, most))
    is_same = only_own or len(others.records) == len(records.records)
    series = known if is_same else make_series(others, most=max(SEARCHED, most))
    found = history_baseline(series, history, candidate.name, most)
    if not rules.floors:
        rules = msgspec.structs.replace(rules, floors=floors_of(found))
    if not rules.floors:
        message = f"{history} has too few commits of {candidate.name} for a threshold"
        remedy = "give --max-regression METRIC=5%, or record at least 3 commits"
        raise RsctlError(ExitCode.USAGE, error("gate", message, remedy))
    before = found.results
    if rules.only_limit:
        before = prepare_gate(candidate, rules, on_outdated=on_outdated).baseline
    else:
        require_recordable(rules.floors, [series.name for series in before.series], history)
    candidate.require_metrics(rules.floors, before)
    limits = rules.only_limit
    return HistoryGate(candidate, before, rules, history, series, most, limits, known, only_own)


def _read(candidate: Candidate, rules: GateRules) -> History:
    folder = candidate.folder if rules.is_history_from_file else "."
    return read_history(rules.history or "", folder)


def _has(history: History, candidate: Candidate) -> bool:
    return any(record.job == candidate.name for record in history.records)


def recorded_only(results: Results) -> ExitCode:
    """The exit code of a gate that had nothing to compare with: failed runs never succeed."""
    is_whole = all(not cell.lost for cell in results.cells)
    return exit_code(Verdict.PASS if is_whole else Verdict.NO_DATA, results.cells)


class GateRecorder:
    """Appends a gate's samples to a history, with the commit that is checked out at its start."""

    def __init__(self, candidate: Candidate, location: str | None) -> None:
        """Raises RsctlError, before anything runs, if the commit is unknown or files differ."""
        self.location = require_history(location, "--record")
        self.candidate = candidate
        self._commit: KnownCommit | None = None
        if location is not None:
            self._commit = commit_to_record(candidate.folder, location)
            candidate.require_unchanged()

    @property
    def commit(self) -> str | None:
        """The commit that samples are recorded at; None if they are not."""
        return self._commit.commit if self._commit else None

    def rules_at_first(self, rules: GateRules) -> GateRules | None:
        """The rules by which a gate that records its first samples can judge; None if it can only
        record, because there is nothing to compare with yet.

        Without records of other states of the job the history is left out.
        """
        if self.location is None or (rules.history is not None and self._has_records(rules)):
            return rules
        has_baseline = rules.baseline is not None and (rules.only_limit or rules.history is None)
        return msgspec.structs.replace(rules, history=None) if has_baseline else None

    def _has_records(self, rules: GateRules) -> bool:
        try:
            records = _read(self.candidate, rules)
            own = self.candidate.name, self.candidate.benches, self.commit
            return _has(without(records, *own), self.candidate)
        except RsctlError as problem:
            if not any(finding.code == "no-history" for finding in problem.findings):
                raise
            return False

    def append(self, results: Results) -> Recorded | None:
        """Append the samples; None without a location, or without samples. Raises RsctlError."""
        has_data = any(series.known for series in results.series)
        if self.location is None or self._commit is None or not has_data:
            return None
        return record_results(results, self.candidate.name, self._commit, self.location)
