"""Runs the benches for a gate, with progress on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rsctl.api import (
    Bench,
    Candidate,
    CiReport,
    PreparedBench,
    Rehearsal,
    open_candidate,
    write_unfinished,
)
from rsctl.cli.bench_run import RunOptions, drive
from rsctl.cli.errors import keep_verdict
from rsctl.cli.interrupts import Interrupts, cancels_on_interrupt
from rsctl.cli.show import show_findings
from rsctl.cli.views.bench_plain import PlainBenchView
from rsctl.findings import ExitCode, RsctlError, note

_ENDS = (ExitCode.INTERRUPTED, ExitCode.CANCELLED, ExitCode.RESULT_UNKNOWN)


def open_source(
    reference: str,
    target: str | None,
    settings: list[str],
    new: bool = False,
    rehearse: Rehearsal | None = None,
) -> Candidate:
    """A bench from the store, or a job file, whose findings are shown. Raises RsctlError."""
    candidate = open_candidate(reference, target, set=settings, new=new, rehearse=rehearse)
    if candidate.prepared is not None:
        show_findings(candidate.prepared.findings, candidate.prepared.job)
    return candidate


class BenchRunner:
    """Runs the remaining cells of a bench; at most `parallel` runs at a time.

    If it is interrupted or an error ends it, it writes the `reports` that need no verdict, about
    the runs so far.
    """

    def __init__(self, parallel: int | None, reports: Sequence[CiReport] = ()) -> None:
        self._options = RunOptions(parallel, False, cancels_on_interrupt(None), raises=True)
        self._reports = reports

    def __call__(self, prepared: PreparedBench, bench: Bench) -> None:
        """Run the bench. The gate judges failed runs; all else raises RsctlError."""
        try:
            with Interrupts().listening() as interrupts:
                code = drive(prepared, bench, _View(), self._options, interrupts)
            if code in _ENDS:
                message = f"{bench.id} is not complete: to continue, run the same command "
                message += "without --new"
                raise RsctlError(ExitCode(code), note("interrupted", message))
        except RsctlError:
            keep_verdict(1, partial(write_unfinished, self._reports, bench.id))
            raise


class _View(PlainBenchView):
    """Shows progress on stderr; the gate shows the outcome."""

    def finish(self, bench: Bench, exit_code: int) -> None:
        del bench, exit_code
