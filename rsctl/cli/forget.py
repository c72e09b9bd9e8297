"""`rsctl forget RUN`: give up what is known of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.api import forget_run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.findings import ExitCode, warning


@make_command("forget")
@options.errors_as_json
def command(
    run: options.RunId,
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
    done = forget_run(run, force=force)
    if done.left:
        remedy = "end it there, if it still runs"
        show_findings([warning("run", f"rsctl does not follow {done.left} any more", remedy)])
    kept = [str(path) for path in done.kept]
    print_message(
        f"{done.run} is forgotten" + (f"; its files stay in {' and '.join(kept)}" if kept else "")
    )
    if output == "json":
        print_json({"run": done.run, "kept": kept})
    return int(ExitCode.SUCCEEDED)
