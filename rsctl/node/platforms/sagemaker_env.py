"""The SM_* variables that scripts written for SageMaker read. The platform itself sets none.

AWS's images set them by its sagemaker-training toolkit, and version 3 of the SageMaker SDK by a
program of its own; these are both's, but for variables that describe the toolkit itself. A script
finds only the workers in SM_HOSTS, by which it counts its ranks, and the groups of roles of the
job's own among the groups; it is as if reducers did not exist.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import sagemaker_hyperparameters
from rsctl.node.platforms.sagemaker_cluster import resources, sagemaker_path
from rsctl.node.platforms.sagemaker_hyperparameters import to_json
from rsctl.node.small_files import listed

_CONFIG = "/opt/ml/input/config"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_GPU = re.compile(r"nvidia\d+")
_NEURON = re.compile(r"neuron\d+")
_MAX_BYTES = 1 << 20
_MAX_VARIABLE_BYTES = (1 << 17) - 512  # bytes: Linux takes 128 KiB for a variable with its name
_FOLDERS = {
    "SM_INPUT_DIR": "/opt/ml/input",
    "SM_INPUT_DATA_DIR": "/opt/ml/input/data",
    "SM_INPUT_CONFIG_DIR": _CONFIG,
    "SM_MODEL_DIR": "/opt/ml/model",
    "SM_OUTPUT_DIR": "/opt/ml/output",
    "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data",
    "SM_OUTPUT_FAILURE": "/opt/ml/output/failure",
    "SM_OUTPUT_INTERMEDIATE_DIR": "/opt/ml/output/intermediate",
}
_WRITTEN = ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR")
_MASTER_PORT = 7777  # the SDK's own, for scripts that start torchrun themselves


def variables(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a worker, or of a node of a role. Makes the folders that scripts write to.

    Raises LaunchError.
    """
    folders = {name: sagemaker_path(environ, path) for name, path in _FOLDERS.items()}
    for name in _WRITTEN:
        _make(folders[name])
    inputs = _read(environ, "inputdataconfig.json")
    channels = {
        name: sagemaker_path(environ, f"/opt/ml/input/data/{name}")
        for name in sorted(name for name in inputs if _NAME.fullmatch(name))
    }
    given = _read(environ, "hyperparameters.json")
    parameters = sagemaker_hyperparameters.decode_all(given)
    facts = {**_facts(cluster, environ), "log_level": sagemaker_hyperparameters.log_level(given)}
    whole = {
        **facts,
        **{name[3:].lower(): folder for name, folder in folders.items()},
        "channel_input_dirs": channels,
        "hyperparameters": parameters,
        "input_data_config": inputs,
        "job_name": environ.get("TRAINING_JOB_NAME"),
        "is_master": cluster.replica == "worker-0",
        "master_hostname": cluster.workers[0],
    }
    found = {
        **folders,
        **{f"SM_{name.upper()}": _text(value) for name, value in facts.items()},
        "SM_CURRENT_HOST_RANK": str(cluster.index),
        "SM_HOST_COUNT": str(len(cluster.workers)),
        "SM_MASTER_ADDR": cluster.workers[0],
        "SM_MASTER_PORT": str(_MASTER_PORT),
        "SM_INPUT_DATA_CONFIG": to_json(inputs),
        "SM_CHANNELS": to_json(list(channels)),
        **{f"SM_CHANNEL_{name.upper()}": folder for name, folder in channels.items()},
        **sagemaker_hyperparameters.variables(parameters),
        "SM_TRAINING_ENV": to_json(whole),
    }
    return {name: text for name, text in found.items() if _fits(text)}


def _facts(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, Any]:
    """The values that are both in single variables and in SM_TRAINING_ENV, by their names there."""
    found = resources(environ)
    hosts = list(cluster.workers)
    shown = [*hosts, *chain(*cluster.roles.values())]
    config = _without_reducers(_read(environ, "resourceconfig.json"), shown)
    groups = config.get("instance_groups") or []
    return {
        "hosts": hosts,
        "current_host": found.host,
        "current_instance_type": found.instance_type,
        "current_instance_group": found.group,
        "current_instance_group_hosts": list(found.groups[found.group]),
        "instance_groups": [group["instance_group_name"] for group in groups],
        "instance_groups_dict": {group["instance_group_name"]: group for group in groups},
        "distribution_instance_groups": [],
        "is_hetero": len(groups) > 1,
        "network_interface_name": cluster.interface or "",
        "resource_config": config,
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": _devices(_GPU),
        "num_neurons": _devices(_NEURON) * _cores(found.instance_type),
    }


def _without_reducers(config: dict[str, Any], shown: list[str]) -> dict[str, Any]:
    """The file as of a job that has the hosts `shown` only; `resources` has checked it."""
    groups = config.get("instance_groups") or []
    kept = [group for group in groups if set(group["hosts"]) <= set(shown)]
    hosts = [host for host in config.get("hosts") or [] if host in shown]
    return {**config, **({"instance_groups": kept} if groups else {}), "hosts": hosts}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _fits(text: str) -> bool:
    """Whether a variable can have it: one that is too long would keep the script from starting."""
    try:
        return "\0" not in text and len(os.fsencode(text)) < _MAX_VARIABLE_BYTES
    except UnicodeEncodeError:
        return False


def _read(environ: Mapping[str, str], name: str) -> dict[str, Any]:
    """A file of the platform's configuration; empty if it is missing or no JSON object."""
    try:
        with open(sagemaker_path(environ, f"{_CONFIG}/{name}"), "rb") as file:
            fields = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _devices(name: re.Pattern[str]) -> int:
    return sum(1 for each in listed("/dev") if name.fullmatch(each))


def _cores(instance_type: str) -> int:
    """NeuronCores of a chip, as its runtime shows them: 4 make up the 64 that the toolkit has for
    trn2.48xlarge (environment.py, `num_neurons`), which asks neuron-ls on other machines."""
    return 4 if ".trn2" in instance_type else 2


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # A script that writes there fails with a better message.
