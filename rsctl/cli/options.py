"""Options and arguments that several commands share, as annotations of their functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from rsctl.cli.command import OUTPUT
from rsctl.target_info import BUILT_IN, has_target, target_names

if TYPE_CHECKING:
    from rsctl.api import Rehearsal

_REHEARSAL = "Rehearsal"
_MOST_NAMES = 51  # that a shell is offered: @last, and the newest 50 that begin as typed


def _parse_target(name: str) -> str:
    """Parse a target; for another tool's name of it, name rsctl's. Raises typer.BadParameter."""
    if has_target(name):
        return name
    from rsctl.job.other_launchers import our_value

    ours = our_value(name)
    if ours in BUILT_IN:
        raise typer.BadParameter(f"{name!r} is not the name of a target; rsctl calls it {ours}")
    raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, target_names()))}")


def _complete_targets(incomplete: str) -> list[str]:
    return _beginning(incomplete, target_names())


def _complete_runs(incomplete: str) -> list[str]:
    from rsctl.api import known_runs

    return _complete_ids(incomplete, lambda: known_runs(limit=0))


def complete_replicas(ctx: typer.Context, incomplete: str) -> list[str]:
    """The replicas of the run that the command line names before."""
    from rsctl.api import known_replicas
    from rsctl.findings import RsctlError

    try:
        names = known_replicas(ctx.params.get("run") or (ctx.args or [""])[0])
    except RsctlError:
        return []
    return _beginning(incomplete, names)


def _complete_keys(incomplete: str) -> list[str]:
    from rsctl.job.key_paths import complete_key

    return [f"{key}=" for key in complete_key(incomplete)]


def _complete_benches(incomplete: str) -> list[str]:
    from rsctl.api import benches

    return _complete_ids(incomplete, lambda: [bench.id for bench in benches()])


def _complete_ids(incomplete: str, ids: Callable[[], list[str]]) -> list[str]:
    from rsctl.findings import RsctlError

    try:
        return _beginning(incomplete, ["@last", *ids()])[:_MOST_NAMES]
    except RsctlError:
        return []


def report_option(kinds: Iterable[str]) -> Any:
    """The option `--report KIND=FILE` of a command that writes these kinds; returns CiReports."""
    return typer.Option(
        "--report",
        metavar="KIND=FILE",
        parser=_parse_report,
        rich_help_panel=OUTPUT,
        help=f"Write a file for a CI system: {', '.join(kinds)}. Repeatable.",
    )


def target_option(text: str) -> Any:
    """The option `--target TARGET`, with its help."""
    return typer.Option(
        "--target",
        "-t",
        metavar="TARGET",
        parser=_parse_target,
        autocompletion=_complete_targets,
        help=text,
    )


def _parse_report(text: str) -> Any:
    """Parse `junit=gate.xml` and similar. Raises typer.BadParameter."""
    from rsctl.api import CI_REPORTS, CiReport

    kind, _, path = text.partition("=")
    if kind not in CI_REPORTS or not path:
        kinds = ", ".join(f"{kind}=FILE" for kind in CI_REPORTS)
        raise typer.BadParameter(f"{text!r} is not one of {kinds}")
    return CiReport(kind, path)


def _parse_money(text: str) -> Any:
    """Parse `40USD`. Raises typer.BadParameter."""
    from rsctl.job.units import Money

    return parse_unit(text, Money.parse)


def _parse_setting(text: str) -> str:
    """Parse `KEY=VALUE` as rsctl may have printed it. Raises typer.BadParameter."""
    from rsctl.job.secret_names import HIDDEN

    if text.endswith(f"={HIDDEN}"):
        message = f"{HIDDEN} in {text} replaces a secret, which rsctl does not store: "
        raise typer.BadParameter(
            message + "write its value, or ${NAME} with a variable that has it"
        )
    return text


def parse_duration(text: str) -> Any:
    """Parse `90s`. Raises typer.BadParameter."""
    from rsctl.job.units import Duration

    return parse_unit(text, Duration.parse)


def parse_choice(name: str, names: Collection[str]) -> str:
    """Parse one of some names. Raises typer.BadParameter."""
    if name not in names:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, names))}.")
    return name


def parse_unit(text: str, parse: Callable[[str], Any]) -> Any:
    """Parse a quantity by its type. Raises typer.BadParameter with the reason."""
    try:
        return parse(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{text!r} is not {': '.join(map(str, problem.args))}") from None


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


Job = Annotated[str, typer.Argument(metavar="JOB", help="A job file; - is standard input.")]
RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        autocompletion=_complete_runs,
        help="A run's ID, a unique prefix of it, @last, or a job's URL.",
    ),
]
Resume = Annotated[
    Optional[str],
    typer.Option(
        "--resume",
        metavar="RUN",
        autocompletion=_complete_runs,
        help="Continue from the checkpoints of an earlier run: they become the job's checkpoints.",
    ),
]
BenchArgument = Annotated[
    str,
    typer.Argument(
        metavar="BENCH",
        autocompletion=_complete_benches,
        help="A bench's ID, a unique prefix of it, @last, or a job file: its last bench.",
    ),
]
Target = Annotated[
    Optional[str],
    target_option(f"Where it runs: {', '.join(BUILT_IN)}. Default: the file's own target."),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        parser=_parse_setting,
        autocompletion=_complete_keys,
        help="Override a key of the file, such as workers.count=8. Repeatable.",
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        "-w",
        help="Update the output when it changes; end with the run or bench, with its exit code.",
    ),
]
CancelOnInterrupt = Annotated[
    Optional[bool],
    typer.Option(
        "--cancel-on-interrupt/--detach-on-interrupt",
        help="Whether Ctrl-C cancels running jobs. Default: leave them running; cancel them "
        "if CI=true.",
    ),
]
Parallel = Annotated[
    Optional[int],
    typer.Option(
        "--parallel",
        "-p",
        metavar="N",
        min=1,
        help="Number of concurrent runs. Default: 1 on this machine, otherwise the number of "
        "cells up to 20.",
    ),
]
New = Annotated[
    bool,
    typer.Option("--new", help="Measure again, even if results exist."),
]
Pack = Annotated[
    Optional[bool],
    typer.Option(
        "--pack/--no-pack",
        help="Run all repetitions one after the other inside one job. Default: bench.pack of the "
        "job file, otherwise yes for --against in a cloud.",
    ),
]
MaxCost = Annotated[
    Optional[Any],
    typer.Option(
        "--max-cost",
        metavar="AMOUNT",
        parser=_parse_money,
        help="The most that all runs started by this command can cost together, such as 40USD. "
        "Default: no limit.",
    ),
]
MetricNames = Annotated[
    list[str],
    typer.Option("--metric", "-m", metavar="NAME", help="Show only this metric. Repeatable."),
]
Runner = Literal["auto", "docker", "process"]
"""The runner of an emulated cloud's nodes."""
Rehearse = Annotated[
    bool,
    typer.Option(
        "--rehearse",
        rich_help_panel=_REHEARSAL,
        help="Emulate the cloud on this machine; send nothing.",
    ),
]
RehearseWith = Annotated[
    Runner,
    typer.Option(
        "--rehearse-with",
        rich_help_panel=_REHEARSAL,
        help="The runner of nodes. auto: docker if an engine answers, otherwise process.",
    ),
]
Behaviour = Annotated[
    list[str],
    typer.Option(
        "--behaviour",
        metavar="NAME=VALUE",
        rich_help_panel=_REHEARSAL,
        help="Behavior of the cloud, such as preemptions=1; docs/reference/behaviours.md lists "
        "all. Repeatable.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65535,
        show_default="a free port",
        help="The port to listen on, on loopback only.",
    ),
]
Limit = Annotated[
    int,
    typer.Option("--limit", "-n", metavar="N", min=0, help="Maximum number to list; 0 lists all."),
]
Output = Annotated[
    Literal["text", "json"],
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=OUTPUT,
        help="json makes standard output machine-readable.",
    ),
]


def with_pack(settings: list[str], pack: bool | None) -> list[str]:
    """The settings with that of `--pack` or `--no-pack`."""
    return settings if pack is None else [*settings, f"bench.pack={str(pack).lower()}"]


def require_rehearsal(
    context: typer.Context, rehearse: bool, rehearse_with: str, behaviour: list[str]
) -> None:
    """End with a usage error if an option of a rehearsal is given without --rehearse."""
    if not rehearse and (behaviour or rehearse_with != "auto"):
        option = "--behaviour" if behaviour else "--rehearse-with"
        context.fail(f"{option} requires --rehearse")


def chosen_rehearsal(
    rehearse: bool, rehearse_with: Runner, behaviour: list[str]
) -> Rehearsal | None:
    """The rehearsal that the options ask for, None without --rehearse. Raises RsctlError."""
    from rsctl.api import Rehearsal

    return Rehearsal(rehearse_with, parse_behaviour(behaviour)) if rehearse else None


def parse_behaviour(texts: Iterable[str]) -> dict[str, Any]:
    """Parse `stockouts=2` as a field and its value, which is JSON or text. Raises RsctlError."""
    import msgspec

    from rsctl.findings import ExitCode, RsctlError, error

    behaviour: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            message = f"--behaviour {text!r} is not in the form NAME=VALUE"
            raise RsctlError(ExitCode.USAGE, error("behaviour", message, "for example stockouts=2"))
        try:
            behaviour[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            behaviour[name] = value
    return behaviour
