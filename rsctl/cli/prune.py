"""`rsctl prune`: remove old runs and benches, and optionally images and buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from rsctl.api import Finding, Store, runs
from rsctl.api.prune.items import Item, PruneLimits
from rsctl.api.prune.prune import Prune, find_engine
from rsctl.api.prune.removal import one_at_a_time
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.output import without_reader
from rsctl.cli.runs import show_outdated
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.silence import silence_told
from rsctl.cli.views.table import write_table
from rsctl.findings import ExitCode
from rsctl.job.units import Duration
from rsctl.runs.stream.formatting import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_AGE = "30d"
_NEWEST = 100
_HEAD = ("KIND", "NAME", "STATE", "ENDED (UTC)", "RUNS", "DISK")


def _parse_age(text: str) -> float:
    return 0.0 if text == "0" else float(options.parse_duration(text))


@make_command("prune")
def command(
    older_than: Annotated[
        Optional[float],
        typer.Option(
            "--older-than",
            metavar="AGE",
            parser=_parse_age,
            help="Remove only runs and benches that ended at least this long ago. Default: "
            f"{_AGE}, or 0 with --keep.",
        ),
    ] = None,
    keep: Annotated[
        Optional[int],
        typer.Option(
            "--keep",
            metavar="N",
            min=0,
            help=f"Keep the newest N runs. Default: {_NEWEST}, or 0 with --older-than.",
        ),
    ] = None,
    outputs: Annotated[
        bool,
        typer.Option("--outputs", help="Also remove outputs and checkpoints in RSCTL_HOME."),
    ] = False,
    buckets: Annotated[
        bool,
        typer.Option(
            "--buckets", help="Also remove the folders that represent buckets in rehearsals."
        ),
    ] = False,
    images: Annotated[
        bool,
        typer.Option(
            "--images",
            help="Also remove images that rsctl built here and that no remaining run uses.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")
    ] = False,
    output: options.Output = "text",
) -> int:
    """Remove runs and benches that have ended, with their logs.

    A bench is removed with all of its runs or not at all. The command keeps anything still in
    progress, what kept runs and benches use (baselines, checkpoints and other files of a run), runs
    with data that a tracker has not received, and everything in a cloud.

    Exit code: 0, or 3 if an item cannot be removed.
    """
    limits = _limits(older_than, keep, outputs)
    with silence_told():
        runs(on_outdated=_not_damaged)
    store = Store()
    with one_at_a_time(lambda: print_message("another rsctl prune is in progress; waiting for it")):
        program = find_engine() if images else None
        prune = Prune(store, limits)
        prune.select(buckets, program)
        if not dry_run:
            try:
                prune.remove(program)
            except KeyboardInterrupt:
                done = _counted(prune.items) or "nothing"
                print_message(f"interrupted; removed: {done}. The next prune removes the rest")
                raise
    show_findings(store.damage())
    show_findings(f for problem in prune.problems for f in problem.findings)
    if output == "json":
        print_json(prune.shown(dry_run))
    else:
        _write(prune, dry_run)
    return int(ExitCode.ENVIRONMENT if prune.problems else ExitCode.SUCCEEDED)


def _not_damaged(name: str, findings: tuple[Finding, ...]) -> None:
    """Print the items that could not be read at the end."""
    if not findings or findings[0].code != "damaged":
        show_outdated(name, findings)


def _limits(older_than: float | None, keep: int | None, outputs: bool) -> PruneLimits:
    """An option that is given disables the defaults of the others."""
    seconds = older_than if older_than is not None else Duration.parse(_AGE) if keep is None else 0
    newest = keep if keep is not None else _NEWEST if older_than is None else 0
    return PruneLimits(seconds, newest, outputs)


@without_reader()
def _write(prune: Prune, is_dry: bool) -> None:
    """Print the table, and the items that are old enough but are kept."""
    if prune.items:
        write_table([_HEAD, *map(_row, prune.items)])
    for name, reason in prune.kept:
        print_message(f"{name} stays: {reason}")
    if prune.shrunk:
        now = format_bytes(prune.database_bytes)
        print_message(f"the database shrank by {format_bytes(prune.shrunk)} to {now}")
    if not prune.items:
        print_message("nothing to remove")
        return
    done = "would be removed" if is_dry else "removed"
    print_message(f"{done}: {_counted(prune.items)}, {format_bytes(prune.bytes)}")


def _row(item: Item) -> tuple[str, ...]:
    state = item.state.value if item.state else ""
    ended = (item.ended or "")[:16].replace("T", " ")
    runs = str(len(item.runs)) if item.runs else ""
    return (item.kind, item.name, state, ended, runs, format_bytes(item.size))


def _counted(items: Sequence[Item]) -> str:
    """Counts such as `3 runs, 1 bench`."""
    plurals = {"run": "runs", "bench": "benches", "folder": "folders"}
    plurals |= {"bucket": "buckets", "image": "images", "checkout": "checkouts"}
    plurals |= {"bisect": "bisections"}
    counts = {kind: sum(item.kind == kind for item in items) for kind in plurals}
    counts["run"] += sum(len(item.runs) for item in items)
    return ", ".join(f"{n} {k if n == 1 else plurals[k]}" for k, n in counts.items() if n)
