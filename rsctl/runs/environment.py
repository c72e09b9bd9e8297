"""The environment of rsctl's own processes: this process's, without the variables of a surrounding
job.
"""

from __future__ import annotations

import os
import subprocess

from rsctl.runs.home import home

_SETTINGS = frozenset({"RSCTL_HOME", "RSCTL_CLOUD_PACE", "RSCTL_DEBUG"})
_CONTRACT = frozenset(
    {
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES"),
        *("MASTER_ADDR", "MASTER_PORT"),
    }
)


def belongs_to_contract(name: str) -> bool:
    """Whether a variable gives a process its rank or role in a job; no other job may inherit it."""
    return name.startswith(("RSCTL_", "TORCHELASTIC_")) or name in _CONTRACT


def own_environment() -> dict[str, str]:
    """The environment of a supervisor, an emulator or another helper of rsctl.

    It never contains the variables of a job (`run.env`): PATH, PYTHONPATH, LD_PRELOAD or
    DOCKER_HOST of a job would run or redirect rsctl itself.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _SETTINGS or not belongs_to_contract(name)
    }
    return {**inherited, "RSCTL_HOME": str(home())}


class OwnProcess(subprocess.Popen[bytes]):
    """A process of rsctl that may outlive this one, of which Popen warns otherwise."""

    def __del__(self) -> None:
        """Leave the process running; this one reaps it if both continue."""
        super().__del__(_warn=lambda *_, **__: None)  # type: ignore[call-arg]
