"""Where rsctl keeps its runs on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`RSCTL_HOME`, else the platform's data directory for rsctl. It may not exist yet."""
    chosen = os.environ.get("RSCTL_HOME")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("rsctl", appauthor=False))


def is_rehearsed(run: str) -> bool:
    """Whether this machine plays the cloud of a run."""
    return (run_directory(run) / "rehearsal.json").exists()


def run_directory(run: str) -> Path:
    """The folder of one run: its request, logs, outputs and checkpoints."""
    return home() / "runs" / run
