"""Drills of a training without torch, and what they leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.targets.conftest import Done, Rsctl

SCRIPT = Path(__file__).parents[2] / "kit" / "scripts" / "drilled.py"


def write_job(rsctl: Rsctl, variant: str = "good", steps: int = 24, **keys: Any) -> str:
    """Two workers of a training that says its steps, without torch."""
    keys.setdefault("workers", {"count": 2})
    arguments = [variant, str(steps), "0.25"]
    job = rsctl.write_job(
        run={"script": "drilled.py", "args": arguments, "launcher": "once"}, **keys
    )
    shutil.copy(SCRIPT, rsctl.folder / "source")
    return job


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
