"""The command that a node runs: arguments of `rsctl-launch`, and the user's own command. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rsctl.job.job import Job
from rsctl.node.path_placeholders import placeholder_names

if TYPE_CHECKING:
    from rsctl.targets.inputs import InputPlan


def launch_arguments(
    job: Job,
    processes: int,
    variables: Mapping[str, str] = MappingProxyType({}),
    inputs: Sequence[InputPlan] = (),
) -> list[str]:
    """The arguments of `rsctl-launch`, with so many ranks a node.

    `variables` are set on the node itself, where the target cannot set them; it copies the `inputs`
    that have a `source`, and gives ranks their shards.
    """
    options = ["--launcher", job.run.launcher]
    for name, value in variables.items():
        options += ["--env", f"{name}={value}"]
    if job.run.launcher in ("torchrun", "mpi"):
        options += ["--processes", str(processes)]
    for each in inputs:
        options += ["--copy", f"{each.name}={each.source}"] if each.source else []
        options += ["--count", each.name] if each.counted else []
        options += ["--shards", each.name] if each.shards else []
    if job.limits.stop_signal != "TERM":
        options += ["--stop-signal", job.limits.stop_signal]
    if job.limits.restarts_in_place and job.run.launcher == "torchrun":
        options += ["--restarts-in-place", str(job.limits.restarts_in_place)]
    if job.limits.keep is not None:
        options += ["--keep", f"{float(job.limits.keep):.0f}"]
    if job.run.program is None:
        options.append("--python")
    if placeholder_names(script_arguments(job)):
        options += ["--fill", str(len(script_arguments(job)))]
    return [*options, "--", *user_command(job)]


def unlaunched(job: Job) -> tuple[str, str]:
    """The setting that excludes rsctl-launch from a job's containers, and the remedy."""
    if job.run.package is not None:
        return "a package", "remove it, or use image.source instead of run.package"
    return "launcher none", "use launcher torchrun or once"


def ranks_in(arguments: Sequence[str]) -> int | None:
    """The ranks a node that arguments of `rsctl-launch` ask for; None if they do not have it."""
    options = list(arguments)[: list(arguments).index("--")] if "--" in arguments else []
    try:
        return int(options[options.index("--processes") + 1])
    except (ValueError, IndexError):
        return None


def user_command(job: Job) -> list[str]:
    """The script, `-m` and the module, or the command, with the arguments."""
    run = job.run
    if run.program is not None:
        head = list(run.program)
    else:
        head = [str(run.script)] if run.script is not None else ["-m", str(run.module)]
    return head + script_arguments(job)


def script_arguments(job: Job) -> list[str]:
    """`run.args` as arguments: `epochs: 3` is `--epochs 3`, true a bare flag, false left out."""
    if isinstance(job.run.args, list):
        return list(job.run.args)
    arguments: list[str] = []
    for name, value in job.run.args.items():
        if value is False:
            continue
        arguments.append(f"--{name}")
        if value is not True:
            arguments += [str(item) for item in (value if isinstance(value, list) else [value])]
    return arguments
