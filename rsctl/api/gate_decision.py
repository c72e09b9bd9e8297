"""Gates: whether a bench is worse than its baseline by more than is allowed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from msgspec.structs import replace

from rsctl.api.comparison import results_of
from rsctl.api.gate_candidate import Candidate, RunBench, cost_remarks, just_run
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.bench.baseline import require_measured
from rsctl.bench.baseline_files import is_location
from rsctl.bench.comparable import condition_changes, content_changes, refuse_changes
from rsctl.bench.decision import keep_decision
from rsctl.bench.fingerprint import Fingerprint
from rsctl.bench.forecast import Forecast, forecast, format_cost
from rsctl.bench.gate import Gate, confirm, evaluate
from rsctl.bench.history_gate import improvements, outdated_text
from rsctl.bench.results import Results
from rsctl.bench.rules import GateRules
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.git_location import GIT


@dataclass(frozen=True)
class PreparedGate:
    """A candidate, its baseline and the rules; the candidate may have remaining runs."""

    candidate: Candidate
    baseline: Results
    rules: GateRules

    def remarks(self) -> list[str]:
        """Sentences on what its repetitions can detect and, if runs remain, on their duration and
        cost.
        """
        cells, repeat = self.candidate.cells, self.candidate.repeat(self.rules.repeat)
        remarks = [metric.in_words() for metric in self._forecasts(repeat)]
        if (prepared := self.candidate.prepared) is not None:
            cost = format_cost(self.baseline, cells, repeat)
            bench = prepared.plan.new_bench(repeat)
            remarks += cost_remarks(self.candidate, bench, cost, self._own)
        return remarks

    def _forecasts(self, repeat: int) -> list[Forecast]:
        cells, rules = self.candidate.cells, self.rules
        return forecast(self.baseline, rules.floors, cells, repeat, rules.confirm, rules.alpha)

    def require_comparable(self, must_be_whole: bool = True) -> None:
        """Raise RsctlError if the plan of a job file shows that the baseline measured something
        else: the runs would not lead to a decision.
        """
        prepared = self.candidate.prepared
        if prepared is None:
            return
        changes = self._condition_changes(prepared.plan.fingerprints())
        if must_be_whole:
            changes += content_changes(self.baseline, self.candidate.cells, self.rules.floors)
        command, how = self._new_baseline()
        remedy = f"make a baseline of this job: {shlex.join(command)}{how}"
        refuse_changes(self.baseline.label, changes, remedy)

    def _condition_changes(self, planned: list[Fingerprint]) -> list[str]:
        return condition_changes(self.baseline.fingerprint, planned, self.rules.floors)

    def _new_baseline(self) -> tuple[list[str], str]:
        """The command that makes a baseline of the candidate, and what to do afterwards."""
        location, rules = self.rules.baseline or "", self.rules
        job = self.candidate.job_arguments
        repeat = ["--repeat", str(rules.repeat)] if rules.repeat else []
        if self._is_by_bench:
            times = str(self.candidate.repeat(rules.repeat))
            how = ", and give the ID of the bench as --baseline"
            return ["rsctl", "bench", "run", *job, "--repeat", times], how
        where = [] if rules.is_from_file else ["--baseline", location]
        is_in_git = location.startswith(GIT)
        how = f", and commit the file to {location.split(':')[1]}" if is_in_git else ""
        floors = [f"--max-regression={text}" for text in rules.given]
        return ["rsctl", "gate", *job, *where, *floors, *repeat, "--update-baseline"], how

    @property
    def _is_by_bench(self) -> bool:
        """Whether the baseline is a bench or a run of the store."""
        location = self.rules.baseline or ""
        return not (is_location(location) or location.endswith(".json"))

    def renewal(self, gate: Gate) -> str:
        """The step that makes the candidate of a gate the baseline, in the imperative."""
        if self._is_by_bench:
            return f"give --baseline {gate.candidate}"
        command, how = self._new_baseline()
        return f"record a new one with `{shlex.join(command)}`{how}"

    def measure(self, run: RunBench = just_run) -> Results:
        """Run the candidate's remaining cells; its samples. Raises RsctlError.

        The bench that the baseline is of is not the candidate's: its job is measured again.
        """
        results = self.candidate.measure(self.rules.repeat, run, self._own)
        require_measured(results)
        return results

    def is_of(self, results: Results) -> bool:
        """Whether the baseline is what was measured itself."""
        return results.label in self._own

    @property
    def _own(self) -> list[str]:
        """The baseline's label, and the bench or run that it is of."""
        return [*filter(None, (self.baseline.label, self.baseline.of))]

    def decide(self, results: Results) -> Gate:
        """The verdict of the runs that there are; no data if the baseline has the same runs."""
        return evaluate(self._compared(results), results, self.rules.floors, self.rules.alpha)

    def _compared(self, results: Results) -> Results:
        """The baseline to compare with: without samples if the results are of its own runs."""
        return replace(self.baseline, series=[]) if self.is_of(results) else self.baseline

    def conclude(self, gate: Gate, results: Results, fail_on_improvement: bool = False) -> Gate:
        """The gate with what is better than the baseline by more than it may be worse.

        With `fail_on_improvement` such a gate fails. Reports on its benches show it from now on.
        """
        better = improvements(self.baseline, results, self.rules.floors, gate, self.rules.alpha)
        code = gate.exit_code
        if better and fail_on_improvement and code in (ExitCode.SUCCEEDED, ExitCode.INCONCLUSIVE):
            code = int(ExitCode.GATE_FAILED)
        gate = replace(gate, outdated=[outdated_text(check) for check in better], exit_code=code)
        return self.candidate.with_message(keep_decision(gate, self.baseline))

    def must_confirm(self, gate: Gate) -> bool:
        """Whether fresh runs must confirm suspected regressions."""
        return bool(self.rules.confirm and gate.suspects)

    def confirm(self, gate: Gate, results: Results, run: RunBench = just_run) -> Gate:
        """The verdict after fresh runs of the cells that are suspected. Raises RsctlError."""
        cells = [check.cell for check in gate.suspects if check.cell is not None]
        if any(check.cell is None for check in gate.suspects):
            cells = [runs.cell for runs in results.cells]
        fresh = self.candidate.measure_again(cells, self.rules.confirm, run)
        return confirm(gate, self.baseline, results, fresh, self.rules.floors, self.rules.alpha)


def prepare_gate(
    candidate: Candidate, rules: GateRules, *, on_outdated: OnOutdated = ignore
) -> PreparedGate:
    """Read the baseline, and check that it can be judged by; nothing runs. Raises RsctlError."""
    if rules.baseline is None:
        remedy = (
            "give --baseline, or set gate.baseline in the job file; --update-baseline creates one"
        )
        finding = error("baseline", "there is no baseline to compare with", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    rules.require_floors("gate")
    folder = candidate.folder if rules.is_from_file else "."
    baseline = results_of(rules.baseline, folder=folder, on_outdated=on_outdated)
    require_measured(baseline)
    candidate.require_metrics(rules.floors, baseline)
    return PreparedGate(candidate, baseline, rules)


def gate_table(gate: Gate) -> list[list[str]]:
    """The checks as rows of text below their head, the worst first."""
    from rsctl.bench.formats.text import HEAD, check_row

    return [list(HEAD), *map(check_row, gate.worst_first)]
