"""A job's data on one node: what is copied before the start, and which shards each rank has.

The nodes share out the shards, then each node's ranks its part. A rank finds the names of its own,
one a line, in the file that RSCTL_INPUT_NAME_SHARDS names: 10,000 of them would not fit into a
variable.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rsctl.node import shards
from rsctl.node.cluster import Cluster
from rsctl.node.errors import USAGE, LaunchError
from rsctl.node.structured_lines import emit, warning

if TYPE_CHECKING:
    from rsctl.node.copies import Copied
    from rsctl.node.options import Options

_LOCAL_RANK = "{local_rank}"
_SHOWN = 3


def provide(cluster: Cluster, options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the inputs of this node's ranks; each rank fills in `{local_rank}`.

    First copies the inputs that must be on this node's disk. Raises LaunchError.
    """
    changed = dict(environ)
    if cluster.role == "reducer":
        return changed
    for name, source in (given.split("=", 1) for given in options.copy):
        changed[_variable(name)] = _copied(name, source, cluster, environ)
    for name in options.count:
        from rsctl.node.copies import count  # few jobs count or copy

        _emit(name, count(_value(name, environ)))
    for name in options.shards:
        changed[f"{_variable(name)}_SHARDS"] = _listed(name, cluster, options.processes, changed)
    return changed


def of_rank(path: str, local_rank: int) -> str:
    """The file with a rank's shards, by the path of any rank's. `rank.py` has its own copy of this
    function.
    """
    return path.replace(_LOCAL_RANK, str(local_rank))


def of_first_rank(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a node's only command."""
    return {name: of_rank(value, 0) if _is_list(name) else value for name, value in environ.items()}


def _is_list(variable: str) -> bool:
    return variable.startswith("RSCTL_INPUT_") and variable.endswith("_SHARDS")


def _copied(name: str, source: str, cluster: Cluster, environ: Mapping[str, str]) -> str:
    """Where an input is copied to."""
    from rsctl.node.copies import CopyRequest, copy

    target = _below_root(_value(name, environ), environ)
    source = _below_root(source, environ)
    names, folder, here = None, source, target
    if shards.has_range(source):
        (folder, pattern), (here, _) = shards.split_folder(source), shards.split_folder(target)
        names = tuple(_own(_expanded(name, pattern), cluster))
    base = os.path.dirname(here) if names is None else here
    marker = os.path.join(os.path.dirname(base), f".{name}.complete")
    print(f"rsctl: copying {name} from {source} to {target}", flush=True)
    is_shared = environ.get("RSCTL_TARGET") == "slurm"  # elsewhere the disk ends with its node
    copied = copy(CopyRequest(name, folder, here, marker, names, is_shared))
    if copied is None:
        print(f"rsctl: {name} exists from an earlier start", flush=True)
    else:
        _report(name, copied)
    return target


def _report(name: str, copied: Copied) -> None:
    if copied.left_out:
        examples = ", ".join(repr(path[:80]) for path in copied.left_out[:_SHOWN])
        message = (
            f"{len(copied.left_out)} entries of {name} are not files, or point outside it: "
            f"{examples}"
        )
        remedy = "If they are needed, replace them with files."
        emit("finding", warning("left-out", message, remedy))
    seconds = round(copied.seconds, 3)
    _emit(name, {"files": copied.files, "bytes": copied.bytes, "seconds": seconds})


def _emit(name: str, metrics: Mapping[str, float]) -> None:
    emit("metrics", {f"input.{name}.{key}": value for key, value in metrics.items()})


def _listed(name: str, cluster: Cluster, processes: int, environ: Mapping[str, str]) -> str:
    """Write the names of each local rank's shards; the path of the file, for any of them."""
    own = _own(_expanded(name, _value(name, environ)), cluster)
    folder = _below_root(tempfile.gettempdir(), environ)
    try:
        os.makedirs(folder, exist_ok=True)
        # On a cluster other users have the same folder for temporary files.
        made = tempfile.mkdtemp(prefix="rsctl-shards-", dir=folder)
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        path = os.path.join(made, f"{name}.{_LOCAL_RANK}")
        for local_rank in range(processes):
            names = shards.share(own, local_rank, processes)
            with open(of_rank(path, local_rank), "w", encoding="utf-8") as file:
                file.writelines(f"{each}\n" for each in names)
    except OSError as problem:
        message = f"cannot list the shards of {name} in {folder}: {problem.strerror}"
        raise LaunchError(USAGE, "input", message, "Make it writable.") from None
    return path


def _own(names: list[str], cluster: Cluster) -> list[str]:
    """This node's part; nodes of other roles than the workers' have all of it."""
    if cluster.role != "worker":
        return names
    return shards.share(names, cluster.index, len(cluster.workers))


def _expanded(name: str, pattern: str) -> list[str]:
    try:
        return shards.expand(pattern)
    except ValueError as problem:
        raise LaunchError(USAGE, "input", f"{name}: {problem}", "Correct inputs.") from None


def _value(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(_variable(name))
    if not value:
        message = f"{_variable(name)} is not set, so the location of {name} is unknown"
        raise LaunchError(USAGE, "input", message, "Start the job with `rsctl submit`.")
    return value


def _variable(name: str) -> str:
    return f"RSCTL_INPUT_{name.upper()}"


def _below_root(path: str, environ: Mapping[str, str]) -> str:
    """A path on the node's own disk; rehearsals without containers move its root."""
    root = environ.get("RSCTL_ROOT")
    if not root or path.startswith(root):
        return path
    return os.path.join(root, path.lstrip("/"))
