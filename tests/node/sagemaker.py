"""A SageMaker job on the loopback: each node its own address and its own root folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOKEN = "0123456789abcdef" * 4


class Job:
    """Hosts in groups, and the nodes that were started of them.

    The numbers of the addresses go down, so that a host's rank is not its index in the list.
    """

    def __init__(
        self, folder: Path, launch: Callable[..., Any], groups: dict[str, list[str]], port: int
    ) -> None:
        self._folder = folder
        self._launch = launch
        self._groups = groups
        self.port = port
        self.environ: dict[str, str] = {}
        """What all nodes have beyond their platform's."""

    @property
    def workers(self) -> list[str]:
        """The workers' hosts, by rank."""
        return self._sorted("workers")

    @property
    def reducers(self) -> list[str]:
        """The reducers' hosts, by index."""
        return self._sorted("reducers")

    def _sorted(self, group: str) -> list[str]:
        return sorted(self._groups[group], key=lambda host: int(host.rpartition(".")[2]))

    def root(self, host: str) -> Path:
        return self._folder / host

    def failure(self, host: str) -> str | None:
        path = self.root(host) / "opt/ml/output/failure"
        return path.read_text() if path.exists() else None

    def start(self, host: str, *arguments: str, **extra: str) -> Any:
        write_config(self.root(host), resource_config(self._groups, host))
        given = {
            "RSCTL_TARGET": "sagemaker",
            "RSCTL_ROOT": str(self.root(host)),
            "RSCTL_PORT": str(self.port),
            "RSCTL_RUN": "run-abc123",
        }
        if len(self._groups) > 1:
            given |= {"RSCTL_TOKEN": TOKEN, "RSCTL_REDUCER_KIND": "rsctl"}
        return self._launch(*arguments, **{**given, **self.environ, **extra})


def resource_config(
    groups: dict[str, list[str]], host: str, interface: str = "lo"
) -> dict[str, Any]:
    """The file as SageMaker writes it; one group without a name is a homogeneous job."""
    hosts = [name for members in groups.values() for name in members]
    config: dict[str, Any] = {
        "current_host": host,
        "current_instance_type": "ml.c5n.9xlarge",
        "hosts": hosts,
        "network_interface_name": interface,
    }
    if list(groups) == ["homogeneousCluster"]:
        return {**config, "current_group_name": "homogeneousCluster"}
    config["current_group_name"] = next(name for name in groups if host in groups[name])
    config["instance_groups"] = [
        {"instance_group_name": name, "instance_type": "ml.c5n.9xlarge", "hosts": members}
        for name, members in groups.items()
    ]
    return config


def write_config(root: Path, config: Any, name: str = "resourceconfig.json") -> None:
    """Put a file where the platform puts it."""
    folder = root / "opt/ml/input/config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(config))
