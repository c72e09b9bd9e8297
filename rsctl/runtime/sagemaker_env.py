"""The SM_* variables that scripts written for SageMaker read. The platform itself sets none.

AWS's images set them by its sagemaker-training toolkit, of whose variables this is the part that
says where things are and who takes part. A script finds only the workers there, as if reducers
did not exist: it counts its ranks by SM_HOSTS.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from rsctl.runtime.cluster import Cluster, sagemaker_path
from rsctl.runtime.cluster_sagemaker import resources

_CONFIG = "/opt/ml/input/config"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_GPU = re.compile(r"nvidia\d+")
_MOST_BYTES = 1 << 20
_FOLDERS = {
    "SM_INPUT_DIR": "/opt/ml/input",
    "SM_INPUT_CONFIG_DIR": _CONFIG,
    "SM_MODEL_DIR": "/opt/ml/model",
    "SM_OUTPUT_DIR": "/opt/ml/output",
    "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data",
}
_WRITTEN = ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR")


def variables(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a worker. Makes the folders that scripts write to. Raises Refusal."""
    folders = {name: sagemaker_path(environ, path) for name, path in _FOLDERS.items()}
    for name in _WRITTEN:
        _make(folders[name])
    return {**folders, **_hosts(cluster, environ), **_channels(environ), **_parameters(environ)}


def _hosts(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    found = resources(environ)
    hosts = json.dumps(list(cluster.workers))
    return {
        "SM_HOSTS": hosts,
        "SM_CURRENT_HOST": found.host,
        "SM_CURRENT_INSTANCE_TYPE": found.instance_type,
        "SM_CURRENT_INSTANCE_GROUP": found.group,
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": hosts,
        "SM_NETWORK_INTERFACE_NAME": cluster.interface or "",
        "SM_NUM_CPUS": str(os.cpu_count() or 1),
        "SM_NUM_GPUS": str(_gpus()),
    }


def _channels(environ: Mapping[str, str]) -> dict[str, str]:
    given = _read(environ, "inputdataconfig.json")
    names = sorted(name for name in given if _NAME.fullmatch(name))
    folders = {
        f"SM_CHANNEL_{name.upper()}": sagemaker_path(environ, f"/opt/ml/input/data/{name}")
        for name in names
    }
    return {"SM_CHANNELS": json.dumps(names), **folders}


def _parameters(environ: Mapping[str, str]) -> dict[str, str]:
    """The job's hyperparameters, whose values are texts."""
    given = _read(environ, "hyperparameters.json")
    each = {
        f"SM_HP_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if _NAME.fullmatch(name)
    }
    return {"SM_HPS": json.dumps(given), **{n: v for n, v in each.items() if "\0" not in v}}


def _read(environ: Mapping[str, str], name: str) -> dict[str, object]:
    """A file of the platform's configuration; empty where it is missing or no JSON object."""
    try:
        with open(sagemaker_path(environ, f"{_CONFIG}/{name}"), "rb") as file:
            fields = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _gpus() -> int:
    try:
        return sum(1 for name in os.listdir("/dev") if _GPU.fullmatch(name))
    except OSError:
        return 0


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # A script that writes there will say it better.
