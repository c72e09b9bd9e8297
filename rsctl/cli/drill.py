"""`rsctl drill JOB`: run a job under faults, and report what survives."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Optional

import typer

from rsctl.api import load
from rsctl.api.drill import prepare_drill
from rsctl.api.drill_report import write_html, write_junit
from rsctl.api.drill_verdict import FaultResult
from rsctl.cli import options
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.errors import keep_verdict
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.views.drill import format_result, print_drill
from rsctl.findings import ExitCode, RsctlError

_FAULTS = (
    "Faults: preemption, killed-worker, killed-reducer, stopped-node, notice-30s, notice-120s, "
    "stock-out, full-disk, dropped-node."
)

_Faults = Annotated[
    list[str],
    typer.Option(
        "--faults",
        metavar="FAULT,...",
        help="Only these faults, which must then be possible. Repeatable. Default: all.",
    ),
]
_Step = Annotated[
    Optional[int],
    typer.Option(
        "--at-step",
        metavar="N",
        min=1,
        help="The step at which the faults strike. Default: the middle of the job, after its "
        "first checkpoint.",
    ),
]
_Metric = Annotated[
    Optional[str],
    typer.Option(
        "--metric", "-m", metavar="NAME", help="The metric to compare. Default: the loss."
    ),
]


_Patience = Annotated[
    Optional[Any],
    typer.Option(
        "--patience",
        metavar="DURATION",
        parser=options.parse_duration,
        help="Time without progress after which a run hangs and is cancelled. Default: 2m, or "
        "limits.stall and a minute.",
    ),
]


def _parse_report(text: str) -> tuple[str, str]:
    kind, _, path = text.partition("=")
    if kind not in ("html", "junit") or not path:
        raise typer.BadParameter(f"{text!r} is not html=FILE or junit=FILE")
    return kind, path


_Report = Annotated[
    list[Any],
    typer.Option(
        "--report",
        metavar="KIND=FILE",
        parser=_parse_report,
        rich_help_panel=OUTPUT,
        help="Write a report: html=FILE, or junit=FILE for a CI system. Repeatable.",
    ),
]


@make_command("drill", epilog=_FAULTS)
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    faults: _Faults = [],
    step: _Step = None,
    metric: _Metric = None,
    patience: _Patience = None,
    rehearse: options.Rehearse = False,
    rehearse_with: options.RehearseWith = "auto",
    behaviour: options.Behaviour = [],
    reports: _Report = [],
    output: options.Output = "text",
) -> int:
    """Run a job under faults on this machine, and report whether it survives.

    The job runs once without a fault and once under each fault. A run that does not recover by
    itself is resumed from its checkpoints. Clouds are rehearsed.

    Exit code: 0 if the job survived all faults that are possible, otherwise 1; 2 if the job reports
    no loss; 130 if the drill was interrupted.
    """
    options.require_rehearsal(context, rehearse, rehearse_with, behaviour)
    context.with_resource(Interrupts().listening())
    file = load(job, set=settings, strict=False)
    drill = prepare_drill(
        file,
        target,
        faults=[name for text in faults for name in text.split(",") if name],
        rehearse=options.chosen_rehearsal(rehearse, rehearse_with, behaviour),
        metric=metric,
        step=step,
        patience=None if patience is None else float(patience),
    )
    show_findings(drill.findings, file)
    results: list[FaultResult] = []
    runs: list[str] = []
    names = [fault.name for fault in drill.faults]

    def write() -> None:
        """Write the JUnit files: a fault without a result is an error in them."""
        for path in _of_kind("junit", reports):
            write_junit(path, drill.job.name, names, results)

    def show_start(name: str, run: str) -> None:
        runs.append(run)
        what = {"reference": "without a fault", "resumed": "  resumed"}.get(name, name)
        print_message(f"{what}: {run}")

    def take(result: FaultResult) -> None:
        results.append(result)
        with suppress(RsctlError):  # said when the drill has ended
            write()
        print_message(format_result(result))

    write()
    try:
        found = drill.run(show_start, take)
    except KeyboardInterrupt:
        print_message(f"interrupted: {runs[-1] if runs else 'nothing'} is cancelled")
        return int(ExitCode.INTERRUPTED)
    pages = [partial(write_html, path, found) for path in _of_kind("html", reports)]
    show = partial(print_json if output == "json" else print_drill, found)
    return keep_verdict(found.exit_code, write, *pages, show)


def _of_kind(kind: str, reports: list[tuple[str, str]]) -> list[str]:
    return [path for of, path in reports if of == kind]
