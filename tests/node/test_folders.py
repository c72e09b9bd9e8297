"""The run's folders in arguments, and files that are left outside of them."""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.node import lost_files, path_placeholders

FOLDERS = {"RSCTL_OUTPUT_DIR": "/out dir", "RSCTL_INPUT_TRAIN": "/data"}


def test_only_arguments_are_filled_in_and_only_what_is_known() -> None:
    arguments = [
        "echo",
        "{outputs}",
        "--out={outputs}/x",
        "{inputs.train}",
        "{checkpoints}",
        '{"a": 1}',
    ]
    assert path_placeholders.replace_placeholders(arguments, 4, FOLDERS) == [
        *("echo", "{outputs}", "--out=/out dir/x", "/data", "{checkpoints}", '{"a": 1}'),
    ]
    assert path_placeholders.placeholder_names(arguments[2:]) == [
        "outputs",
        "inputs.train",
        "checkpoints",
    ]


def write(path: Path, written: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (written, written))


def test_new_files_outside_the_runs_folders_are_named(tmp_path: Path) -> None:
    environ = {"RSCTL_OUTPUT_DIR": str(tmp_path / "outputs")}
    for name, written in {
        "train.py": 50.0,
        "outputs/model.pt": 200.0,
        "__pycache__/train.pyc": 200.0,
    }.items():
        write(tmp_path / name, written)
    assert lost_files.lost_files_finding(str(tmp_path), 100.0, environ) is None
    for name in ("model.pt", "logs/1", "logs/2", "logs/3"):
        write(tmp_path / name, 200.0)
    assert lost_files.lost_files_finding(str(tmp_path), 100.0, environ) == {
        "severity": "warning",
        "code": "files-lost",
        "message": f"files in {tmp_path} are lost with the container: "
        "logs/1, logs/2, logs/3 and 1 more",
        "remedy": "write to RSCTL_OUTPUT_DIR, for which `{outputs}` in run.args is a placeholder",
    }
