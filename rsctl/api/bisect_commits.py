"""The commits of a bisection: each is a bench of the job file among its own files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Optional

import msgspec

from rsctl.api.gate_against import job_of_commit, require_own_source
from rsctl.api.gate_candidate import Candidate, RunBench, open_candidate
from rsctl.bench.checkouts import Checkout, check_out, remove_checkout
from rsctl.bench.fingerprint import Cell
from rsctl.bench.results import Results, cell_label
from rsctl.findings import ExitCode, RsctlError, error

_SKIPPED_CODES = (ExitCode.JOB_FAILED, ExitCode.TIMED_OUT)


class CannotMeasure(Exception):
    """A commit cannot be measured, which is its own fault."""


class CommitBenches:
    """Measures commits of the repository that a job file is in."""

    def __init__(self, path: Path, target: Optional[str], settings: tuple[str, ...]) -> None:
        self._path, self._target, self._settings = path, target, settings
        self._made: dict[str, Checkout] = {}

    def measure(
        self, commit: str, repeat: int, run: RunBench, cells: Optional[list[Cell]] = None
    ) -> Results:
        """The samples of a commit, of the given cells or of all.

        Raises CannotMeasure if it is the commit's fault, otherwise RsctlError.
        """
        candidate = self._open(commit)
        if cells is not None:
            lacking = [cell for cell in cells if cell not in candidate.cells]
            if lacking:
                raise CannotMeasure(f"its matrix has no cell {cell_label(lacking[0])}")
            candidate = candidate.only(cells)
        return _measure(candidate, repeat, run)

    def clean(self) -> None:
        """Remove the files of the commits, but for those that were there or that others use."""
        for checkout in self._made.values():
            with suppress(OSError):  # `rsctl prune` removes it later
                remove_checkout(checkout.commit, checkout.used)
        self._made.clear()

    def _open(self, commit: str) -> Candidate:
        checkout = check_out(commit, str(self._path.parent), "check out")
        if checkout.is_new or commit in self._made:
            self._made[commit] = checkout
        path = checkout.place_of(self._path)
        if not path.is_file():
            raise CannotMeasure(f"it has no {self._path.relative_to(checkout.top)}")
        try:
            job = job_of_commit(path, self._settings, checkout)
            candidate = open_candidate(job, self._target)
        except RsctlError as problem:
            if problem.exit_code is ExitCode.USAGE:  # the job file of that commit is invalid
                raise CannotMeasure(problem.summary) from None
            raise
        if candidate.prepared is not None:
            remedy = "search commits whose source is in the repository"
            require_own_source(candidate.prepared, checkout.folder, remedy)
        return candidate


def only_cells(results: Results, cells: Optional[list[Cell]]) -> Results:
    """The samples of some cells; all of them without `cells`."""
    if cells is None:
        return results
    return msgspec.structs.replace(
        results,
        series=[series for series in results.series if series.cell in cells],
        cells=[runs for runs in results.cells if runs.cell in cells],
    )


def _measure(candidate: Candidate, repeat: int, run: RunBench) -> Results:
    """Raises CannotMeasure if all runs of a cell have failed."""
    try:
        results = candidate.measure(repeat, run)
    except RsctlError as problem:
        if any(finding.code == "build" for finding in problem.findings):
            raise CannotMeasure(problem.summary) from None
        raise
    broken = [code for cell in results.cells if cell.has_failed for code in cell.failures]
    others = [code for code in broken if code not in _SKIPPED_CODES]
    if others:
        why = "; ".join(reason for cell in results.cells for reason in cell.lost[:1])
        message = f"runs of {results.label} failed for a reason outside of the job: {why}"
        remedy = "remove the reason, then run the same command again to continue"
        raise RsctlError(ExitCode(others[0]), error("bisect", message, remedy))
    if broken:
        why = "; ".join(reason for cell in results.cells for reason in cell.lost[:1])
        raise CannotMeasure(why)
    return results
