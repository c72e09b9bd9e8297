"""Checks of the environment variables of a spec: whose they are, and which are secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rsctl.findings import SECRET, Finding, error, warning
from rsctl.job.secret_names import HIDDEN, is_secret_key, is_secret_variable, public_text
from rsctl.job.units import EnvValue

TUNING_ENV = ("RSCTL_TRANSPORT_", "RSCTL_POWERSGD_", "RSCTL_RECORD_STEPS")
"""The prefixes of rsctl's variables that the user may set."""

RESERVED_ENV = frozenset(
    {
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
        *("NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT"),
    }
)


def without_secret(setting: str) -> str:
    """The text of a `--set` without the secrets in it, by the key's name or within its value."""
    key, separator, value = setting.partition("=")
    above, _, name = re.sub(r"\[\d*\]$", "", key).rpartition(".")
    if is_secret_key(name, above.rpartition(".")[2], not value.startswith("{")):
        return key + separator + HIDDEN
    from rsctl.job.kept_text import kept_text

    shown = kept_text(value) if value.startswith(("[", "{")) else public_text(value)
    return key + separator + (HIDDEN if shown is None else shown)


def typed_setting(setting: str) -> str:
    """A stored `--set` in a printed command: a variable for a secret of `run.env`."""
    key, _, value = setting.partition("=")
    parent, _, name = key.rpartition(".")
    return f"{key}=${{{name}}}" if value == HIDDEN and parent.endswith("env") else setting


def check_env(env: Mapping[str, EnvValue], key: str) -> Iterator[Finding]:
    """Findings on variables that are kept as secrets if they come from the environment.

    `key` is the key of the mapping, such as `run.env`.
    """
    for name, value in env.items():
        path = f"{key}.{name}"
        if is_reserved(name):
            yield reserved_name(name, path)
        elif value and not value.secret and is_secret_variable(name, value):
            yield warning(
                SECRET,
                f"{name} looks like a secret written in the file",
                f'keep it out of the file: {name}: "${{{name}}}"',
                path,
            )


def check_visible_env(env: Mapping[str, EnvValue], key: str, where: str) -> Iterator[Finding]:
    """Findings on variables that anyone can read `where` they are used; `key` is the mapping's
    key.
    """
    for name, value in env.items():
        path = f"{key}.{name}"
        if is_reserved(name):
            yield reserved_name(name, path)
        elif value.secret or (value and is_secret_variable(name, value)):
            comes = "comes from your environment" if value.secret else "looks like a secret"
            message = f"{name} {comes}, and anyone can read it {where}"
            remedy = "put secrets in run.env; write other values in the file"
            yield error(SECRET, message, remedy, path)


def visible_secret(what: str, path: str) -> Finding:
    """The error for a text that ends in the image and has a secret."""
    message = f"{what} has a secret, and anyone can read it in the image"
    remedy = "remove it; build what needs it into a base image, with a secret mount of docker build"
    if path.startswith("image.python"):
        remedy = "name a variable in image.secrets, and write ${NAME} here ($${NAME} in a job file)"
    return error(SECRET, message, remedy, path)


def is_reserved(name: str) -> bool:
    """Whether rsctl itself sets a variable of this name."""
    is_own = name.startswith("RSCTL_") and not name.startswith(TUNING_ENV)
    return name in RESERVED_ENV or is_own


def reserved_name(name: str, path: str) -> Finding:
    """The error for a variable that rsctl sets."""
    return error("env", f"rsctl sets {name} itself", "use another name", path)
