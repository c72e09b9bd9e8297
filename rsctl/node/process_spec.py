"""The process that a node starts: its command line and environment, for its role in the cluster."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

import rsctl_start
from rsctl.node import binding, rank
from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.network import is_loopback
from rsctl.node.platforms import LOCAL, platform
from rsctl.node.roles import tf_config, without_ranks


class ProcessSpec(NamedTuple):
    """A program to run: its arguments and its whole environment."""

    argv: list[str]
    environ: dict[str, str]


def require_modules(cluster: Cluster, launcher: str, environ: Mapping[str, str]) -> None:
    """Raises LaunchError if this interpreter cannot run the node's program."""
    if cluster.role == "reducer":
        _require_reducer()
    elif cluster.role != "worker":
        return
    elif launcher == "mpi":
        from rsctl.node.mpi.mpirun import require_mpirun

        require_mpirun(environ)
    elif launcher == "torchrun":
        _require_torch()
        if cluster.reducers or any(name.startswith("RSCTL_COMM_") for name in environ):
            binding.require_autoload(environ)


def torchrun(
    cluster: Cluster,
    processes: int,
    command: list[str],
    environ: Mapping[str, str],
    restarts: int = 0,
) -> ProcessSpec:
    """One torchrun, which starts the command once for each of this node's ranks, and again up to
    `restarts` times with those of all nodes.

    Raises LaunchError if the binding to PyTorch could not reach the command.
    """
    rendezvous = ["--nnodes", str(len(cluster.workers)), "--node-rank", str(cluster.index)]
    rendezvous += ["--master-addr", cluster.master_address]
    rendezvous += ["--master-port", str(cluster.port)]
    if cluster.platform != LOCAL:
        rendezvous += ["--rdzv-conf", f"timeout={round(peer_timeout(cluster, environ))}"]
    rendezvous += ["--max-restarts", str(restarts)] if restarts else []
    supervisor = [sys.executable, "-I", "-S", os.path.abspath(rank.__file__), "--"]
    return ProcessSpec(
        argv=[
            *rsctl_start.command("rsctl.node.torchrun"),
            *rendezvous,
            *("--nproc-per-node", str(processes), "--no-python"),
            *supervisor,
            *binding.wrap_command(command, environ),
        ],
        environ={
            **_threads(cluster, processes),
            **_expected(cluster, processes),
            # Vertex AI sets RANK to the node's number, and torchrun itself has no rank.
            **without_ranks(_with_defaults(cluster, environ)),
        },
    )


def _expected(cluster: Cluster, processes: int) -> dict[str, str]:
    """The nodes that train together and the least number of their ranks: the binding to PyTorch
    tells where there are fewer.

    Nodes may have different numbers of ranks, and a launcher of the user's own may start more.
    """
    nodes = len(cluster.workers)
    ranks = max(nodes, processes)
    expected = {"RSCTL_EXPECTED_RANKS": ranks, "RSCTL_EXPECTED_NODES": nodes}
    return {name: str(count) for name, count in expected.items() if ranks > 1}


def _threads(cluster: Cluster, processes: int) -> dict[str, str]:
    """A node's processors in equal parts for its ranks; torchrun gives each but one.

    rsctl's own targets have set it already: their nodes share a machine.
    """
    if cluster.platform == LOCAL:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes))}


def torch_missing() -> LaunchError:
    """The error of launcher torchrun where this interpreter has no torch."""
    return LaunchError(
        ENVIRONMENT,
        "torch-missing",
        f"the launcher torchrun needs torch, and {sys.executable} does not have it",
        "Add torch to image.python, use an image.base that has it, or set run.launcher: once.",
    )


def once(cluster: Cluster, command: list[str], environ: Mapping[str, str]) -> ProcessSpec:
    """The command itself, once on this node, with what tells the nodes apart.

    It gets no variable of a rank: Lightning's Trainer, for one, starts a node's ranks by itself
    unless it finds LOCAL_RANK, which says that a launcher has.
    """
    node = {
        "NODE_RANK": str(cluster.index),
        "NNODES": str(len(cluster.workers)),
        "MASTER_ADDR": cluster.master_address,
        "MASTER_PORT": str(cluster.port),
    }
    environ = _expected(cluster, 1) | without_ranks(_with_defaults(cluster, environ))
    return ProcessSpec(command, environ | node | _tf_config(cluster, environ))


def of_role(cluster: Cluster, command: list[str], environ: Mapping[str, str]) -> ProcessSpec:
    """The command of a role's node, once, with the address of the chief and without a rank."""
    meeting = {"MASTER_ADDR": cluster.master_address, "MASTER_PORT": str(cluster.port)}
    defaults = without_ranks(_with_defaults(cluster, environ))
    return ProcessSpec(command, defaults | meeting | _tf_config(cluster, environ))


def _tf_config(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """TF_CONFIG, unless the user has set one."""
    text = tf_config(cluster)
    is_users = "TF_CONFIG" in environ and not platform(cluster.platform).sets_tf_config
    return {"TF_CONFIG": text} if text is not None and not is_users else {}


def mpi(
    cluster: Cluster, processes: int, command: list[str], environ: Mapping[str, str]
) -> ProcessSpec:
    """The chief's mpirun, which starts the command once for each rank of the job.

    The file with the nodes is in the environment as RSCTL_HOSTFILE. Other workers have the same
    environment for MPI's daemon, and start nothing by themselves.
    """
    from rsctl.node.mpi import mpirun

    defaults = {**_threads(cluster, processes), **_with_defaults(cluster, environ)}
    defaults = mpirun.with_settings(cluster, defaults)
    defaults |= {"MASTER_ADDR": cluster.master_address, "MASTER_PORT": str(cluster.port)}
    if cluster.index > 0:
        return ProcessSpec([], defaults)
    hostfile = mpirun.write_hostfile(cluster, processes)
    argv = mpirun.command_line(cluster, processes, hostfile, command)
    return ProcessSpec(argv, {**defaults, mpirun.HOSTFILE: hostfile})


def reducer(cluster: Cluster, processes: int, environ: Mapping[str, str]) -> ProcessSpec:
    """The reducer's program, on this node's interface alone, with a lane for each rank of a node.

    An address of the loopback is this node's own, where all nodes are processes of one machine.
    """
    program = rsctl_start.command("rsctl.transport.reduce")
    port = str(cluster.reducer_ports[cluster.index])
    if cluster.interface and not is_loopback(cluster.own_host):
        listen = ["--interface", cluster.interface]
    else:
        listen = ["--bind", cluster.own_host]
    lanes = ["--lanes", str(processes)] if processes > 1 else []
    return ProcessSpec(
        [*program, *listen, "--port", port, *lanes], _with_defaults(cluster, environ)
    )


def _require_reducer() -> None:
    if importlib.util.find_spec("rsctl.transport") is None:
        raise LaunchError(
            ENVIRONMENT,
            "reducer-missing",
            "this image contains no reducer program",
            "Build the image with rsctl (image.base), or set reducers.count: 0.",
        )


def _require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise torch_missing()


def _with_defaults(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with what the user has not set: live output, and the interface to use."""
    defaults = {"PYTHONUNBUFFERED": "1", "RSCTL_REDUCERS": cluster.reducer_addresses}
    if cluster.interface is not None:
        defaults["GLOO_SOCKET_IFNAME"] = cluster.interface
        defaults["NCCL_SOCKET_IFNAME"] = cluster.interface
    return defaults | dict(environ)
