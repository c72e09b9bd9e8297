"""What the commands that take RUN have in common."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from rsctl.cli.results import results_of
from rsctl.cli.show import print_message, show_findings
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.final_state import with_final_state
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Run, Store
from rsctl.targets import get, in_cloud
from rsctl.targets.base import Target


def find_run(store: Store, reference: str) -> tuple[Run, Target]:
    """A run, brought up to date, and its target. Raises RsctlError if there is none.

    The URL of a job in a cloud that was submitted elsewhere makes it a run of the store.
    """
    try:
        run = store.find(reference)
    except RsctlError:
        cloud = in_cloud(reference)
        if cloud is None:
            raise
        run = cloud.adopt(reference)
    bring_up_to_date(run)
    return with_final_state(store.find(run.run)), get(run.target)


def bring_all_up_to_date(runs: Iterable[Run]) -> None:
    """Reconcile runs, each by itself.

    Where this environment lacks what it takes to ask a cloud, the cloud is not asked again for
    every other run.
    """
    lost: set[str] = set()
    for run in runs:
        is_elsewhere = in_cloud(run.url) is not None and not is_rehearsed(run.run)
        if is_elsewhere and run.target in lost:
            print_message(f"{run.run} may be out of date too")
        elif bring_up_to_date(run) is ExitCode.ENVIRONMENT and is_elsewhere:
            lost.add(run.target)


def bring_up_to_date(run: Run) -> ExitCode:
    """Reconcile a run with its job; where that fails, what is known of it has to do.

    Whatever goes wrong is a warning about this one run: others must not suffer from it.
    """
    try:
        if emulator.is_lost(run.run):
            clear_dead_emulators()
        get(run.target).reconcile(run.run)
        return ExitCode.SUCCEEDED
    except Exception as problem:  # noqa: BLE001 - a damaged folder may raise anything
        failure = problem if isinstance(problem, RsctlError) else _unforeseen(problem)
    print_message(f"{run.run} may be out of date:")
    show_findings(replace(finding, severity="warning") for finding in failure.findings)
    return failure.exit_code


def _unforeseen(problem: Exception) -> RsctlError:
    if isinstance(problem, OSError):
        file = f"{problem.filename}: " if problem.filename else ""
        message = f"{file}{problem.strerror or problem}"
    else:
        message = f"{type(problem).__name__}: {problem}"
    return RsctlError(ExitCode.REFUSED, error("run", message, "rsctl forget gives it up"))


def clear_dead_emulators() -> None:
    """Remove the nodes that emulators have left which were killed."""
    from rsctl.emulators.nodes.owner import clear_dead

    clear_dead()


def refresh_run(store: Store, run: Run) -> Run:
    """A run of the store, brought up to date quietly."""
    if not run.state.is_final:
        with suppress(RsctlError):  # shown when the run was found
            get(run.target).reconcile(run.run)
    return with_final_state(store.get(run.run) or run)


def shown(store: Store, run: Run) -> dict[str, Any]:
    """A run as `-o json` prints it: without its plan, which is long."""
    fields: dict[str, Any] = msgspec.to_builtins(run)
    del fields["plan"], fields["metrics_spec"]
    fields["metrics"] = store.last_values(run.run)
    fields["rehearsed"] = is_rehearsed(run.run)
    fields["results"] = results_of(run)
    fields["facts"] = {fact.name: fact.value for fact in run.facts}
    return fields
