"""Drills of a training without torch, and what they leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.targets.conftest import Done, Rsctl

SCRIPT = Path(__file__).parents[2] / "kit" / "scripts" / "drilled.py"


HELD_AT = 9
HELD = ("--at-step", str(HELD_AT))
"""The step at which a run of `write_held_job` waits for the fault: two seconds after its start, and
after its last checkpoint, so that it comes again.
"""


def write_job(
    rsctl: Rsctl,
    variant: str = "good",
    steps: int = 24,
    env: dict[str, Any] | None = None,
    **keys: Any,
) -> str:
    """Two workers of a training that says its steps, without torch."""
    keys.setdefault("workers", {"count": 2})
    pause = 0.125 if variant == "half-written" else 0.25
    arguments = [variant, *map(str, (steps, pause))]
    run = {"script": "drilled.py", "args": arguments, "launcher": "once", "env": env or {}}
    job = rsctl.write_job(run=run, **keys)
    shutil.copy(SCRIPT, rsctl.folder / "source")
    return job


def write_held_job(
    rsctl: Rsctl, variant: str = "good", runs: str | None = None, **keys: Any
) -> str:
    """The same, for faults that end the run: it cannot end before it is struck. `runs` is where it
    finds the folder of all runs.
    """
    folder = rsctl.home / "runs"
    folder.mkdir(parents=True)
    env = {"HELD_AT": HELD_AT, "RUNS": runs or str(folder)}
    return write_job(rsctl, variant, steps=16, env=env, **keys)


def drill(rsctl: Rsctl, job: str, *options: str) -> tuple[Done, dict[str, dict[str, Any]]]:
    """The command, and the result of each fault."""
    done = rsctl("drill", job, "-o", "json", *options)
    found = json.loads(done.stdout)
    assert "faults" in found, done.stderr
    return done, {result["fault"]: result for result in found["faults"]}


def assert_nothing_is_left(rsctl: Rsctl) -> None:
    for run in rsctl.runs():
        assert run["ended"] is not None, run
        assert rsctl.processes(run["run"]) == []
