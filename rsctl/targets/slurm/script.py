"""The batch script of a job, whole. Pure.

It begins with what belongs to the job, and ends with `batch.sh`, which is the same in every job.
The package of the source and of rsctl's runtime is a part of the script, so that the script runs on
the cluster without any other file; a plan shows a line in its place.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

from rsctl.job.job import Job
from rsctl.targets.launch_command import launch_arguments, user_command
from rsctl.targets.slurm import containers
from rsctl.targets.slurm.directives import directives
from rsctl.targets.slurm.environment import common_env, step_env
from rsctl.targets.slurm.inputs import input_plans
from rsctl.targets.slurm.options import slurm_options
from rsctl.targets.slurm.pools import Allocation, Step
from rsctl.targets.variables import secrets_of

PACKAGE = "@package-sha256:{digest}@"
"""The line of a plan's script in the place of the package."""

_BATCH = Path(__file__).with_name("batch.sh")
_END = "END-OF-PACKAGE"
_START = '"$RSCTL_START"'
_UNBOUND = "--cpu-bind=none"
"""A task starts all ranks of its node, and some clusters bind each task to one core (slurm.conf(5),
TaskPluginParam; srun does not take --cpus-per-task from sbatch in 22.05)."""

_RUNTIME = ("PYTHONPATH", "RSCTL_ATTEMPT", "RSCTL_SLURM_NODES")
"""Variables that the batch script sets for the tasks."""


def batch_script(
    job: Job,
    run: str,
    allocation: Allocation,
    image: Optional[str],
    digest: str,
    secrets: list[str],
) -> str:
    """The script; without the package, and without the values of secrets."""
    return "\n".join(
        [
            "#!/bin/bash -l",
            *directives(job, run, allocation),
            "",
            *_head(job, run, allocation, image, secrets),
            "",
            *_setup(job),
            "",
            *_functions(job, run, allocation),
            "package() {",
            f"    cat <<'{_END}'",
            PACKAGE.format(digest=digest),
            _END,
            "}",
            "",
            _BATCH.read_text(encoding="utf-8"),
        ]
    )


def with_package(script: str, digest: str, package: str) -> str:
    """The script with its package, in base64."""
    return script.replace(PACKAGE.format(digest=digest), package.rstrip("\n"), 1)


def _head(
    job: Job, run: str, allocation: Allocation, image: Optional[str], secrets: list[str]
) -> Iterator[str]:
    options = slurm_options(job)
    if secrets:
        yield f"# Wants {', '.join(secrets)} in the environment of sbatch; rsctl sets them."
    yield "set -u"
    yield f"RSCTL_FOLDER={shlex.quote(f'{options.shared}/{run}')}"
    yield "RSCTL_START=$RSCTL_FOLDER/package/runtime/rsctl_start.py"
    yield f"RSCTL_COMPONENTS={len(allocation.components)}"
    yield f"RSCTL_RETRIES={job.limits.most_restarts or 0}"
    roles = {name for name, role in job.roles.items() if role.ends == "by-itself"}
    steps = allocation.steps
    awaited = [step.name for step in steps if step.role == "worker" or step.role in roles]
    yield f'RSCTL_AWAITED="{" ".join(awaited)}"'
    yield f'RSCTL_STOPPED="{" ".join(s.name for s in steps if s.name not in awaited)}"'
    yield "# NAME ROLE FIRST COMPONENT SKIPPED-NODES NODES TASKS"
    lines = "\n".join(map(_step_line, steps))
    yield f'RSCTL_STEPS="{lines}"'
    if image is not None:
        yield f"RSCTL_IMAGE={shlex.quote(image)}"
    yield from _exports(common_env(job, run))


def _step_line(step: Step) -> str:
    fields = (step.first, step.component, step.skipped, step.nodes, step.tasks)
    return f"{step.name} {step.role} {' '.join(map(str, fields))}"


def _exports(env: Mapping[str, Optional[str]]) -> Iterator[str]:
    """Lines that set variables; a secret is in the environment of the batch script already."""
    for name, value in env.items():
        if value is not None:
            yield f"export {name}={shlex.quote(value)}"


def _setup(job: Job) -> Iterator[str]:
    options = slurm_options(job)
    if options.container == "pyxis":
        yield from containers.ENROOT_NAME.splitlines()
    yield "set_up() {"
    yield "    set +u"
    if options.setup:
        yield f"    setup_lines {shlex.join(options.setup)} || return 1"
    yield "    set +e +o pipefail -u"
    yield from (f"    {line}" for line in containers.import_lines(options))
    yield "}"


def _functions(job: Job, run: str, allocation: Allocation) -> Iterator[str]:
    options = slurm_options(job)
    mounts = mounts_of(job)
    has_gpus = any(component.gpus for component in allocation.components)
    probe = " ".join(["srun", *containers.srun_words(options, mounts, ["PYTHONPATH"])])
    inside = " ".join([*containers.command_words(options, mounts, has_gpus), ""]).lstrip()
    python = shlex.quote(options.python)
    yield "start_probe() { # OPTION... ROLE FIRST FOLDER TOKEN"
    yield "    local count=$(($# - 4))"
    yield (
        f'    {probe} --kill-on-bad-exit=1 "${{@:1:count}}" {inside}{python} {_START} '
        'rsctl.node.platforms.slurm_probe "${@:count+1}"'
    )
    yield "}"
    for step in allocation.steps:
        yield from _step_function(job, run, step, mounts, inside, python)


def _step_function(
    job: Job, run: str, step: Step, mounts: list[str], inside: str, python: str
) -> Iterator[str]:
    options, env = slurm_options(job), step_env(job, run, step)
    names = sorted({*_RUNTIME, *common_env(job, ""), *env})
    words = ["srun", _UNBOUND, *containers.srun_words(options, mounts, names)]
    if step.role == "worker":
        words += ['"${RSCTL_HYPERPOD[@]}"'] if options.auto_resume else []
        words += [shlex.quote(option) for option in options.srun]
    if step.role == "reducer" and step.nodes and job.workers.accelerator is not None:
        words.append("--gres=none")
    yield ""
    yield f"step_{step.name}() {{ # ROLE FIRST OPTION..."
    yield from (f"    {line}" for line in _exports(env))
    if hidden := sorted(set(secrets_of(job)) - {n for n, value in env.items() if value is None}):
        yield f"    unset {' '.join(hidden)}"
    task = f'{inside}{python} {_START} rsctl.node.platforms.slurm_task "$1" "$2" "$RSCTL_LOGS"'
    yield f'    exec {" ".join(words)} "${{@:3}}" {task} \\'
    yield f'        "$RSCTL_FOLDER/package/source" -- {_command(step, run, python)}'
    yield "}"


def _command(step: Step, run: str, python: str) -> str:
    if step.job.run.launcher == "none":
        return shlex.join(user_command(step.job))
    inputs = input_plans(step.job, run)
    arguments = launch_arguments(step.job, step.processes, inputs=inputs)
    return f"{python} {_START} rsctl.node.launch {shlex.join(arguments)}"


def mounts_of(job: Job) -> list[str]:
    """The folders that a container needs: the shared folder, and what the job reads and writes."""
    from rsctl.job.inputs import inputs_of

    found = [str(slurm_options(job).shared)]
    found += [str(path) for path in (job.outputs, job.checkpoints) if path]
    found += [str(each.location) for each in inputs_of(job, "slurm") if "://" not in each.location]
    kept: list[str] = []
    for path in found:
        if not any(path == other or path.startswith(f"{other}/") for other in kept):
            kept.append(path)
    return kept
