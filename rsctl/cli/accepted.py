"""Errors after a target has accepted a job: the job continues, and must not be submitted again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rsctl.api import ResultUnknown, Run, RunRecord
from rsctl.cli.errors import findings_of_error
from rsctl.cli.output import abandon_stdout


@contextmanager
def once_accepted(accepted: Callable[[], RunRecord | None]) -> Iterator[None]:
    """Raise any error in this context as ResultUnknown.

    `accepted` returns the record of the run, or None if its job was not accepted: then the error
    stays as it is.
    """
    try:
        yield
    except ResultUnknown:
        raise
    except Exception as problem:  # the job continues after any error
        record = accepted()
        if record is None:
            raise
        _drop_unwritten()
        raise ResultUnknown(record, *findings_of_error(problem, may_repeat=False)) from None


def latest_record(run: Run) -> RunRecord:
    """The record of a run, also if the store cannot be read."""
    try:
        return run.reload()
    except Exception:  # noqa: BLE001 - its error is about to be shown
        return run.record


def _drop_unwritten() -> None:
    """Discard output that standard output does not take, so that the exit does not fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        abandon_stdout()
