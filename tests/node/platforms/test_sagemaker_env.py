"""The SM_* variables, compared with those of AWS's own toolkit on the same files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.platforms.sagemaker_cluster import read
from rsctl.node.platforms.sagemaker_env import variables
from rsctl.node.platforms.sagemaker_hyperparameters import arguments_of
from tests.fixtures import real
from tests.node.sagemaker import write_config

CASES = {case["name"]: case for case in real("sagemaker_toolkit")}
MACHINE = {"num_cpus", "num_gpus"}
TOOLKIT = {
    *("additional_framework_parameters", "distribution_hosts", "framework_module", "module_dir"),
    *("is_modelparallel_enabled", "is_smddpmprun_installed", "is_smddprun_installed"),
    *("module_name", "topology", "user_entry_point"),
}
"""What tells of the toolkit and of what it starts, and not of the job."""

OF_WORKERS = {  # a script of ours finds its workers, whatever other groups there are
    "hosts": ["algo-2", "algo-3"],
    "instance_groups": ["workers"],
    "is_hetero": False,
    "master_hostname": "algo-2",
    "is_master": True,
}
WITHOUT_GROUPS = {  # where the file says nothing, the toolkit has made-up words or nothing
    "current_instance_type": "",
    "current_instance_group_hosts": ["algo-1", "algo-2", "algo-3"],
}
NO_INTERFACE = {"network_interface_name": ""}  # the toolkit takes eth0 where none is named


def of_files(root: Path, files: dict[str, Any]) -> dict[str, str]:
    for name, content in files.items():
        write_config(root, content, name)
    environ = {"RSCTL_ROOT": str(root), "TRAINING_JOB_NAME": "job-7f3k2a"}
    found = variables(read(environ), environ)
    return {name: text.replace(str(root), "") for name, text in found.items()}


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """What they have and we have not, or otherwise: ours, None if we have nothing."""
    same = {name for name in theirs if json.dumps(ours.get(name)) == json.dumps(theirs[name])}
    return {name: ours.get(name) for name in theirs if name not in same}  # NaN is not itself


def parsed(variables: dict[str, str]) -> dict[str, Any]:
    """Variables by the toolkit's names, those that are JSON read."""
    whole = json.loads(variables["SM_TRAINING_ENV"])
    return {name: value for name, value in whole.items() if name not in TOOLKIT | MACHINE}


def test_one_host_has_each_variable_of_the_toolkit(tmp_path: Path) -> None:
    case = CASES["one host, hyperparameters of every kind"]
    theirs = dict(case["variables"])
    ours = of_files(tmp_path, case["files"])
    whole = json.loads(theirs.pop("SM_TRAINING_ENV"))
    assert differences(ours, theirs) == {}
    kept = {name: value for name, value in whole.items() if name not in TOOLKIT | MACHINE}
    assert differences(parsed(ours), kept) == {}


def test_hyperparameters_as_arguments() -> None:
    """As AWS's toolkit makes them: sagemaker_training/mapping.py, `to_cmd_args`."""
    found = arguments_of({"lr": 0.1, "e": 3, "": None, "sizes": {"b": 1, "a": 2}})
    assert found == ["", "", "-e", "3", "--lr", "0.1", "--sizes", "a=2,b=1"]


def test_a_real_job_has_these_variables(tmp_path: Path) -> None:
    case = CASES["a job of 2025, as its log shows it"]
    assert differences(of_files(tmp_path, case["files"]), case["variables"]) == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("three hosts of one group, the file without groups", WITHOUT_GROUPS),
        ("the files of the toolkit's own tests", {**WITHOUT_GROUPS, **NO_INTERFACE}),
        ("two groups", OF_WORKERS),
    ],
)
def test_what_differs_does_so_on_purpose(
    name: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    case = CASES[name]
    ours, theirs = of_files(tmp_path, case["files"]), case["variables"]
    found = differences(parsed(ours), parsed(theirs))
    found.pop("resource_config", None), found.pop("instance_groups_dict", None)
    assert found == expected
    shown = {f"SM_{key.upper()}" for key in [*expected, "resource_config", "instance_groups_dict"]}
    assert differences(ours, theirs).keys() - {"SM_TRAINING_ENV"} <= shown


def test_what_carries_our_own_arguments_is_no_hyperparameter(tmp_path: Path) -> None:
    config = {"current_host": "algo-1", "hosts": ["algo-1"]}
    given = {"rsctl_arguments_0": '["--', "rsctl_arguments_1": 'python"]', "epochs": "3"}
    files = {"resourceconfig.json": config, "hyperparameters.json": given}
    found = of_files(tmp_path, files)
    assert found["SM_HPS"] == '{"epochs":3}'
    assert found["SM_USER_ARGS"] == '["--epochs","3"]'
    assert [name for name in found if name.startswith("SM_HP_")] == ["SM_HP_EPOCHS"]


@pytest.mark.parametrize("value", ["[" * 5000, "\ud800", "a\0b", "x" * 200_000, "9" * 5000])
def test_a_value_that_no_variable_can_have_is_left_out_and_nothing_else(
    value: str, tmp_path: Path
) -> None:
    config = {"current_host": "algo-1", "hosts": ["algo-1"]}
    given = {"odd": value, "epochs": "3"}
    found = of_files(tmp_path, {"resourceconfig.json": config, "hyperparameters.json": given})
    assert found["SM_HP_EPOCHS"] == "3"
    assert all("\0" not in text and len(text) < 1 << 17 for text in found.values())
    for text in found.values():
        text.encode()


@pytest.mark.parametrize(
    ("machine", "devices", "cores"),
    [
        ("ml.trn1.2xlarge", ["neuron0"], 2),
        ("ml.trn1.32xlarge", [f"neuron{n}" for n in range(16)], 32),
        ("ml.trn2.48xlarge", [f"neuron{n}" for n in range(16)], 64),
        ("ml.g5.12xlarge", ["nvidia0", "nvidia1"], 0),
    ],
)
def test_neuron_cores_are_counted_as_the_toolkit_counts_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    devices: list[str],
    cores: int,
) -> None:
    listed = os.listdir

    def listdir(path: str) -> list[str]:
        return devices if path == "/dev" else listed(path)

    monkeypatch.setattr("os.listdir", listdir)
    config = {"current_host": "algo-1", "hosts": ["algo-1"], "current_instance_type": machine}
    found = of_files(tmp_path, {"resourceconfig.json": config})
    gpus = sum(name.startswith("nvidia") for name in devices)
    assert (found["SM_NUM_NEURONS"], found["SM_NUM_GPUS"]) == (str(cores), str(gpus))
