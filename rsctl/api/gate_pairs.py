"""Paired gates: a baseline and a candidate that run in turn, as one bench."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from rsctl.api.bench_run import PreparedBench, claim
from rsctl.api.gate_against import reopen_pairs
from rsctl.api.gate_candidate import Candidate, RunBench, cost_remarks, just_run
from rsctl.api.gate_packing import pair_and_pack
from rsctl.bench.comparable import condition_changes, refuse_changes
from rsctl.bench.decision import keep_decision
from rsctl.bench.fingerprint import Cell
from rsctl.bench.gate import Gate, require_goals, require_known
from rsctl.bench.paired_forecast import forecast_pairs, format_paired_cost
from rsctl.bench.paired_gate import confirm_pairs, evaluate_pairs
from rsctl.bench.paired_plan import PairedPlan, plan_paired_confirmation
from rsctl.bench.paired_results import PairedResults, paired_results, without_side
from rsctl.bench.records import BASELINE, CANDIDATE, SIDE, Benches, BenchRecord
from rsctl.bench.results import Results, Series
from rsctl.bench.rules import GateRules
from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.store import Store

_OTHER = "give both sides the same with --set; a change of what is measured has no baseline"


@dataclass(frozen=True)
class PreparedPairs:
    """A candidate, its baseline and the rules, before their remaining runs.

    `prepared` is None for a paired bench of the store.
    """

    candidate: Candidate
    rules: GateRules
    prepared: PreparedBench | None
    plan: PairedPlan | None

    def remarks(self) -> list[str]:
        """Sentences on what its repetitions can detect and, if runs remain, on their duration and
        cost.
        """
        if self.plan is None:
            return []
        cells, repeat = _pairs(self.plan), self.candidate.repeat(self.rules.repeat)
        with closing(Store()) as store:
            known = _earlier(store, self.plan)
        rules = self.rules
        forecasts = forecast_pairs(known, rules.floors, cells, repeat, rules.confirm, rules.alpha)
        remarks = [metric.in_words() for metric in forecasts]
        plans = [cell.submission for cell in self.plan.cells]
        timeout, is_billed = self.plan.job.limits.timeout, self.plan.rehearsal is None
        cost = format_paired_cost(known, plans, repeat, timeout, is_billed)
        return remarks + cost_remarks(self.candidate, self.plan.new_bench(repeat), cost)

    def measure(self, run: RunBench = just_run) -> PairedResults:
        """Run the remaining runs of both sides; their samples. Raises RsctlError."""
        if self.prepared is None or self.plan is None:
            return _results(self.candidate.record)
        repeat = self.candidate.repeat(self.rules.repeat)
        bench = claim(self.plan.new_bench(repeat), self.candidate.new)
        run(self.prepared, bench)
        return _results(bench.reload(), range(repeat))

    def decide(self, results: PairedResults) -> Gate:
        """The verdict of the pairs that there are."""
        return evaluate_pairs(results, self.rules.floors, self.rules.alpha)

    def must_confirm(self, gate: Gate) -> bool:
        """Whether fresh pairs are to confirm what is suspected."""
        return bool(self.rules.confirm and gate.suspects)

    def confirm(self, gate: Gate, results: PairedResults, run: RunBench = just_run) -> Gate:
        """The verdict after fresh pairs of the cells that are suspected. Raises RsctlError."""
        prepared, plan = self.prepared, self.plan
        if prepared is None or plan is None:
            prepared, plan = reopen_pairs(self.candidate.record)
        cells = [check.cell for check in gate.suspects if check.cell is not None]
        if any(check.cell is None for check in gate.suspects):
            cells = [runs.cell for runs in results.candidate.cells if runs.runs]
        with closing(Store()) as store:
            measured = Benches(store).find(results.candidate.label)
        part, record = plan_paired_confirmation(plan, measured, cells, self.rules.confirm)
        bench = claim(record, new=False)
        run(PreparedBench(prepared.job, part), bench)
        fresh = _results(bench.reload(), range(self.rules.confirm))
        return confirm_pairs(gate, results, fresh, self.rules.floors, self.rules.alpha)

    def conclude(self, gate: Gate) -> Gate:
        """The gate, which reports on its benches show from now on. Raises RsctlError."""
        return self.candidate.with_message(keep_decision(gate))


def prepare_pairs(
    candidate: Candidate,
    rules: GateRules,
    against: str | os.PathLike[str] | None,
    target: str | None = None,
) -> PreparedPairs:
    """Read the baseline and plan both sides; nothing runs. Raises RsctlError.

    Without `against` the candidate is a paired bench of the store.
    """
    rules.require_floors("gate")
    if against is None:
        return PreparedPairs(candidate, rules, None, None)
    if candidate.prepared is None:
        message = "--against requires a job file; a bench has already run with its baseline"
        finding = error("against", message, "give the job file, or omit --against")
        raise RsctlError(ExitCode.USAGE, finding)
    repeat = candidate.repeat(rules.repeat)
    prepared, plan = pair_and_pack(candidate.prepared, against, target, repeat)
    _require_declared(plan, rules.floors)
    sides = [plan.fingerprint(side) for side in (BASELINE, CANDIDATE)]
    refuse_changes(plan.against.label, condition_changes(sides[0], sides[1:], rules.floors), _OTHER)
    return PreparedPairs(candidate, rules, prepared, plan)


def _require_declared(plan: PairedPlan, floors: dict[str, Floor]) -> None:
    """Raise RsctlError for a metric that no job file can have, or that has no goal."""
    sides = [plan.fingerprint(side).metrics for side in (BASELINE, CANDIDATE)]
    names = list(dict.fromkeys(name for side in reversed(sides) for name in side))
    require_known(floors, names, "job file")
    declared = [Series(name=n, goal=about.get("goal")) for s in sides for n, about in s.items()]
    require_goals(floors, Results(label="the job files", kind="bench", series=declared))


def _pairs(plan: PairedPlan) -> list[Cell]:
    """The cells of a plan, each once."""
    return [without_side(c.values) for c in plan.cells if c.values[SIDE] == CANDIDATE]


def _results(bench: BenchRecord, repetitions: range | None = None) -> PairedResults:
    with closing(Store()) as store:
        return paired_results(store, bench, repetitions or range(bench.repeat))


def _earlier(store: Store, plan: PairedPlan) -> PairedResults | None:
    """The samples of the bench that is continued, or else of the latest paired one of the job."""
    benches = [b for b in Benches(store).benches() if b.against and b.trials]
    benches = [bench for bench in benches if bench.rehearsed == (plan.rehearsal is not None)]
    same = [bench for bench in benches if bench.definition == plan.definition]
    name, target = plan.job.name, plan.target.info.name
    alike: Sequence[BenchRecord] = [b for b in benches if (b.name, b.target) == (name, target)]
    for bench in [*same, *alike]:
        found = paired_results(store, bench, range(bench.repeat))
        if any(series.known for series in found.candidate.series):
            return found
    return None
