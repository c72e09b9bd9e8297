"""The folders of the user's own files: data such as runs, and configuration such as prices."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """`RSCTL_HOME`, otherwise the platform's data folder for rsctl. It may not exist."""
    return _chosen("RSCTL_HOME") or _of_platform("data", "XDG_DATA_HOME", ".local/share")


def configuration_folder() -> Path:
    """`RSCTL_CONFIG`, otherwise the platform's configuration folder for rsctl. It may not exist."""
    return _chosen("RSCTL_CONFIG") or _of_platform("config", "XDG_CONFIG_HOME", ".config")


def home_folder() -> Path:
    """The user's home; the root for a user who has none, as Docker sets it for an unknown user."""
    found = os.path.expanduser("~")
    return Path("/" if found == "~" else found)


def docker_folder() -> Path:
    """The folder of Docker's own configuration. It may not exist."""
    return Path(os.environ.get("DOCKER_CONFIG") or home_folder() / ".docker")


def _chosen(variable: str) -> Path | None:
    chosen = os.environ.get(variable)
    return Path(os.path.expanduser(chosen)).absolute() if chosen else None


def _of_platform(kind: str, variable: str, below_home: str) -> Path:
    if sys.platform == "linux":  # as in platformdirs, whose import would cost each plan 5 ms
        return Path(os.environ.get(variable, "").strip() or home_folder() / below_home) / "rsctl"
    import platformdirs

    find = platformdirs.user_data_dir if kind == "data" else platformdirs.user_config_dir
    return Path(find("rsctl", appauthor=False))
