"""The emulators of whole clouds, and how to make one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from rsctl.clients.endpoints import TIME_SCALE
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.target_info import EmulatorInfo, all_targets, import_object, target_info
from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour
from rsctl.targets.managed.emulator.faults import Faults
from rsctl.targets.managed.emulator.nodes import NodeRunner


def emulator_names() -> list[str]:
    """The targets that have an emulator."""
    return [info.name for info in all_targets() if info.emulator]


def emulator_of(target: str) -> EmulatorInfo:
    """The emulator of a target. Raises RsctlError if it has none."""
    info = target_info(target)
    if info.emulator is not None:
        return info.emulator
    message = f"target {target} already runs on this machine, so there is nothing to rehearse"
    if info.is_managed:
        message = f"target {target} has no emulator to rehearse with"
    remedy = f"omit --rehearse, or name a cloud: --target {' or '.join(emulator_names())}"
    raise RsctlError(ExitCode.USAGE, error("rehearse", message, remedy))


class CloudEmulator(AbstractContextManager[Any], Protocol):
    """Common interface of the emulators of all clouds. It serves between entering and leaving."""

    faults: Faults
    behaviour: EmulatorBehaviour

    @property
    def url(self) -> str:
        """Its URL."""

    @property
    def is_idle(self) -> bool:
        """Whether no job is in progress."""

    def listen(self, port: int) -> None:
        """Answer at this port; before entering. Raises OSError."""

    def environment(self) -> dict[str, str]:
        """The variables by which the vendor's clients and rsctl find it."""


def check_behaviour(target: str, behaviour: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown behavior of a target's emulator, or an invalid value."""
    module, _, _ = emulator_of(target).emulator.partition(":")
    if behaviour:  # importing an emulator takes 45 ms
        settings: EmulatorBehaviour = import_module(module).Behaviour()
        settings.change(dict(behaviour))


def make_emulator(
    emulator: str,
    folder: Path,
    runner: NodeRunner,
    options: Mapping[str, Any],
    behaviour: Mapping[str, Any],
) -> CloudEmulator:
    """An emulator, by its module and class.

    `options` are its project and region, or its region alone, and `more_regions`. `behaviour` are
    the fields of its behaviour to change. Raises ValueError for an unknown field.
    """
    made: CloudEmulator = import_object(emulator)(folder, runner, **options)
    made.behaviour.change(dict(behaviour))
    return made


def client_environment(environment: dict[str, str], pace: float) -> dict[str, str]:
    """The whole environment of a client of an emulator, given `CloudEmulator.environment()`.

    The user's own profiles are left out, and no proxy is used for what is on this machine.
    """
    hosts = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy", ""), "127.0.0.1,localhost"]
    no_proxy = ",".join(filter(None, hosts))
    return {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        TIME_SCALE: os.environ.get(TIME_SCALE, str(pace)),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        **environment,
    }
