"""The candidate of a gate: a bench of the store, or a job file whose bench is run first."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Union

from rsctl.api.arguments import MOST_REPETITIONS, check_count, check_path, checked_names
from rsctl.api.bench_handle import Bench
from rsctl.api.bench_list import bench
from rsctl.api.bench_run import PreparedBench, claim, prepare_bench
from rsctl.api.gate_against import reopen_own
from rsctl.api.job_file import JobFile, Settings, load, setting_texts
from rsctl.bench.gate import Gate, require_goals, require_known
from rsctl.bench.paired_results import without_side
from rsctl.bench.prepare import plan_confirmation
from rsctl.bench.records import CANDIDATE, SIDE, Benches, BenchRecord, Cell
from rsctl.bench.results import Results, Series
from rsctl.bench.rules import GateRules, rules_of
from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.shell_words import path_word
from rsctl.runs.store import Store
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal

REPEAT = 5
"""The default number of runs of each cell of a job file for a gate."""

RunBench = Callable[[PreparedBench, Bench], object]
"""Runs the remaining runs of a bench until it ends; raises RsctlError if it does not complete."""

Judged = Union[Bench, JobFile, str, "os.PathLike[str]"]
"""A bench or its reference, or a job file or its path."""

MaxRegression = Union[Mapping[str, str], Iterable[str]]
"""How much worse metrics may be: `{"throughput": "5%"}`, or texts such as `throughput=5%`."""


def just_run(prepared: PreparedBench, bench: Bench) -> object:
    """Run a bench without showing progress."""
    return prepared.run(bench)


class Candidate:
    """A bench to judge; for a job file, `measure` runs the remaining runs.

    `prepared` is None for a bench of the store.
    """

    def __init__(self, record: BenchRecord, prepared: PreparedBench | None, new: bool) -> None:
        self.prepared = prepared
        self.record = record
        """The bench to judge; of a job file a bench that is not recorded yet."""
        self.new = new
        """Whether its job file is measured again though a bench measured the same."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.record.name

    @property
    def cells(self) -> list[Cell]:
        """The values of each cell; of a paired bench those of each pair."""
        if self.record.against is None:
            return self.record.cells
        cells = self.record.cells
        return [without_side(cell) for cell in cells if cell[SIDE] == CANDIDATE]

    @property
    def benches(self) -> list[str]:
        """The IDs of the benches of the store that measure the same, its own too."""
        with closing(Store()) as store:
            return [self.record.bench, *Benches(store).of_definition(self.record.definition)]

    @property
    def folder(self) -> str:
        """The folder of the job file, which its paths are relative to."""
        return self.record.folder or "."

    @property
    def file(self) -> str | None:
        """The job file; None if it was standard input."""
        file = self.record.file
        return os.path.relpath(file) if file not in ("", "-") else None

    def repeat(self, asked: int | None) -> int:
        """How often each cell is run."""
        return asked or REPEAT if self.prepared else self.record.repeat

    def rules(
        self,
        baseline: str | os.PathLike[str] | None = None,
        max_regression: MaxRegression = (),
        repeat: int | None = None,
        confirm: int | None = None,
        history: str | os.PathLike[str] | None = None,
        window: int | None = None,
        looks: int | None = None,
    ) -> GateRules:
        """The rules of the job file's `gate:`, overridden by these. Raises RsctlError."""
        for name, number in (("repeat", repeat), ("window", window), ("looks", looks)):
            check_count(name, number, 1, MOST_REPETITIONS)
        check_count("confirm", confirm, 0, MOST_REPETITIONS)
        if repeat is not None and self.prepared is None:
            message = "--repeat requires a job file; a bench has already run"
            remedy = "give the job file, or omit --repeat"
            raise RsctlError(ExitCode.USAGE, error("bench", message, remedy))
        if isinstance(max_regression, Mapping):
            max_regression = [f"{name}={floor}" for name, floor in max_regression.items()]
        block = self.record.spec.get("gate") or {}
        floors = checked_names("max_regression", max_regression)
        base = None if baseline is None else check_path("baseline", baseline)
        past = None if history is None else check_path("history", history)
        rules = rules_of(block, base, floors, repeat, confirm, past, window, looks)
        rules.floors.require_cells(self.cells)
        return rules

    def with_message(self, gate: Gate) -> Gate:
        """The gate; the receivers of the job's `notify` get a message if it found a regression."""
        if self.record.spec.get("notify"):
            from rsctl.results.tracking.background import start_regressed

            start_regressed(gate, self.record.spec)
        return gate

    def require_metrics(self, floors: Mapping[str, Floor], baseline: Results) -> None:
        """Raise RsctlError, before anything runs, if neither the job file nor the baseline has one
        of these metrics, or its goal.
        """
        declared = self.record.spec.get("metrics") or {}
        names = list(dict.fromkeys([*declared, *(series.name for series in baseline.series)]))
        require_known(floors, names, "the job file nor the baseline")
        series = [
            Series(name=name, goal=about.get("goal"))
            for name, about in declared.items()
            if isinstance(about, dict)
        ]
        require_goals(floors, baseline, Results(label=self.name, kind="bench", series=series))

    def require_unchanged(self) -> None:
        """Raise RsctlError if the job of a bench of the store has changed since it started."""
        if self.prepared is None:
            reopen_own(self.record)

    @property
    def job_arguments(self) -> list[str]:
        """The arguments of a command about the same job: its file, target and settings; or the ID
        of a bench of the store.
        """
        record = self.record
        if self.prepared is None:
            return [record.bench]
        target = ["--target", record.other_target] if record.other_target else []
        return [path_word(self.file or "JOB"), *target, *record.set_options]

    def only(self, cells: Sequence[Cell]) -> Candidate:
        """The candidate of a job file with some of its cells, as a bench of their own."""
        if self.prepared is None:
            raise ValueError(f"{self.record.bench} has already run")
        plan = self.prepared.plan
        part = replace(plan, cells=[cell for cell in plan.cells if cell.values in cells])
        prepared = replace(self.prepared, plan=part)
        return Candidate(part.new_bench(1), prepared, self.new)

    def measure(
        self,
        repeat: int | None = None,
        run: RunBench = just_run,
        excluded: Collection[str] = (),
    ) -> Results:
        """Run the remaining cells of a job file's bench; the samples. Raises RsctlError.

        A bench of the `excluded` IDs is not continued: a new one is run.
        """
        if self.prepared is None:
            return Bench(self.record).results()
        repetitions = self.repeat(repeat)
        bench = self.prepared.claim(repetitions, new=self.new, excluded=excluded)
        run(self.prepared, bench)
        self.record = bench.reload()
        return bench.results(range(repetitions))

    def measure_again(
        self, cells: Sequence[Cell], repeat: int, run: RunBench = just_run
    ) -> Results:
        """The samples of fresh runs of some cells, as a bench of their own. Raises RsctlError."""
        plan = self.prepared.plan if self.prepared else reopen_own(self.record)
        job = JobFile(plan.document, plan.settings)
        part, record = plan_confirmation(plan, self.record, cells, repeat)
        bench = claim(record, new=True)
        run(PreparedBench(job, part), bench)
        bench.reload()
        return bench.results()


def cost_remarks(
    candidate: Candidate, bench: BenchRecord, cost: str, excluded: Collection[str] = ()
) -> list[str]:
    """The cost of a bench's runs, and how many of them are done; empty if no run remains.

    A bench of the `excluded` IDs is not continued, as in `Candidate.measure`.
    """
    with closing(Store()) as store:
        done = Benches(store).succeeded(bench.definition, bench.repeat, excluded)
    if candidate.new or not done:
        return [cost]
    has = "has" if done == 1 else "have"
    is_left = done < len(bench.cells) * bench.repeat
    return [f"{cost}; {done} of them {has} already succeeded"] if is_left else []


def open_candidate(
    source: Judged,
    target: str | None = None,
    *,
    set: Settings = (),
    new: bool = False,
    rehearse: Rehearsal | None = None,
) -> Candidate:
    """A job file, which is read and planned, or a bench of the store. Raises RsctlError.

    `set` overrides keys of a job file that is given by its path, as in `load`. With `new` it is
    measured again even if a bench with the same definition exists. With `rehearse` the cloud is
    emulated on this machine.
    """
    if isinstance(source, JobFile):
        return _of_job_file(source, target, new, rehearse)
    if not isinstance(source, Bench) and _is_job_file(source):
        return _of_job_file(load(source, set=set), target, new, rehearse)
    if rehearse is not None:
        message = "--rehearse requires a job file; a bench has already run"
        raise RsctlError(ExitCode.USAGE, error("bench", message, "give the job file"))
    if target or setting_texts(set):
        message = "--set and --target require a job file; a bench has already run with its settings"
        finding = error("bench", message, "give the job file, or omit --set and --target")
        raise RsctlError(ExitCode.USAGE, finding)
    handle = source if isinstance(source, Bench) else bench(os.fspath(source))
    return Candidate(handle.record, None, new)


def _is_job_file(source: str | os.PathLike[str]) -> bool:
    check_path("source", source)
    path = os.fspath(source)
    is_named = not isinstance(source, str) or path.endswith((".yaml", ".yml"))
    return path == "-" or is_named or os.path.isfile(path)


def _of_job_file(
    job: JobFile, target: str | None, new: bool, rehearse: Rehearsal | None
) -> Candidate:
    prepared = prepare_bench(job, target, rehearse=rehearse)
    return Candidate(prepared.plan.new_bench(1), prepared, new)
