"""Target sagemaker: rules of inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import VPC, workers
from .rendering import reported, sagemaker

DATA = {
    "nowhere for outputs": (
        {"outputs": None},
        [
            "error outputs: SageMaker's OutputDataConfig: it is missing -> set "
            "s3://BUCKET/FOLDER, or targets.sagemaker.staging"
        ],
    ),
    "inputs of another cloud": (
        {"inputs": {"train": "gs://bucket/a"}},
        [
            "error inputs.train: target sagemaker cannot reach gs://bucket/a; it supports s3:// "
            "-> for this target: --set inputs.train=s3://BUCKET/PATH"
        ],
    ),
    "options of no input": (
        sagemaker(channels={"train": {"mode": "File"}}),
        ["error targets.sagemaker.channels.train: there is no input 'train' -> correct the name"],
    ),
    "gzip without a pipe": (
        {
            "inputs": {"train": "s3://bucket/a/"},
            **sagemaker(channels={"train": {"gzip": True}}),
        },
        [
            "error targets.sagemaker.channels.train: SageMaker's InputDataConfig[0]: gzip needs "
            "mode Pipe, but the mode is FastFile -> set its mode: Pipe"
        ],
    ),
    "a file system without a VPC": (
        sagemaker(file_systems={"data": {"id": "fs-01234567", "type": "EFS"}}),
        [
            "error targets.sagemaker.file_systems.data: SageMaker's InputDataConfig[0]: a file "
            "system requires subnets and security_groups of a VPC -> set "
            "targets.sagemaker.subnets and security_groups"
        ],
    ),
    "a file system of no id": (
        sagemaker(file_systems={"data": {"id": "efs-01234567", "type": "EFS"}}, **VPC),
        [
            "error targets.sagemaker.file_systems.data: SageMaker's InputDataConfig[0].DataSource."
            "FileSystemDataSource.FileSystemId: 'efs-01234567' does not match (fs-[0-9a-f]{8,}) "
            "-> correct "
            "it"
        ],
    ),
    "a Lustre file system without its mount name": (
        sagemaker(file_systems={"data": {"id": "fs-01234567", "type": "FSxLustre"}}, **VPC),
        [
            "error targets.sagemaker.file_systems.data.path: the path in FSx for Lustre must start "
            "with the file system's mount name -> write /MOUNTNAME or a folder in it; `aws fsx "
            "describe-file-systems --file-system-ids fs-01234567` shows "
            "LustreConfiguration.MountName"
        ],
    ),
    "the root of EFS": (
        sagemaker(file_systems={"data": {"id": "fs-01234567", "type": "EFS"}}, **VPC),
        [],
    ),
    "one name for two": (
        {
            "inputs": {"data": "s3://bucket/a/"},
            **sagemaker(file_systems={"DATA": {"id": "fs-01234567", "type": "EFS"}}, **VPC),
        },
        [
            "error targets.sagemaker.file_systems.DATA: data is the name of another input -> "
            "rename one of the two"
        ],
    ),
    "an empty part of a key": (
        {"inputs": {"train": "s3://bucket/shared//a/"}, **sagemaker(input_mode="File")},
        [
            "error inputs.train: s3://bucket/shared//a/ has `//` in its key: SageMaker's input "
            "mode File refuses it -> remove the doubled /; copy objects whose keys contain it to "
            "other keys"
        ],
    ),
    "an empty part of a key that is not downloaded": (
        {"inputs": {"train": "s3://bucket//a/"}},
        [
            "warning inputs.train: s3://bucket//a/ has `//` in its key: SageMaker's input mode "
            "File refuses it, and it is unknown whether FastFile accepts it -> remove the "
            "doubled /; copy objects whose keys contain it to other keys"
        ],
    ),
    "many inputs": (
        {"inputs": {f"i{n}": "s3://bucket/a/" for n in range(21)}},
        [
            "error inputs: SageMaker's InputDataConfig: it has 21 items, but SageMaker allows at "
            "most 20 -> combine some of them under one prefix"
        ],
    ),
}


@pytest.mark.parametrize("title", DATA)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = DATA[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    changes = {
        **workers(machine="ml.nothing"),
        "limits": {"queue": "1h"},
        "outputs": None,
        "image": {"uri": "a/b:1"},
        **sagemaker(region=None, role=None, keep_alive="7h"),
    }
    assert {text.partition(":")[0] for text in reported(tmp_path, changes)} == {
        "error image.uri",
        "error outputs",
        "error targets.sagemaker.role",
        "error targets.sagemaker.region",
        "error workers.machine",
        "error targets.sagemaker.keep_alive",
    }
