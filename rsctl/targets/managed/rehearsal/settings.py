"""The settings of a rehearsed run's emulator: `rehearsal.json` in the run's folder."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rsctl.atomic_file import read_json
from rsctl.runs.home import run_directory

PACE = 0.05
"""The factor on all simulated waits, and on those of clients; a cloud has 1."""


class EmulatorSettings(msgspec.Struct, kw_only=True):
    """The settings of a run's emulator: see `rsctl.targets.managed.emulator.clouds.make_emulator`.

    `options` are its project and region, and more regions. `image` is the job's, for which
    processes run in `source`; `more_images` are those for other regions.
    `idle_seconds` is for how long the emulator serves on when no job is running.
    """

    emulator: str
    runner: Literal["docker", "process"]
    image: str
    more_images: list[str] = []
    source: str
    entrypoint: list[str] = []
    options: dict[str, Any] = msgspec.field(default_factory=dict, name="place")
    behaviour: dict[str, Any] = {}
    buckets: list[str] = []
    idle_seconds: float = 300.0


def emulator_settings(run: str) -> EmulatorSettings | None:
    """The settings of a run's emulator; None if the run is not rehearsed."""
    return read_json(run_directory(run) / "rehearsal.json", EmulatorSettings)
