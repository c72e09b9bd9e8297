"""What a node starts: the command line and the environment, from its place in the cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from rsctl.runtime import rank
from rsctl.runtime.cluster import Cluster
from rsctl.runtime.refusal import CONFIGURATION, ENVIRONMENT, Refusal

_FIRST_AUTOLOAD = (2, 5)


@dataclass(frozen=True)
class Work:
    """A program to run: its arguments and its whole environment."""

    argv: list[str]
    environ: dict[str, str]


def torchrun(
    cluster: Cluster, processes: int, command: list[str], environ: Mapping[str, str]
) -> Work:
    """One torchrun, which starts the command once for each of this node's ranks.

    Raises Refusal if this interpreter has no torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise no_torch()
    if cluster.reducers or any(name.startswith("RSCTL_COMM_") for name in environ):
        _require_binding(environ)
    rendezvous = ["--nnodes", str(len(cluster.workers)), "--node-rank", str(cluster.index)]
    rendezvous += ["--master-addr", cluster.chief, "--master-port", str(cluster.port)]
    supervisor = [sys.executable, "-I", "-S", os.path.abspath(rank.__file__), "--"]
    return Work(
        argv=[
            *(sys.executable, "-m", "rsctl.runtime.elastic"),
            *rendezvous,
            *("--nproc-per-node", str(processes), "--no-python"),
            *supervisor,
            *command,
        ],
        environ=_with_defaults(cluster, environ),
    )


def no_torch() -> Refusal:
    """The refusal of torchrun where this interpreter has no torch."""
    return Refusal(
        ENVIRONMENT,
        "torch-missing",
        f"the launcher torchrun needs torch, and {sys.executable} has none",
        "Add torch to image.python, take an image.base that has it, or set run.launcher: once.",
    )


def once(cluster: Cluster, command: list[str], environ: Mapping[str, str]) -> Work:
    """The command itself, once on this node, told its rank as torchrun would tell it."""
    place = {
        "RANK": str(cluster.index),
        "WORLD_SIZE": str(len(cluster.workers)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": cluster.chief,
        "MASTER_PORT": str(cluster.port),
    }
    return Work(argv=command, environ=_with_defaults(cluster, environ) | place)


def reducer(cluster: Cluster, processes: int, environ: Mapping[str, str]) -> Work:
    """The reducer's program, on this node's interface alone, with a lane for each rank of a node.

    Raises Refusal if this interpreter does not have it.
    """
    if importlib.util.find_spec("rsctl.transport") is None:
        raise Refusal(
            ENVIRONMENT,
            "reducer-missing",
            "no reducer program is in this image",
            "Build the image with rsctl (image.base), or set reducers.count: 0.",
        )
    program = [sys.executable, "-m", "rsctl.transport.reduce"]
    port = str(cluster.reducer_ports[cluster.index])
    place = (
        ["--interface", cluster.interface] if cluster.interface else ["--bind", cluster.own_host]
    )
    lanes = ["--lanes", str(processes)] if processes > 1 else []
    return Work([*program, *place, "--port", port, *lanes], _with_defaults(cluster, environ))


def _require_binding(environ: Mapping[str, str]) -> None:
    """Raises Refusal where torch would not load the binding, which nothing else would notice."""
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise Refusal(
            CONFIGURATION,
            "binding-off",
            "reducers and comm: reach the script by torch's autoload, and "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off",
            "Remove the variable from run.env or from the image.",
        )
    from importlib.metadata import version  # costs a launch that has no reducers 15 ms

    found = version("torch")
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < _FIRST_AUTOLOAD:
        raise Refusal(
            ENVIRONMENT,
            "binding-off",
            f"reducers and comm: reach the script by torch's autoload, which torch {found} "
            "does not have",
            "Take an image.base with torch 2.5 or later.",
        )


def _with_defaults(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with what the user has not set: live output, and the interface to use."""
    defaults = {"PYTHONUNBUFFERED": "1", "RSCTL_REDUCERS": cluster.reducer_addresses}
    if cluster.interface is not None:
        defaults["GLOO_SOCKET_IFNAME"] = cluster.interface
        defaults["NCCL_SOCKET_IFNAME"] = cluster.interface
    return defaults | dict(environ)
