"""`run.package` on SageMaker: what the images' toolkit cannot start is refused; a rehearsal."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest

from rsctl.targets.sagemaker.emulator.contract import HostFolder
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects
from rsctl.targets.sagemaker.emulator.toolkit import command, provide_code
from rsctl.targets.sagemaker.target import TARGET
from tests.kit.rendering import findings_of, merged, plan_of

from ..conftest import Rsctl, rehearsed
from .rendering import job_of, shown

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-cpu-py312"
JOB: dict[str, Any] = {
    "image": {"uri": IMAGE},
    "workers": {"count": 2, "machine": "ml.m5.xlarge"},
    "targets": {"sagemaker": {"staging": "s3://staging/x"}},
}
SCRIPT = """
import os, sys
print("train", sys.argv[1:], os.environ["SM_CHANNEL_TRAIN"][-5:], os.environ.get("WORLD_SIZE"),
      os.environ.get("SM_HP_EPOCHS"), os.path.basename(os.getcwd()))
"""
SETUP = "from setuptools import find_packages, setup\n"
SETUP += "setup(name='trainer', version='0.1', packages=find_packages())\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "trainer").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "trainer" / "__init__.py").write_text("")
    (folder / "trainer" / "task.py").write_text(SCRIPT)
    return folder


def run_of(**changes: Any) -> dict[str, Any]:
    """A job with a package in the folder `code`."""
    job = job_of(JOB)
    return {**job, "run": {"package": "code", "script": "train.py", **changes}}


def test_a_script_of_a_folder_is_named_by_hyperparameters(tmp_path: Path, code: Path) -> None:
    job = merged(run_of(args={"epochs": 3, "name": "a-b"}), {"inputs": {"train": "s3://data/t/"}})
    body = plan_of(tmp_path, job, TARGET)["request"]["body"]
    given = body["HyperParameters"]
    place = json.loads(given.pop("sagemaker_submit_directory"))
    assert place.startswith("s3://staging/x/packages/")
    assert given == {
        "epochs": "3",
        "name": '"a-b"',
        "sagemaker_program": '"train.py"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"job-7f3k2a"',
        "sagemaker_region": '"us-east-1"',
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_instance_type": '"ml.m5.xlarge"',
    }
    assert body["AlgorithmSpecification"] == {
        "TrainingImage": IMAGE, "TrainingInputMode": "FastFile"
    }  # fmt: skip
    assert "Environment" not in body
    assert [channel["ChannelName"] for channel in body["InputDataConfig"]] == ["train"]


def test_arguments_in_a_list_are_hyperparameters_too(tmp_path: Path, code: Path) -> None:
    job = run_of(args=["--lr=0.1", "-e", "3", "--shift", "-1"], launcher="none")
    given = plan_of(tmp_path, job, TARGET)["request"]["body"]["HyperParameters"]
    assert {n: v for n, v in given.items() if not n.startswith("sagemaker_")} == {
        "lr": '"0.1"', "e": '"3"', "shift": '"-1"'
    }  # fmt: skip
    assert "sagemaker_torch_distributed_enabled" not in given


def test_the_images_own_mpirun_starts_it(tmp_path: Path, code: Path) -> None:
    job = merged(run_of(launcher="mpi"), {"workers": {"processes": 2}})
    plan = plan_of(tmp_path, job, TARGET)
    given = plan["request"]["body"]["HyperParameters"]
    assert {n: v for n, v in given.items() if "mpi" in n or "distributed" in n} == {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "2",
        "sagemaker_mpi_custom_mpi_options": '""',
    }
    assert (plan["world_size"], "Environment" in plan["request"]["body"]) == (4, False)


@pytest.mark.parametrize("launcher", ["torchrun", "none"])
def test_smddp_of_a_package_needs_its_own_mpirun(tmp_path: Path, code: Path, launcher: str) -> None:
    job = merged(run_of(launcher=launcher), {"comm": {"backend": "smddp"}})
    found = [shown(each) for each in findings_of(tmp_path, job, TARGET) if each.path == "comm"]
    assert found == [
        "error comm: reducers and comm: need rsctl-launch, which a package does not use -> set "
        "run.launcher: mpi, with which the image's smddp starts the job"
    ]


OPTIONS = "write arguments as NAME: VALUE, with one value each"


@pytest.mark.parametrize(
    ("run", "has_setup", "expected"),
    [
        (
            {"args": {"fast": True}},
            False,
            "error run.args: SageMaker's images pass only options with a value, and '--fast' has "
            "none -> " + OPTIONS + "; 'fast' may receive the value \"True\", in quotes",
        ),
        (
            {"args": ["data"]},
            False,
            "error run.args: SageMaker's images pass only options, and 'data' is not an option "
            f"-> {OPTIONS}",
        ),
        (
            {"script": None, "module": "trainer.task"},
            True,
            "error run.module: torchrun in SageMaker's images cannot start modules -> use "
            "run.script in a folder without setup.py, or set run.launcher: none",
        ),
        (
            {},
            True,
            "error run.package: torchrun in SageMaker's images cannot start scripts of a "
            "folder with setup.py -> use run.script in a folder without setup.py, or set "
            "run.launcher: none",
        ),
        (
            {"script": "trainer/task.py", "launcher": "none"},
            True,
            "error run.script: in a folder with setup.py, SageMaker's images cannot run "
            "'trainer/task.py' -> use run.module: trainer.task",
        ),
        (
            {"package": "gs://bucket/a.tar.gz"},
            False,
            "error run.package: target sagemaker cannot reach gs://bucket/a.tar.gz; it supports "
            "s3:// -> for this target: --set run.package=s3://BUCKET/PATH.tar.gz",
        ),
    ],
)
def test_what_the_toolkit_cannot_start(
    tmp_path: Path, code: Path, run: dict[str, Any], has_setup: bool, expected: str
) -> None:
    if has_setup:
        (code / "setup.py").write_text(SETUP)
    job = merged(run_of(), {"run": run})
    found = findings_of(tmp_path, job, TARGET)
    assert [shown(finding) for finding in found if finding.is_error] == [expected]


@pytest.mark.parametrize(
    ("args", "script", "changed"),
    [
        ({"text": "a b", "lr": 0.1}, "train.py", "text"),
        (["--json", '{"a":1}', "--empty="], "train.py", "json, empty"),
        ({"price": "$5", "lines": "a\nb", "home": "~/x", "both": "a&b"}, "train.py",
         "price, lines, home, both"),
        ({"lr": -1e-5, "layers": "[1,2]", "path": "s3://b/a=1,b:2@3%+_", "name": "größe"},
         "train.py", None),
        ({"text": "a b&c", "json": '{"a":1}', "name": "it's", "regex": r"\d"}, "train.sh",
         "json, name"),
    ],
)  # fmt: skip
def test_arguments_that_a_shell_changes(
    tmp_path: Path, code: Path, args: Any, script: str, changed: str | None
) -> None:
    """https://github.com/aws/sagemaker-training-toolkit/issues/128"""
    (code / "train.sh").touch()
    job = run_of(args=args, script=script, launcher="none")
    found = [shown(each) for each in findings_of(tmp_path, job, TARGET) if each.code == "args"]
    assert found == [
        "warning run.args: SageMaker's images pass arguments through a shell, which splits or "
        f"changes the value of {changed} -> put it in run.env or in a file of the package, or use "
        "image.source instead of run.package"
    ] * bool(changed)


def test_hyperparameters_that_a_shell_changes(tmp_path: Path, code: Path) -> None:
    """The toolkit decodes them: a list has spaces, a text has no quotes."""
    given = {"layers": "[1, 2]", "name": '"größe"', "text": "a b", "lr": "1e-5"}
    job = merged(run_of(), {"targets": {"sagemaker": {"hyperparameters": given}}})
    found = [shown(each) for each in findings_of(tmp_path, job, TARGET) if each.code == "args"]
    assert found == [
        "warning targets.sagemaker.hyperparameters: SageMaker's images pass arguments through a "
        "shell, which splits or changes the value of layers, text -> put it in run.env or in a "
        "file of the package, or use image.source instead of run.package"
    ]


@pytest.mark.parametrize("image", ["sagemaker-scikit-learn:1.4-2", "sagemaker-xgboost:3.0-5"])
def test_images_that_start_the_script_without_a_shell(
    tmp_path: Path, code: Path, image: str
) -> None:
    """They capture no errors, and the toolkit uses a shell only to capture them.

    aws/sagemaker-scikit-learn-container@eae7b6b and aws/sagemaker-xgboost-container@cb8df91,
    training.py; aws/sagemaker-training-toolkit@3383937, process.py, `check_error`.
    """
    (code / "my train.py").touch()
    job = merged(
        run_of(script="my train.py", launcher="none", args={"text": "a b"}),
        {
            "image": {"uri": f"683313688378.dkr.ecr.us-east-1.amazonaws.com/{image}"},
            "targets": {"sagemaker": {"hyperparameters": {"other": "a b"}}},
        },
    )
    codes = {each.code for each in findings_of(tmp_path, job, TARGET)}
    assert not codes & {"args", "package"}
    body = plan_of(tmp_path, job, TARGET)["request"]["body"]
    names = {"TrainingJobArn": "arn:x", "TrainingJobName": "x"}
    started = command(JobRecord({**body, **names}, {}), "process") or []
    assert started[-4:] == ["--other", "'a b'", "--text", "'a b'"]


def test_a_script_whose_name_a_shell_changes(tmp_path: Path, code: Path) -> None:
    (code / "my train.py").touch()
    found = findings_of(tmp_path, run_of(script="my train.py"), TARGET)
    assert [shown(each) for each in found if each.is_error] == [
        "error run.script: SageMaker's images start the script by a shell, which changes "
        "'my train.py' -> rename it: use letters, digits, and ._-"
    ]


@pytest.mark.parametrize("way", ["script", "module", "sh", "bash"])
def test_a_rehearsal_runs_it(
    rsctl: Rsctl, tmp_path: Path, code: Path, torch_forks: dict[str, str], way: str
) -> None:
    data = rsctl.home / "rehearsal" / "s3" / "data" / "t"
    data.mkdir(parents=True)
    (data / "file").write_text("x")
    run: dict[str, Any] = {"script": "train.py", "env": torch_forks}
    workers, ranks = 2, "2"
    if way == "module":
        workers, ranks = 1, "None"  # the toolkit starts no ranks
        (code / "setup.py").write_text(SETUP)
        run = {"script": None, "module": "trainer.task", "launcher": "none"}
    elif way != "script":
        ranks = "None"
        (code / f"train.{way}").write_text(f'#!/bin/sh\nexec {sys.executable} train.py "$@"\n')
        run = {"script": f"train.{way}", "launcher": "none"}
    name = "a b" if way in ("sh", "bash") else "'a b'"  # a shell reads the quotes
    changes = {
        "run": {**run, "args": {"epochs": 2, "name": name}},
        "workers": {"count": workers},
        "inputs": {"train": "s3://data/t/"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(merged(run_of(), changes)))
    job = str(tmp_path / "job.yaml")
    done = rsctl("submit", job, *rehearsed("sagemaker"), "-o", "json")
    assert done.exit_code == 0, done.stderr
    lines = [text for text in rsctl.log("@last").splitlines() if "train [" in text]
    assert [line.partition("train [")[2] for line in sorted(lines)] == [
        f"'--epochs', '2', '--name', 'a b'] train {ranks} 2 code"
    ] * workers


def test_a_rehearsal_by_processes_has_no_mpirun_of_an_image(
    rsctl: Rsctl, tmp_path: Path, code: Path
) -> None:
    """The same program started once on each node would be another job."""
    how = (*rehearsed("sagemaker"), "-o", "json")
    (tmp_path / "job.yaml").write_text(json.dumps(run_of(launcher="mpi")))
    refused = rsctl("submit", str(tmp_path / "job.yaml"), *how)
    assert (refused.exit_code, "use --rehearse-with docker" in refused.stderr) == (3, True)
    said = {"targets": {"sagemaker": {"hyperparameters": {"sagemaker_mpi_enabled": "true"}}}}
    (tmp_path / "job.yaml").write_text(json.dumps(merged(run_of(launcher="none"), said)))
    done = rsctl("submit", str(tmp_path / "job.yaml"), *how)
    assert done.exit_code == 1
    assert "its image starts it with mpirun, so rehearse it in containers" in done.stdout


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "link", "content"),
    [
        ("trainer/train.py", tarfile.REGTYPE, "", "print()"),
        ("link.py", tarfile.SYMTYPE, "train.py", "print()"),
        ("../train.py", tarfile.REGTYPE, "", None),
        ("link.py", tarfile.SYMTYPE, "../../train.py", None),
        ("up/train.py", tarfile.REGTYPE, "", None),
        ("train.py", tarfile.FIFOTYPE, "", None),
    ],
)
def test_code_is_unpacked_inside_its_folder(
    name: str,
    kind: bytes,
    link: str,
    content: str | None,
    is_old: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python has filters for this since 3.11.4; Debian 12 has 3.11.2."""
    if is_old:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        trusted = staticmethod(lambda member, path: member)
        monkeypatch.setattr(tarfile.TarFile, "extraction_filter", trusted, raising=False)
    bucket, machine = tmp_path / "buckets" / "staging", HostFolder(cast(Any, None), tmp_path / "m")
    bucket.mkdir(parents=True)
    machine.code.mkdir(parents=True)
    (machine.code / "up").symlink_to(tmp_path)
    with tarfile.open(bucket / "code.tar.gz", mode="w:gz") as archive:
        for member in ("train.py", name):
            entry = tarfile.TarInfo(member)
            entry.size = len(b"print()")
            if member == name:
                entry.type, entry.linkname = kind, link
            archive.addfile(entry, io.BytesIO(b"print()"))
    place = {"sagemaker_submit_directory": '"s3://staging/code.tar.gz"'}
    names = {"TrainingJobName": "j", "TrainingJobArn": "arn"}
    record = JobRecord({**names, "HyperParameters": place}, {})
    objects = FolderObjects(tmp_path / "buckets")
    if content is None:
        with pytest.raises(OSError, match="cannot unpack s3://staging/code"):
            provide_code(objects, record, [machine])
        assert not (tmp_path / "train.py").exists()
    else:
        provide_code(objects, record, [machine])
        assert (machine.code / name).read_text() == content
