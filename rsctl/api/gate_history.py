"""Gates by a history, and what a gate adds to one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from rsctl.api.gate_candidate import Candidate, RunBench, just_run
from rsctl.api.gate_decision import PreparedGate, prepare_gate
from rsctl.api.history import Recorded, commit_to_record, record_results, require_history
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.bench.comparable import history_changes
from rsctl.bench.fingerprint import Fingerprint
from rsctl.bench.gate import Gate, evaluate, exit_code
from rsctl.bench.history import History
from rsctl.bench.history_files import read_history
from rsctl.bench.history_gate import (
    SEARCHED,
    WINDOW,
    HistoryBaseline,
    floors_of,
    history_baseline,
    within_thresholds,
)
from rsctl.bench.history_series import HistorySeries, make_series
from rsctl.bench.results import Results
from rsctl.bench.rules import GateRules
from rsctl.bench.verdict import Verdict
from rsctl.findings import ExitCode, RsctlError, error


@dataclass(frozen=True)
class HistoryGate(PreparedGate):
    """A gate whose baseline is the last commits of a history, or whose baseline it limits.

    The commits are those that were measured as the candidate was, on the same machines.
    """

    history: str
    series: list[HistorySeries]
    window: int
    has_baseline: bool

    def like(self, results: Results) -> HistoryBaseline:
        """The window of the history that fits what was measured."""
        return history_baseline(
            self.series, self.history, self.candidate.name, self.window, results.fingerprint
        )

    def _condition_changes(self, planned: list[Fingerprint]) -> list[str]:
        if self.has_baseline:
            return super()._condition_changes(planned)
        return history_changes(self.series, self.candidate.name, planned, self.rules.floors)

    def _new_baseline(self) -> tuple[list[str], str]:
        if self.has_baseline:
            return super()._new_baseline()
        job, where = self.candidate.job_arguments, ["--record", self.history]
        return ["rsctl", "gate", *job, *where], ""

    def decide(self, results: Results) -> Gate:
        """The verdict of the runs that there are."""
        window = self.like(results)
        before = self.baseline if self.has_baseline else window.results
        gate = evaluate(before, results, self.rules.floors, self.rules.alpha)
        return within_thresholds(gate, window, results.cells)

    def confirm(self, gate: Gate, results: Results, run: RunBench = just_run) -> Gate:
        """The verdict after fresh runs of the cells that are suspected. Raises RsctlError."""
        window = self.like(results)
        matched = self if self.has_baseline else replace(self, baseline=window.results)
        confirmed = PreparedGate.confirm(matched, gate, results, run)
        return within_thresholds(confirmed, window, results.cells)

    def conclude(self, gate: Gate, results: Results, fail_on_improvement: bool = False) -> Gate:
        """The gate with what is better than the baseline by more than it may be worse."""
        matched = self if self.has_baseline else replace(self, baseline=self.like(results).results)
        return PreparedGate.conclude(matched, gate, results, fail_on_improvement)


def prepare_gate_of(
    candidate: Candidate, rules: GateRules, *, on_outdated: OnOutdated = ignore
) -> PreparedGate:
    """A gate by a baseline, by a history, or by both; nothing runs. Raises RsctlError.

    The last commits of the rules' history replace the baseline, or only limit it: what single
    commits differ by is not a regression. Without allowed regressions those of the history hold.
    """
    if rules.history is None:
        return prepare_gate(candidate, rules, on_outdated=on_outdated)
    history, most = rules.history, rules.window or WINDOW
    require_history(history, "gate.history" if rules.is_history_from_file else "--history")
    series = make_series(_read(candidate, rules), most=max(SEARCHED, most))
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
    candidate.require_known(rules.floors, before)
    candidate.require_goals(rules.floors, before)
    return HistoryGate(candidate, before, rules, history, series, most, rules.only_limit)


def _read(candidate: Candidate, rules: GateRules) -> History:
    folder = candidate.folder if rules.is_history_from_file else "."
    return read_history(rules.history or "", folder)


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
        if location is not None:
            self._commit = commit_to_record(candidate.folder, location)
            candidate.require_unchanged()

    def rules_at_first(self, rules: GateRules) -> GateRules | None:
        """The rules by which a gate that records its first samples can judge; None if it can only
        record, because there is nothing to compare with yet.

        Without records of the job the history is left out.
        """
        if self.location is None or (rules.history is not None and self._has_records(rules)):
            return rules
        has_baseline = rules.baseline is not None and (rules.only_limit or rules.history is None)
        return msgspec.structs.replace(rules, history=None) if has_baseline else None

    def _has_records(self, rules: GateRules) -> bool:
        try:
            return any(r.job == self.candidate.name for r in _read(self.candidate, rules).records)
        except RsctlError as problem:
            if not any(finding.code == "no-history" for finding in problem.findings):
                raise
            return False

    def append(self, results: Results) -> Recorded | None:
        """Append the samples; None without a location, or without samples. Raises RsctlError."""
        if self.location is None or not any(series.known for series in results.series):
            return None
        return record_results(results, self.candidate.name, self._commit, self.location)
