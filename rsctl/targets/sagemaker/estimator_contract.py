"""How estimators of the SageMaker SDK start a script in AWS's images: by hyperparameters. Pure.

The images' sagemaker-training toolkit unpacks `sagemaker_submit_directory` as /opt/ml/code and runs
`sagemaker_program` there: a folder with setup.py is installed and the program run as a module, any
other file as a script. The other hyperparameters are its arguments. All values are JSON.

Sources: aws/sagemaker-training-toolkit, entry_point_type.py, environment.py, process.py, mapping.py
and torch_distributed.py; version 2 of the SDK, estimator.py and pytorch/estimator.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from rsctl.findings import Finding, error, first_of, warning
from rsctl.job.job import Job, is_shell_script
from rsctl.job.yaml_tree import quoted
from rsctl.node.platforms.sagemaker_hyperparameters import arguments_of, decode_all
from rsctl.targets.launch_command import script_arguments
from rsctl.targets.sagemaker.channels import WORKERS
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.toolkit import starts_smddp, uses_shell

_LOG_LEVEL = 20
_NUMBER = re.compile(r"-[0-9.]")
_OF_A_SHELL = re.compile(r"""^$|^[#~]|[\s"'`$\\;&|<>()]""")
"""Text that a shell changes; it leaves a pattern of files that matches no file."""

_IN_QUOTES = re.compile(r"""["'$`]|\\\\""")
"""Text that a shell changes in the arguments of a script for a shell, which the toolkit quotes."""

_OPTIONS = "targets.sagemaker"


class _Argument(NamedTuple):
    """An option of the script and its value; `problem` is why it cannot be a hyperparameter."""

    name: str
    value: Any
    problem: str = ""


def estimator_hyperparameters(
    job: Job, run: str, machine: Optional[str], package: str
) -> dict[str, str]:
    """The hyperparameters of a job whose package is at an S3 URI; the spec's own override them."""
    contract: dict[str, Any] = {
        "sagemaker_submit_directory": package,
        "sagemaker_program": str(job.run.script or job.run.module),
        "sagemaker_container_log_level": _LOG_LEVEL,
        "sagemaker_job_name": run,
        "sagemaker_region": sagemaker_options(job).first_region,
    }
    contract |= _starter(job, machine)
    arguments = {argument.name: argument.value for argument in _arguments(job)}
    encoded = {name: json.dumps(value) for name, value in {**arguments, **contract}.items()}
    return {**encoded, **sagemaker_options(job).hyperparameters}


def launch_hyperparameters(job: Job, machine: Optional[str]) -> dict[str, str]:
    """The hyperparameters for `run.launcher`: an estimator's `distribution`."""
    return {name: json.dumps(value) for name, value in _starter(job, machine).items()}


def _starter(job: Job, machine: Optional[str]) -> dict[str, Any]:
    """The program that starts the ranks; empty if the program is started once on each node."""
    of_machine = {"sagemaker_instance_type": machine} if machine else {}
    of_groups = {"sagemaker_distribution_instance_groups": [WORKERS]} if job.roles else {}
    if job.run.launcher == "torchrun":
        return {**of_groups, "sagemaker_torch_distributed_enabled": True, **of_machine}
    if job.run.launcher != "mpi":
        return {}
    if starts_smddp(job):
        name = "sagemaker_distributed_dataparallel"
        smddp = {f"{name}_enabled": True, **of_machine, f"{name}_custom_mpi_options": ""}
        return {**of_groups, **smddp}
    return {
        **of_groups,
        "sagemaker_mpi_enabled": True,
        "sagemaker_mpi_num_of_processes_per_host": job.workers.ranks,
        "sagemaker_mpi_custom_mpi_options": "",
    }


def estimator_findings(job: Job) -> Iterator[Finding]:
    """The settings that the toolkit cannot start or pass on; none for jobs without a package."""
    if job.run.package is None:
        return
    yield from _program_findings(job)
    yield from _shell_findings(job)
    given = sagemaker_options(job).hyperparameters
    given_args = job.run.args if isinstance(job.run.args, dict) else {}
    for argument in _arguments(job):
        if argument.problem:
            flag = f'{quoted(argument.name)} may receive the value "True", in quotes'
            is_flag = argument.name in given_args and given_args[argument.name] is True
            remedy = "write arguments as NAME: VALUE, with one value each"
            remedy += f"; {flag}" if is_flag else ""
            yield error("args", argument.problem, remedy, "run.args")
        elif argument.name in given:
            message = f"{quoted(argument.name)} is also an argument in run.args"
            path = f"{_OPTIONS}.hyperparameters.{argument.name}"
            yield error("args", message, "remove one of the two", path)
    if job.run.launcher == "mpi" and not starts_smddp(job):
        return
    accelerator = job.workers.accelerator
    ranks = accelerator.ranks_per_node if accelerator else 1
    if job.workers.processes not in ("auto", ranks):
        message = "the image's toolkit starts one rank for each GPU or NeuronCore, or one on a "
        message += f"node without them: {ranks} on each node"
        yield error("workers", message, "set workers.processes: auto", "workers.processes")


def _shell_findings(job: Job) -> Iterator[Finding]:
    """Texts that the toolkit's shell changes; some images start the script without a shell."""
    if not uses_shell(job.image.uri or job.image.base or ""):
        return
    program = str(job.run.script or job.run.module)
    if _OF_A_SHELL.search(program):
        message = f"SageMaker's images start the script by a shell, which changes {quoted(program)}"
        remedy = "rename it: use letters, digits, and ._-"
        yield error("package", message, remedy, "run.script")
    changes = _IN_QUOTES if is_shell_script(program) else _OF_A_SHELL
    given = decode_all(sagemaker_options(job).hyperparameters)
    texts = {
        "run.args": {each.name: str(each.value) for each in _arguments(job)},
        f"{_OPTIONS}.hyperparameters": {
            name: arguments_of({name: value})[1] for name, value in given.items()
        },
    }
    for path, values in texts.items():
        changed = [name for name, text in values.items() if changes.search(text)]
        if not changed:
            continue
        message = "SageMaker's images pass arguments through a shell, which splits or changes the "
        message += f"value of {first_of(changed, 5)}"
        remedy = "put it in run.env or in a file of the package, or use image.source instead of "
        yield warning("args", message, f"{remedy}run.package", path)


def _program_findings(job: Job) -> Iterator[Finding]:
    """It is unknown whether an archive in a bucket contains a setup.py."""
    run, is_local = job.run, job.run.package is not None and job.run.package.scheme == "file"
    has_setup = is_local and os.path.isfile(os.path.join(str(run.package), "setup.py"))
    if run.launcher == "torchrun" and (run.module or has_setup):
        what = "modules" if run.module else "scripts of a folder with setup.py"
        message = f"torchrun in SageMaker's images cannot start {what}"
        remedy = "use run.script in a folder without setup.py, or set run.launcher: none"
        yield error("package", message, remedy, "run.module" if run.module else "run.package")
    elif run.module and is_local and not has_setup:
        message = "SageMaker's images run a module only if it is in a folder with setup.py"
        remedy = "use run.script, or add a setup.py: from setuptools import setup; setup()"
        yield error("package", message, remedy, "run.module")
    elif run.script and has_setup and "/" in run.script:
        message = f"in a folder with setup.py, SageMaker's images cannot run {quoted(run.script)}"
        module = run.script.removesuffix(".py").replace("/", ".")
        yield error("package", message, f"use run.module: {module}", "run.script")


def _arguments(job: Job) -> Iterator[_Argument]:
    """The arguments as options with one value each, numbers as written in the spec."""
    given = job.run.args if isinstance(job.run.args, dict) else {}
    words = script_arguments(job)
    while words:
        word = words.pop(0)
        name, has_value, value = word.partition("=")
        bare = name.removeprefix("--") if len(name) > 3 else name.removeprefix("-")
        if not bare or bare == name or (len(name) > 2 and not name.startswith("--")):
            yield _Argument(
                word,
                None,
                f"SageMaker's images pass only options, and {quoted(word)} is not an option",
            )
        elif has_value:
            yield _Argument(bare, value)
        elif not words or (words[0].startswith("-") and not _NUMBER.match(words[0])):
            yield _Argument(
                bare,
                None,
                f"SageMaker's images pass only options with a value, and {quoted(word)} has none",
            )
        else:
            text = words.pop(0)
            kept = given.get(bare, text)
            yield _Argument(bare, kept if str(kept) == text else text)
