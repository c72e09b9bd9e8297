"""`rsctl profile RUN`: profile the ranks of a running local job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from rsctl.api.profiling import profile_run
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import without_reader
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, show_findings
from rsctl.findings import ExitCode


@make_command("profile")
def command(
    run: options.RunId,
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", min=1, max=3600, help="How long to sample.")
    ] = 10,
    ranks: Annotated[
        list[int],
        typer.Option("--rank", metavar="N", min=0, help="A rank; default: all. Repeatable."),
    ] = [],
    replicas: Annotated[
        list[str],
        typer.Option(
            "--replica",
            metavar="NAME",
            autocompletion=options.complete_replicas,
            help="The ranks of a replica, such as worker-1. Repeatable.",
        ),
    ] = [],
    folder: Annotated[
        Optional[Path],
        typer.Option("--folder", metavar="DIR", help="The folder of files. Default: RUN-profile."),
    ] = None,
    output: options.Output = "text",
) -> int:
    """Profile the ranks of a running job on target process or compose, by py-spy.

    The script need not change and is not stopped. Each rank has a file of stacks, which
    speedscope.app and flame graph tools read. Containers need root. To profile a job on another
    target, or certain steps, set the key profile in its job file.

    Exit code: 0, or 3 if a rank could not be profiled.
    """
    handle = find_run(run)
    where = folder if folder is not None else Path(f"{handle.id}-profile")
    profiles, findings = profile_run(handle, ranks, seconds, where, replicas)
    if output == "json":
        print_json({"run": handle.id, "profiles": [each.to_dict() for each in profiles]})
    else:
        with without_reader():
            for each in profiles:
                if not each.samples:
                    debug = f"rsctl debug {handle.id}"
                    typer.echo(
                        f"rank {each.rank}: no samples, because it slept; see where: {debug}"
                    )
                    continue
                shown = f"{each.communication:.0%} in torch.distributed"
                typer.echo(f"rank {each.rank}: {each.samples:,} samples, {shown}; {each.file}")
                for name, part in each.top:
                    typer.echo(f"  {part:6.1%}  {name}")
    show_findings(findings)
    return int(ExitCode.ENVIRONMENT if findings else ExitCode.SUCCEEDED)
