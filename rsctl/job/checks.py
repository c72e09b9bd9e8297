"""Checks of more than one key of the spec, or of files on disk, for all targets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from rsctl.findings import Finding, error, note, warning
from rsctl.job.env_checks import check_env, check_visible_env
from rsctl.job.gate_checks import check_gate
from rsctl.job.image_checks import check_image
from rsctl.job.input_checks import check_inputs
from rsctl.job.job import Image, Job, RunBlock, Workers
from rsctl.job.limit_checks import check_limits
from rsctl.job.local_steps import check_local_steps
from rsctl.job.node_checks import check_node_checks
from rsctl.job.own_launcher import check_own_launcher
from rsctl.job.package_checks import check_package
from rsctl.job.role_checks import check_chief, check_roles
from rsctl.job.script_language import (
    check_argument_words,
    check_module_name,
    check_script_language,
    check_shell_script,
    check_shell_words,
)
from rsctl.job.tracking_checks import check_tracking
from rsctl.job.watch_checks import check_watch
from rsctl.node.path_placeholders import placeholder_names

_TORCHCOMMS = "TORCH_DISTRIBUTED_USE_TORCHCOMMS"
# Patterns are compiled when they are first used: most jobs need none of them.
_ATOM = r"(?:\\.|\[\^?\]?[^\]]*\]|[^\\()\[\]])"
_MANY = rf"{_ATOM}[+*]"
# A repeated group of one repeated thing, such as (a+)+, tries every way to split what it matches.
_EXPONENTIAL = rf"\((?:\?:)?(?:{_MANY}|\((?:\?:)?{_MANY}\))(?:{_ATOM}[?*])?\)[+*]"


def check(job: Job, is_broken: Callable[[str], bool]) -> Iterator[Finding]:
    """Findings of the spec as a whole; `document` adds the position of their `path`.

    `is_broken` is whether the value of a key is not the user's, because of an error.
    """
    yield from _check_what_runs(job.run, job.image, is_broken)
    yield from check_own_launcher(job)
    yield from check_image(job)
    yield from check_package(job, is_broken)
    yield from check_env(job.run.env, "run.env")
    yield from check_chief(job)
    yield from check_roles(job, is_broken)
    yield from _check_pools(job)
    yield from check_local_steps(job)
    yield from _check_metrics(job)
    yield from check_watch(job)
    yield from check_gate(job)
    yield from check_tracking(job)
    yield from check_inputs(job)
    yield from _check_placeholders(job)
    yield from _check_files(job, is_broken)
    yield from check_limits(job)
    yield from check_node_checks(job)


def _check_what_runs(
    run: RunBlock, image: Image, is_broken: Callable[[str], bool]
) -> Iterator[Finding]:
    given = [name for name in ("script", "module", "command") if getattr(run, name) is not None]
    if len(given) > 1:
        names = ", ".join(given[:-1]) + " and " + given[-1]
        message = f"{names} are given, but a run needs exactly one of them"
        yield error("run", message, "keep exactly one of them", f"run.{given[1]}")
    no_launcher = run.launcher == "none"
    if not given and not (no_launcher and image.uri and run.package is None):
        remedy = "give exactly one of run.script, run.module, run.command"
        yield error("run", "there is nothing to run", remedy, "run")
    has_package = run.package is not None or is_broken("run.package")
    if run.command:
        yield from check_shell_words(run.command, "run.command")
    yield from check_argument_words(run.args, "run.args")
    if run.module:
        yield from check_module_name(run.module, "run.module")
    if run.script:
        yield from check_script_language(run.script, "run.script")
        yield from check_shell_script(run, run.script, "run.script")
    if no_launcher and given and run.program is None and not has_package:
        yield error(
            "run",
            "launcher none does not run rsctl-launch in the container, and only rsctl-launch "
            f"starts Python with a {given[0]}",
            "use run.command, or launcher once",
            f"run.{given[0]}",
        )


def _check_pools(job: Job) -> Iterator[Finding]:
    yield from _check_processes(job.workers)
    yield from _check_comm(job)
    yield from _check_mpi(job)
    yield from check_visible_env(job.reducers.env, "reducers.env", "in the plan")
    reducers, transport = job.reducers.count, job.image.transport
    for key in ("disk", "env"):
        if reducers == 0 and getattr(job.reducers, key) and "reducers.count" not in job.matrix:
            yield note("unused", "the job has no reducers", "set reducers.count", f"reducers.{key}")
    if reducers == "auto" or reducers == 0:
        return
    if job.workers.count == 1 and "workers.count" not in job.matrix:
        message = "a single worker has no gradients to exchange, so reducers would only add cost"
        yield warning("reducers", message, "set reducers.count: 0", "reducers.count")
    elif transport in ("fast-socket", "efa", "none") and job.comm.backend != "rsctl":
        yield warning(
            "reducers",
            f"image.transport {transport} does not use reducers",
            "use transport reduction-server or auto, or set reducers.count: 0",
            "reducers.count",
        )


def _check_comm(job: Job) -> Iterator[Finding]:
    if job.comm.hook is not None and job.comm.compression != "none":
        message = f"hook {job.comm.hook} and compression {job.comm.compression} are both given"
        remedy = "keep one of them: a hook compresses gradients itself"
        yield error("comm", message, remedy, "comm.hook")
    for key, env in (("run", job.run.env), ("chief", job.chief.env), ("image", job.image.env)):
        if job.comm.backend == "rsctl" and env.get(_TORCHCOMMS, "0") not in ("", "0"):
            message = (
                "with this variable PyTorch 2.13 sends every backend to torchcomms, which does not "
                "have rsctl, and no later version has been tried"
            )
            remedy = "remove the variable, or set comm.backend: auto"
            yield error("torchcomms", message, remedy, f"{key}.env.{_TORCHCOMMS}")


def _check_mpi(job: Job) -> Iterator[Finding]:
    """rsctl's reducers are for PyTorch; Reduction Server is part of NCCL."""
    if job.run.launcher != "mpi":
        return
    if job.reducers.count != 0 and job.image.transport != "reduction-server":
        message = "launcher mpi does not use rsctl's reducers"
        remedy = "use launcher torchrun, or set reducers.count: 0"
        yield error("reducers", message, remedy, "reducers.count")
    if job.chief.args is not None:
        message = "mpirun starts one command line for all ranks"
        remedy = "let the script read RANK, or use launcher torchrun"
        yield error("mpi", message, remedy, "chief.args")


def _check_processes(workers: Workers) -> Iterator[Finding]:
    ranks, accelerator = workers.processes, workers.accelerator
    if accelerator and isinstance(ranks, int) and ranks > accelerator.ranks_per_node:
        cores = f", which have {accelerator.ranks_per_node} NeuronCores,"
        has = f"{accelerator.per_node} x {accelerator.type}{cores * accelerator.is_neuron}"
        yield warning(
            "workers",
            f"{ranks} ranks share {has} on each node",
            "set workers.processes: auto",
            "workers.processes",
        )


def _check_metrics(job: Job) -> Iterator[Finding]:
    for name, metric in job.metrics.items():
        slow = re.search(_EXPONENTIAL, metric.regex or "")
        if slow:
            yield warning(
                "slow-regex",
                f"{slow[0]!r} can take exponential time on a long line that does not match",
                "repeat once: (a+) rather than (a+)+",
                f"metrics.{name}.regex",
            )


def _check_placeholders(job: Job) -> Iterator[Finding]:
    yield from _check_arguments(job, job.run.args, "run.args")
    if job.chief.args is not None:
        yield from _check_arguments(job, job.chief.args, "chief.args")
    for name, role in job.roles.items():
        if role.args is not None:
            yield from _check_arguments(job, role.args, f"roles.{name}.args", role.image)


def _check_arguments(
    job: Job, args: dict[str, Any] | list[str], path: str, own_image: str | None = None
) -> Iterator[Finding]:
    values = args if isinstance(args, list) else args.values()
    arguments = [
        str(item) for value in values for item in (value if isinstance(value, list) else [value])
    ]
    for name in placeholder_names(arguments):
        if own_image is not None:
            message = f"an image of its own contains nothing of rsctl to replace {{{name}}}"
            yield error("args", message, "write the path itself", path)
        elif not job.run.is_launched:
            what = (
                "with launcher none there is"
                if job.run.package is None
                else "with a package there is"
            )
            message = f"{what} nothing of rsctl in the container to replace {{{name}}}"
            other = "use launcher once, or " if job.run.package is None else ""
            yield error("args", message, f"{other}write the path itself", path)
        elif name.startswith("inputs.") and name[7:] not in job.inputs:
            message = (
                f"{{{name}}} does not name an input; the inputs are "
                f"{', '.join(job.inputs) or 'none'}"
            )
            yield error("args", message, f"add {name}, or correct the name", path)


def _script_remedy(script: str) -> str:
    """A command line where a file is wanted: its parts have keys of their own."""
    program, *rest = script.split()
    if program.startswith(("python", "torchrun")) and rest:
        named = next((part for part in rest if part.endswith(".py")), rest[0])
        return (
            f"give only the file, script: {named}; rsctl starts {program}; put arguments in "
            "run.args"
        )
    if rest and program.endswith(".py"):
        return f"give only the file, script: {program}; put its arguments in run.args"
    return "correct run.script or image.source"


def _check_files(job: Job, is_broken: Callable[[str], bool]) -> Iterator[Finding]:
    source, script = job.image.source, job.run.script
    for key in ("python", "dockerfile"):
        path = getattr(job.image, key)
        if isinstance(path, str) and not job.image.uri and not os.path.isfile(path):
            is_folder = os.path.isdir(path)
            message = f"{path!r} is a folder" if is_folder else f"file {path!r} does not exist"
            yield error("file", message, "correct the path", f"image.{key}")
    if source and not os.path.isdir(source):
        is_file = os.path.exists(source)
        message = f"{source!r} is a file" if is_file else f"folder {source!r} does not exist"
        yield error("file", message, "correct the path", "image.source")
    elif source and script and not os.path.isfile(os.path.join(source, script)):
        message = f"script {script!r} does not exist in {source!r}"
        if not is_broken("image.source"):
            yield error("file", message, _script_remedy(script), "run.script")
