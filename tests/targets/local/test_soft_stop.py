"""Soft stops of real jobs: all ranks save at the same step, whatever the reason of the stop is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import Rsctl

TRAIN = """
import os, pathlib, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from rsctl.node import should_stop

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
step = 0
while not should_stop():
    optimizer.zero_grad()
    model(torch.randn(4, 100)).sum().backward()
    optimizer.step()
    step += 1
    if step == 3 and dist.get_rank() == 0:
        print("training", flush=True)
    time.sleep(0.003 * dist.get_rank())
rank = dist.get_rank()
pathlib.Path(os.environ["RSCTL_CHECKPOINT_DIR"], str(rank)).write_text(str(step))
dist.destroy_process_group()
"""

LISTENS = """
import os, pathlib, time
from rsctl.node import should_stop
print("training", flush=True)
while not should_stop():
    time.sleep(0.01)
pathlib.Path(os.environ["RSCTL_CHECKPOINT_DIR"], "last").touch()
"""


@pytest.fixture
def job(rsctl: Rsctl) -> str:
    """Two nodes of two ranks and a reducer, which is needed until all ranks have saved."""
    path = rsctl.write_job(
        run={"script": "train.py"},
        workers={"count": 2, "processes": 2},
        reducers={"count": 1},
        limits={"grace": "1m"},
    )
    (rsctl.folder / "source" / "train.py").write_text(TRAIN)
    return path


def checkpoints(rsctl: Rsctl, run: str) -> Path:
    return rsctl.home / "runs" / run / "checkpoints"


def test_a_cancelled_job_saves_on_all_ranks(
    rsctl: Rsctl, job: str, torch_forks: dict[str, str]
) -> None:
    rsctl.env.update(torch_forks)
    run = rsctl.detach(job)
    rsctl.wait_for_log(run, "training")
    assert rsctl("cancel", run).exit_code == 0
    saved = {path.name: path.read_text() for path in checkpoints(rsctl, run).iterdir()}
    assert sorted(saved) == ["0", "1", "2", "3"]
    assert len(set(saved.values())) == 1
    status = rsctl.status(run)
    assert (status["state"], status["exit_code"]) == ("cancelled", 5)
    ends = {replica["replica"]: replica["exit_code"] for replica in status["replicas"]}
    assert ends == {"worker-0": 143, "worker-1": 143, "reducer-0": 0}
    assert rsctl.processes(run) == []


def test_a_job_saves_before_its_time_limit(rsctl: Rsctl) -> None:
    """It is not a success, though all ranks end with exit code 0."""
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"}, limits={"timeout": "67s", "grace": "1m"}
    )
    (rsctl.folder / "source" / "train.py").write_text(LISTENS)
    done = rsctl("submit", job)
    assert done.exit_code == 6
    run = rsctl.status("@last")
    assert (run["state"], run["reason"]) == ("expired", "limits.timeout of 67 s")
    assert [path.name for path in checkpoints(rsctl, run["run"]).iterdir()] == ["last"]


def test_a_job_that_does_not_listen_is_killed_after_its_grace(rsctl: Rsctl) -> None:
    run = rsctl.detach(
        rsctl.write_job(bash="trap '' TERM; echo up; sleep 600", limits={"grace": "1s"})
    )
    rsctl.wait_for_log(run, "up")
    assert rsctl("cancel", run).exit_code == 0
    [worker] = rsctl.status(run)["replicas"]
    assert worker["exit_code"] == 137


def test_the_grace_is_a_part_of_the_time_limit(rsctl: Rsctl) -> None:
    done = rsctl("validate", rsctl.write_job(bash="true", limits={"timeout": "1m", "grace": "1m"}))
    assert done.exit_code == 2
    assert "limits.grace: grace 1m leaves no time to train: the job ends after 1m" in done.stderr
