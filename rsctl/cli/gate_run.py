"""What a gate judges: a recorded bench, or a job file that it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Optional

import typer

from rsctl.api import Store
from rsctl.bench.gate import require_goals
from rsctl.bench.prepare import PreparedBench, reopen
from rsctl.bench.records import Bench, Benches, new_bench_id
from rsctl.bench.results import Results, Series, bench_results
from rsctl.bench.verdict import Floor
from rsctl.cli import bench_run
from rsctl.cli.bench_plain_view import PlainBenchView
from rsctl.cli.interrupts import Interrupts
from rsctl.findings import ExitCode, RsctlError, note
from rsctl.spec.document import read

REPEAT = 5
"""How often a cell is run by default."""

_ENDS = (ExitCode.INTERRUPTED, ExitCode.CANCELLED)


class How(NamedTuple):
    """How many runs go on at once, and whether what has been measured counts."""

    parallel: Optional[int] = None
    anew: bool = False


class Source:
    """A bench: one that is recorded, or one that `prepared` is to become."""

    def __init__(self, bench: Bench, prepared: PreparedBench | None, how: How) -> None:
        self._bench, self._prepared, self._how = bench, prepared, how
        self.name = bench.name
        self.cells = bench.cells
        self.gate: Mapping[str, Any] = bench.spec.get("gate") or {}
        self.folder = bench.folder or "."
        self.file = os.path.relpath(bench.file) if bench.file not in ("", "-") else None

    @property
    def will_run(self) -> bool:
        """Whether something may have to be run."""
        return self._prepared is not None

    def repeat(self, asked: int | None) -> int:
        """How often each cell is run."""
        return asked or REPEAT if self._prepared else self._bench.repeat

    def require_goals(self, floors: Mapping[str, Floor], known: Results) -> None:
        """Before anything runs: raises RsctlError if a metric has no goal on either side."""
        declared = self._bench.spec.get("metrics") or {}
        series = [
            Series(name=name, goal=about.get("goal"))
            for name, about in declared.items()
            if isinstance(about, dict)
        ]
        require_goals(floors, known, Results(label=self.name, kind="bench", series=series))

    def measure(self, store: Store, asked: int | None) -> Results:
        """The figures; a job file's missing runs are run first. Raises RsctlError."""
        if self._prepared is None:
            return bench_results(store, self._bench)
        wanted = self._prepared.new_bench(self.repeat(asked))
        self._bench = _run(store, self._prepared, wanted, self._how)
        return bench_results(store, self._bench, range(wanted.repeat))

    def again(self, store: Store, cells: Sequence[Mapping[str, Any]], times: int) -> Results:
        """The figures of fresh runs of some cells, as a bench of their own. Raises RsctlError."""
        prepared = self._prepared or reopen(self._bench)
        part = replace(prepared, cells=[c for c in prepared.cells if c.values in cells])
        bench = part.new_bench(times)
        # Not to be taken for the bench itself, by whoever asks for one of this definition.
        bench.bench, bench.definition = (
            new_bench_id(f"{bench.name}-confirm"),
            f"{bench.bench} again",
        )
        return bench_results(store, _run(store, part, bench, self._how._replace(anew=True)))


def open_source(
    context: typer.Context,
    store: Store,
    reference: str,
    settings: Sequence[str],
    target: str | None,
    how: How,
) -> Source:
    """A job file if there is such a file, else a bench of the store. Raises RsctlError."""
    if reference == "-" or os.path.isfile(reference) or reference.endswith((".yaml", ".yml")):
        document = read(reference, settings)
        prepared = bench_run.prepared_here(document, settings, target, "text")
        return Source(prepared.new_bench(1), prepared, how)
    if settings or target:
        context.fail("--set and --target are for a job file; a bench has been run as it is.")
    return Source(Benches(store).find(reference), None, how)


class _View(PlainBenchView):
    """Progress on stderr; the outcome is the gate's to show."""

    def finish(self, bench: Bench, exit_code: int) -> None:
        del bench, exit_code


def _run(store: Store, prepared: PreparedBench, wanted: Bench, how: How) -> Bench:
    """Run what is missing of a bench. What failed is the gate's to judge; an interruption ends."""
    bench = Benches(store).claim(wanted, anew=how.anew)
    interrupts = Interrupts()
    with interrupts.listening():
        is_ci = os.environ.get("CI") == "true"
        driving = bench_run.How(how.parallel, False, is_ci)
        code = bench_run.drive(prepared, bench, _View(), driving, interrupts)
    if code in [int(end) for end in _ENDS]:
        finding = note("interrupted", f"{bench.bench} is not complete: the same command goes on")
        raise RsctlError(ExitCode(code), finding)
    return Benches(store).get(bench.bench) or bench
