"""`limits.restarts_in_place`: torchrun starts the ranks of all nodes again, in the same job."""

from __future__ import annotations

import json

from ..conftest import Rsctl

TRAIN = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, start = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
kept = pathlib.Path(os.environ["RSCTL_CHECKPOINT_DIR"], "step")
first = int(kept.read_text()) if kept.exists() else 0
dist.barrier()
model = DistributedDataParallel(torch.nn.Linear(100, 10))
print(f"start {start} from step {first}", flush=True)
for step in range(first, 6):
    model(torch.ones(4, 100)).sum().backward()
    dist.barrier()
    if rank == 0:
        kept.write_text(str(step + 1))
    dist.barrier()
    if step % 2 and start < int(sys.argv[1]):
        if rank != 3:
            pathlib.Path(kept.parent, f"wait-{start}-{rank}").touch()
            time.sleep(600)  # they would never learn of the failure
        while len(list(kept.parent.glob(f"wait-{start}-*"))) < 3:
            time.sleep(0.01)
        os._exit(7)
dist.destroy_process_group()
"""


def submit(rsctl: Rsctl, forks: dict[str, str], failures: int, restarts: int) -> str:
    job = rsctl.write_job(
        run={"script": "train.py", "args": [str(failures)]},
        workers={"count": 2, "processes": 2},
        reducers={"count": 1},
        limits={"restarts_in_place": restarts},
    )
    (rsctl.folder / "source" / "train.py").write_text(TRAIN)
    rsctl.env.update(forks)
    rsctl("submit", job)
    return rsctl("status", "@last").stdout


def test_ranks_start_again_from_their_checkpoint(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    shown = submit(rsctl, torch_forks, 2, 3)
    status = rsctl.status("@last")
    findings = [f["message"] for f in status["findings"] if f["code"] == "restart-in-place"]
    assert findings == [
        f"rank 3 failed with exit code 7: rsctl restarts the ranks of all nodes in place "
        f"(restart {number} of 3)"
        for number in (1, 2)
    ]
    assert (status["state"], status["restarts_in_place"], status["attempt"]) == ("succeeded", 2, 1)
    assert "  restarts     2 in place, of all ranks\n" in shown
    log = [json.loads(line) for line in rsctl("logs", "@last", "-o", "json").stdout.splitlines()]
    starts = [(line["rank"], line["text"]) for line in log if line["text"].startswith("start ")]
    assert sorted(starts) == [
        (f"worker-{node}/{rank}", f"start {number} from step {2 * number}")
        for node in (0, 1)
        for rank in (0, 1)
        for number in (0, 1, 2)
    ]
    gradients = status["gradients"]
    assert gradients is not None  # over the reducer, which has taken three epochs


def test_a_failure_after_the_last_restart_is_the_jobs(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    shown = submit(rsctl, torch_forks, 2, 1)
    status = rsctl.status("@last")
    assert status["state"] == "failed", status
    failure = status["first_failure"]
    assert (failure["replica"], failure["rank"], failure["exit_code"]) == ("worker-1", 3, 7)
    assert "restart-in-place" not in [cause["code"] for cause in failure["causes"]]
    assert "start 0" not in "".join(failure["lines"])
    assert "  restarts     1 in place, of all ranks\n" in shown


def test_only_torchrun_restarts_in_place(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="true", limits={"restarts_in_place": 1})
    done = rsctl("validate", job)
    assert done.exit_code == 2
    assert done.stderr == (
        "job.yaml:4:22: error: limits.restarts_in_place: only rsctl's torchrun restarts ranks in "
        "place, and launcher once does not use it\n"
        "      restarts_in_place: 1\n"
        "                         ^\n"
        "    -> set run.launcher: torchrun, or use limits.retries\n"
    )
