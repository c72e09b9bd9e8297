"""Files of a run's folder where this machine sees the cluster's shared file system."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rsctl.targets.slurm.cluster import FileState, Part

STATES = "states"


def list_files(folder: str) -> list[FileState] | None:
    """See Cluster.files. Each file is opened: an NFS client then asks the server for its size."""
    try:
        paths = _paths(folder)
    except FileNotFoundError:
        return None
    except OSError:  # it is another user's
        return []
    found = []
    for path in paths:
        try:
            with open(os.path.join(folder, path), "rb") as file:
                found.append(FileState(path, os.fstat(file.fileno()).st_size))
        except OSError:
            continue
    return found


def _paths(folder: str) -> list[str]:
    paths = [STATES, f"../{os.path.basename(folder)}.batch.log"]
    logs = os.path.join(folder, "logs")
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    if "logs" not in names:
        return paths
    for attempt in sorted(os.listdir(logs)):
        inside = os.path.join(logs, attempt)
        if attempt.isdigit() and os.path.isdir(inside):
            names = sorted(os.listdir(inside))
            paths += [f"logs/{attempt}/{n}" for n in names if n.endswith((".log", ".step"))]
    return paths


def read_parts(folder: str, parts: Iterable[Part]) -> dict[str, bytes]:
    """See Cluster.read."""
    found = {}
    for part in parts:
        try:
            with open(os.path.join(folder, part.path), "rb") as file:
                file.seek(part.offset)
                found[part.path] = file.read(part.size)
        except OSError:
            continue
    return found
