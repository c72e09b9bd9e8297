"""`rsctl diff RUN RUN`: what differs between two runs, and what moved."""

from __future__ import annotations

from typing import Annotated

import typer

from rsctl.api import RunDiff, diff
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, print_message
from rsctl.runs.stream.sanitize import sanitize_text

_MOST_RANKS = 8


@make_command("diff")
def command(
    run: options.RunId,
    other: Annotated[
        str, typer.Argument(metavar="RUN", help="The run to compare with the first one.")
    ],
    output: options.Output = "text",
) -> None:
    """Show what differs between two runs, and what moved from the first to the second.

    The differences are of the job file, arguments, variables, code, image, versions and machines.
    What moved are the parts of a step, the times of each rank, and the metrics.

    Exit code: 0 regardless of the difference; `rsctl gate` decides.
    """
    found = diff(find_run(run), find_run(other))
    if output == "json":
        print_json(found)
    else:
        for line in _lines(found):
            typer.echo(sanitize_text(line))
        for remark in found.remarks:
            print_message(sanitize_text(remark))


def _lines(found: RunDiff) -> list[str]:
    before, after = found.sides
    lines = [f"{before.run} ({before.state.value}) -> {after.run} ({after.state.value})"]
    if found.differences:
        lines += ["differs:", *(f"  {difference}" for difference in found.differences)]
    else:
        lines.append("nothing differs: job file, arguments, code, versions and machines are equal")
    if most := found.moved_most:
        lines += ["moved most in a step:", f"  {most}"]
    steps = [part for part in found.steps if part is not most]
    if steps:
        lines += ["parts of a step:", *(f"  {part}" for part in steps)]
    if found.ranks:
        lines += ["ranks:", *(f"  {part}" for part in found.ranks[:_MOST_RANKS])]
        if more := len(found.ranks) - _MOST_RANKS:
            lines += [f"  and {more} more: -o json"] if more > 0 else []
    if found.metrics:
        lines += ["metrics:", *(f"  {metric}" for metric in found.metrics)]
    return lines
