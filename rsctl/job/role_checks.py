"""Checks of `chief` and `roles` against `run`, `workers` and each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rsctl.findings import Finding, error
from rsctl.job.env_checks import check_env
from rsctl.job.job import Job, Role, is_shell_script
from rsctl.job.roles import RESERVED_ROLES
from rsctl.job.script_language import (
    check_argument_words,
    check_module_name,
    check_script_language,
    check_shell_words,
)
from rsctl.job.secret_names import is_secret_name
from rsctl.job.units import EnvValue


def check_chief(job: Job) -> Iterator[Finding]:
    """Findings on what the chief has of its own."""
    yield from _check_args(job, job.chief.args, "chief.args")
    yield from check_env(job.chief.env, "chief.env")
    yield from _check_secrets(job.run.env, "all workers", job.chief.env, "chief", "the chief")


def check_roles(job: Job, is_broken: Callable[[str], bool]) -> Iterator[Finding]:
    """Findings on the job's own roles.

    `is_broken` is whether the value of a key is not the user's, because of an error.
    """
    before = {"all workers": job.run.env, "the chief": job.chief.env}
    for name, role in job.roles.items():
        path = f"roles.{name}"
        yield from _check_name(name, path)
        yield from _check_program(job, role, path, is_broken)
        if not role.has_program:
            yield from _check_args(job, role.args, f"{path}.args")
        else:
            yield from check_argument_words(role.args, f"{path}.args")
        yield from check_env(role.env, f"{path}.env")
        for who, env in before.items():
            yield from _check_secrets(env, who, role.env, path, f"role {name}")
        before[f"role {name}"] = role.env


def _check_name(name: str, path: str) -> Iterator[Finding]:
    first = name.partition("-")[0]
    if first in RESERVED_ROLES:
        key = first if first == "chief" else f"{first.removesuffix('s')}s"
        message = f"{first} is a name that rsctl uses for other nodes"
        remedy = f"use the key {key}, or another role name, such as ps or evaluator"
        yield error("role", message, remedy, path)


def _check_program(
    job: Job, role: Role, path: str, is_broken: Callable[[str], bool]
) -> Iterator[Finding]:
    given = [name for name in ("script", "module", "command") if getattr(role, name) is not None]
    if len(given) > 1:
        names = ", ".join(given[:-1]) + " and " + given[-1]
        message = f"{names} are given, but a role needs exactly one of them"
        yield error("run", message, "keep exactly one of them", f"{path}.{given[1]}")
    is_shell = bool(role.script) and is_shell_script(str(role.script))
    is_python = bool(given) and given[0] != "command" and (role.image is not None or not is_shell)
    if role.command:
        yield from check_shell_words(role.command, f"{path}.command")
    if role.module:
        yield from check_module_name(role.module, f"{path}.module")
    if role.script:
        yield from check_script_language(role.script, f"{path}.script")
    if is_python and role.image is not None:
        message = (
            "an image of its own contains nothing of rsctl, so there is no Python to run a "
            f"{given[0]}"
        )
        yield error("run", message, f"use command, or remove {path}.image", f"{path}.{given[0]}")
    elif is_python and job.run.launcher == "none" and job.run.package is None:
        message = (
            "launcher none does not run rsctl-launch in the container, and only rsctl-launch "
            f"starts Python with a {given[0]}"
        )
        remedy = "use command, or run.launcher: once"
        yield error("run", message, remedy, f"{path}.{given[0]}")
    elif job.run.package is not None and given and given[0] != "module":
        message = f"nodes of run.package run a module, not a {given[0]}"
        yield error("run", message, "use module, or remove run.package", f"{path}.{given[0]}")
    elif role.script and job.image.source and not is_broken("image.source"):
        yield from _check_script(role.script, job.image.source, f"{path}.script")


def _check_script(script: str, source: str, path: str) -> Iterator[Finding]:
    if os.path.isdir(source) and not os.path.isfile(os.path.join(source, script)):
        message = f"script {script!r} does not exist in {source!r}"
        yield error("file", message, f"correct {path} or image.source", path)


def _check_args(job: Job, args: Any, path: str) -> Iterator[Finding]:
    """A mapping overrides the common one, which must also be a mapping."""
    if isinstance(args, dict) and isinstance(job.run.args, list) and job.run.args:
        message = "run.args is a list, and a mapping of arguments can only override a mapping"
        yield error("args", message, "write both as mappings, or both as lists", path)
    yield from check_argument_words(args, path)


def _check_secrets(
    before: Mapping[str, EnvValue], who: str, env: Mapping[str, EnvValue], key: str, owner: str
) -> Iterator[Finding]:
    """A run has at most one secret of each name, for all of its nodes."""
    for name, value in env.items():
        common = before.get(name)
        is_secret = value.secret or is_secret_name(name)
        if common is not None and common != value and is_secret and common.secret:
            message = (
                f"{name} is a secret of {who}, and {owner} has a different secret of the same name"
            )
            remedy = f"rename {owner}'s secret: the secrets of a run need unique names"
            yield error("secret", message, remedy, f"{key}.env.{name}")
