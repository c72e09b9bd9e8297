"""`rsctl forget RUN`: give up what is known of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import bring_up_to_date
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.runs.forget import forget
from rsctl.runs.store import Run, Store, StoreError
from rsctl.targets import in_cloud


@make_command("forget")
@options.errors_as_json
def command(
    run: options.Run,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if it has not ended; a job in a cloud goes on."),
    ] = False,
    output: options.Output = "text",
) -> int:
    """Remove a run from the list, with its log.

    What it wrote to its outputs and checkpoints stays.

    Exit code: 0, or 2 if the run has not ended.
    """
    store = Store()
    name = store.identify(run)
    if known := _unfinished(store, name):
        if not force:
            raise RsctlError(ExitCode.USAGE, _goes_on(known))
        if in_cloud(known.url):
            remedy = "end it there, if it still runs"
            show_findings([warning("run", f"rsctl does not follow {known.url} any more", remedy)])
    kept = [str(path) for path in forget(store, name)]
    print_message(
        f"{name} is forgotten" + (f"; its files stay in {' and '.join(kept)}" if kept else "")
    )
    if output == "json":
        print_json({"run": name, "kept": kept})
    return int(ExitCode.SUCCEEDED)


def _unfinished(store: Store, name: str) -> Run | None:
    """The run if it has not ended, as far as is known here; None also if it is damaged."""
    try:
        known = store.get(name)
        if known and not known.state.is_final and not in_cloud(known.url):
            bring_up_to_date(known)
            known = store.get(name)
    except StoreError:
        return None
    return None if known is None or known.state.is_final else known


def _goes_on(run: Run) -> Finding:
    message = f"{run.run} is {run.state.value}, as far as is known"
    remedy = f"end it: rsctl cancel {run.run}   or forget it as it is, with --force"
    return error("run", message, remedy)
