"""Jobs whose containers really run: as processes, and in docker."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.sagemaker.emulator import Behaviour, SageMakerEmulator
from tests.kit.docker import BASE, needs_docker
from tests.kit.packages import DDP_SCRIPT
from tests.kit.polling import wait_until
from tests.targets.sagemaker.emulator.conftest import (
    GROUP,
    Account,
    Answer,
    channel,
    client,
    groups,
)

LONG = 180.0


kinds = pytest.mark.parametrize("kind", ["process", pytest.param("docker", marks=needs_docker)])


@pytest.fixture
def runner(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeRunner]:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    made = make_runner(kind, {ANY_IMAGE: Program(DDP_SCRIPT.parent)})
    yield made
    made.close()


@pytest.fixture
def real(
    runner: NodeRunner, behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Account]:
    """An emulated account whose containers really run."""
    behaviour.sync = 1.0
    folder = tmp_path / "cloud"
    with SageMakerEmulator(folder, runner, behaviour=behaviour) as emulator:
        assert isinstance(emulator, SageMakerEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield Account(emulator, runner, folder)  # type: ignore[arg-type]


def python(script: str, **changes: Any) -> Answer:
    """A job that runs a script on each host, which reaches them as a channel."""
    client("s3").put_object(Bucket="staging", Key="code/main.py", Body=script.encode())
    algorithm = {
        "TrainingImage": BASE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", "-u", "/opt/ml/input/data/code/main.py"],
    }
    data = [channel("code", "s3://staging/code/"), *changes.pop("InputDataConfig", [])]
    return {"AlgorithmSpecification": algorithm, "InputDataConfig": data, **changes}


def end(real: Account, name: str = "j") -> Answer:
    wait_until(lambda: real.emulator.is_idle, seconds=LONG)
    return real.describe(name)


def lines(real: Account, name: str = "j") -> list[str]:
    return [event["message"] for event in real.events(logStreamNamePrefix=f"{name}/")]


SHOW = """
import json, os, pathlib, re
root = pathlib.Path(os.environ.get("RSCTL_ROOT", "/"), "opt/ml")
def number(host):
    return [int(n) for n in re.findall("[0-9]+", host)]
config = json.loads((root / "input/config/resourceconfig.json").read_text())
parameters = json.loads((root / "input/config/hyperparameters.json").read_text())
hosts = sorted(config["hosts"], key=number)
place = hosts.index(config["current_host"])
data = pathlib.Path(os.environ["DATA"], "a.txt").read_text()
print(place, config["current_group_name"], parameters, data, os.environ["TRAINING_JOB_NAME"])
pathlib.Path(os.environ["OUT"], f"{place}.txt").write_text("out")
(root / "model" / f"{place}.bin").write_text("model")
"""


@kinds
def test_what_containers_find_and_leave(real: Account) -> None:
    client("s3").put_object(Bucket="staging", Key="data/a.txt", Body=b"rows")
    real.create(
        **python(
            SHOW,
            Environment={"DATA": "/opt/ml/input/data/train", "OUT": "/opt/ml/output/data"},
            HyperParameters={"lr": "0.1"},
            InputDataConfig=[channel("train", "s3://staging/data/")],
            ResourceConfig=groups(workers=2, reducers=1),
        )
    )
    assert end(real)["TrainingJobStatus"] == "Completed"
    told = "{'lr': '0.1'} rows j"
    assert sorted(lines(real)) == [f"0 workers {told}", f"1 reducers {told}", f"2 workers {told}"]
    place = real.folder / "s3" / "results" / "runs" / "j" / "output"
    with tarfile.open(place / "model.tar.gz") as archive:
        assert archive.getnames() == ["0.bin", "1.bin", "2.bin"]
    packed = client("s3").get_object(Bucket="results", Key="runs/j/output/output.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed["Body"].read())) as archive:
        assert archive.getnames() == ["0.txt", "1.txt", "2.txt"]


STOPPED = """
import os, pathlib, signal, sys, time
root = pathlib.Path(os.environ.get("RSCTL_ROOT", "/"), "opt/ml")
def end(*_):
    (root / "model" / "last").write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up")
time.sleep(600)
"""


@kinds
def test_a_stop_leaves_time_to_save(real: Account) -> None:
    real.create(**python(STOPPED))
    wait_until(lambda: lines(real) if real.emulator.log_store.is_there else None, seconds=LONG)
    real.sagemaker.stop_training_job(TrainingJobName="j")
    assert end(real)["SecondaryStatus"] == "Stopped"
    with tarfile.open(real.folder / "s3/results/runs/j/output/model.tar.gz") as archive:
        assert archive.getnames() == ["last"]


RESUMED = """
import os, pathlib, time
folder = pathlib.Path(os.environ.get("RSCTL_ROOT", "/"), "opt/ml/checkpoints")
step = folder / "step"
if step.exists():
    print("resumed at", step.read_text())
else:
    step.write_text("41")
    print("began")
    time.sleep(600)
"""


@kinds
def test_a_spot_job_resumes_from_its_checkpoint(real: Account) -> None:
    limits = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}
    spot = {"EnableManagedSpotTraining": True, "StoppingCondition": limits}
    kept = {"S3Uri": "s3://staging/ck/", "LocalPath": "/opt/ml/checkpoints/"}
    real.create(**python(RESUMED, CheckpointConfig=kept, **spot))
    wait_until(
        lambda: "began" in lines(real) if real.emulator.log_store.is_there else None, seconds=LONG
    )
    real.emulator.preempt("j")
    ended = end(real)
    assert (ended["TrainingJobStatus"], lines(real)) == ("Completed", ["began", "resumed at 41"])
    assert "Interrupted" in real.phases()
    assert len(real.logs.describe_log_streams(logGroupName=GROUP)["logStreams"]) == 2


@kinds
def test_a_failure_has_its_reason(real: Account) -> None:
    script = (
        "import os, pathlib, sys;"
        "root = pathlib.Path(os.environ.get('RSCTL_ROOT', '/'), 'opt/ml/output');"
        "(root / 'failure').write_text('no such column');"
        "sys.exit(4)"
    )
    real.create(**python(script))
    ended = end(real)
    reason = "AlgorithmError: no such column, exit code: 4"
    assert (ended["SecondaryStatus"], ended["FailureReason"]) == ("Failed", reason)


def training(*command: str, **variables: str) -> Answer:
    """A job of rsctl's own kind, with the transport of its own."""
    algorithm = {
        "TrainingImage": "train:1",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["rsctl-launch"],
        "ContainerArguments": ["--launcher", "torchrun", "--processes", "1", *command],
    }
    environment = {
        "RSCTL_TARGET": "sagemaker",
        "RSCTL_RUN": "j",
        "RSCTL_REDUCER_KIND": "rsctl",
        "RSCTL_TOKEN": "0" * 64,
        **variables,
    }
    return {
        **{"AlgorithmSpecification": algorithm, "Environment": environment},
        "ResourceConfig": groups(workers=2, reducers=2),
    }


@pytest.mark.parametrize("kind", ["process"])
def test_a_script_trains_over_reducers(real: Account, torch_forks: dict[str, str]) -> None:
    real.create(**training("--python", "--", DDP_SCRIPT.name, **torch_forks))
    ended = end(real)
    assert ended["TrainingJobStatus"] == "Completed", (ended["FailureReason"], lines(real))
    said = lines(real)
    assert any("2 workers, 2 reducers" in line for line in said), said
    named = [json.loads(line) for line in said if line.startswith('{"rsctl": "node"')]
    assert {record["replica"]: record["host"] for record in named} == {
        "worker-0": "algo-1",
        "reducer-0": "algo-2",
        "worker-1": "algo-3",
        "reducer-1": "algo-4",
    }
    assert len({record["lock"] for record in named}) == 4


@pytest.mark.parametrize("kind", ["process"])
def test_a_script_that_fails_is_named_and_its_reducers_end(
    real: Account, tmp_path: Path, torch_forks: dict[str, str]
) -> None:
    script = tmp_path / "fail.py"
    script.write_text("import os\nif os.environ['RANK'] == '1':\n    raise ValueError('no data')\n"
                      "import time; time.sleep(600)\n")  # fmt: skip
    real.create(**training("--python", "--", str(script), **torch_forks))
    ended = end(real)
    assert ended["SecondaryStatus"] == "Failed"
    assert ended["FailureReason"].startswith("AlgorithmError: worker-1, rank 1, ")
    assert "ValueError: no data" in ended["FailureReason"]
