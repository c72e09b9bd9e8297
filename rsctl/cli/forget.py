"""`rsctl forget RUN`: remove rsctl's records of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.api import forget_run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.silence import silence_told
from rsctl.findings import warning


@make_command("forget")
def command(
    run: options.RunId,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Remove the run even if it has not ended or a tracker lacks data of it; a job in "
            "a cloud continues.",
        ),
    ] = False,
    output: options.Output = "text",
) -> None:
    """Remove a run from the list, with its log.

    Its outputs and checkpoints are kept.

    Exit code: 0, or 2 if the run has not ended, a tracker lacks data of it, or another run uses its
    files.
    """
    with silence_told(run):
        done = forget_run(run, force=force)
    if done.left:
        remedy = "end it there, if it still runs"
        show_findings([warning("run", f"rsctl no longer follows {done.left}", remedy)])
    kept = [str(path) for path in done.kept]
    print_message(
        f"removed the records of {done.run}"
        + (f"; its files remain in {' and '.join(kept)}" if kept else "")
    )
    if output == "json":
        print_json({"run": done.run, "kept": kept})
