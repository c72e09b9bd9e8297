"""Reducers in a local run: their start, their end, and what their loss means."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from rsctl.targets.local.backend import processes_of
from tests.kit.packages import DDP_SCRIPT
from tests.kit.polling import wait_until
from tests.kit.processes import freeze

from ..conftest import Rsctl

POOL = {"workers": {"count": 2}, "reducers": {"count": 2}}
FOREVER = "echo up; while true; do sleep 0.1; done"


def token_of(rsctl: Rsctl, run: str) -> str:
    """The secret that the replicas of a run have in their environment."""
    environ = Path(f"/proc/{rsctl.processes(run)[0]}/environ").read_bytes().split(b"\0")
    [token] = [entry for entry in environ if entry.startswith(b"RSCTL_TOKEN=")]
    return token.decode().partition("=")[2]


def kill(run: str, replica: str) -> None:
    for pid in processes_of(run, replica):
        with suppress(ProcessLookupError):  # one of them may have ended meanwhile
            os.kill(pid, signal.SIGKILL)


def states(rsctl: Rsctl, run: str) -> dict[str, tuple[str, str | None]]:
    return {r["replica"]: (r["state"], r["reason"]) for r in rsctl.status(run)["replicas"]}


def wait_for_reducers(rsctl: Rsctl, run: str) -> None:
    wait_until(lambda: rsctl.log(run).count("rsctl: a reducer at ") == 2, "two reducers")


def test_reducers_end_with_the_workers(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash='echo "$RSCTL_REDUCERS"', **POOL)
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 0, done.stderr
    logs = {
        e["replica"]: e["text"]
        for e in done.events
        if e["type"] == "log" and not e["text"].startswith("{")
    }
    assert logs["worker-0"] == logs["worker-1"]
    addresses = logs["worker-0"].split(",")
    assert len(set(addresses)) == 2
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    after = states(rsctl, done.result["run"])
    assert after["worker-0"] == ("succeeded", None)
    assert after["reducer-0"] == ("succeeded", "stopped after the workers had ended")
    assert rsctl.processes(done.result["run"]) == []


def test_a_script_trains_over_reducers_as_it_is_and_by_tls_where_the_job_asks_for_it(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    (rsctl.folder / "source").mkdir()
    shutil.copy(DDP_SCRIPT, rsctl.folder / "source" / "train.py")
    job = rsctl.write_job(
        run={"script": "train.py", "env": {"RSCTL_TRANSPORT_TLS": "1", "OMP_NUM_THREADS": "1"}},
        workers={"count": 2, "processes": 2},
        reducers={"count": 2},
        comm={"bucket_mb": 8},
    )
    rsctl.env.update(torch_forks)
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr
    assert (
        "worker-0/0 | rsctl: gradients of DistributedDataParallel: 2 nodes of 2 workers "
        "(two levels), 2 reducers sum all of it, "
    ) in done.stdout
    assert " engine, TLS, buckets of 8 MB, compression none" in done.stdout
    assert "\n  gradients: " in done.stderr
    after = rsctl.status("@last")
    assert after["gradients"]["operations"] > 0
    assert after["gradients"]["ring_seconds"] is None


def test_the_token_is_in_no_file_no_plan_and_no_command_line(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, **POOL))
    wait_for_reducers(rsctl, run)
    token = token_of(rsctl, run)
    assert len(token) == 64
    for path in rsctl.home.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path
    for pid in rsctl.processes(run):
        with suppress(FileNotFoundError):  # it has ended
            assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert token not in rsctl("plan", "job.yaml", "-o", "json").stdout
    other = rsctl.detach("job.yaml")
    wait_for_reducers(rsctl, other)
    assert token_of(rsctl, other) != token


def test_a_reducer_that_is_killed_ends_the_job_and_is_named(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, **POOL))
    wait_for_reducers(rsctl, run)
    kill(run, "reducer-1")
    assert rsctl("status", run, "--watch").exit_code == 1
    failure = rsctl.status(run)["first_failure"]
    assert (failure["replica"], failure["exit_code"]) == ("reducer-1", 137)
    assert states(rsctl, run)["worker-0"] == ("cancelled", "stopped after reducer-1 had failed")
    assert rsctl.processes(run) == []


def test_a_reducer_that_does_not_end_with_the_workers_is_killed_and_said_to_be(
    rsctl: Rsctl,
) -> None:
    go = rsctl.folder / "go"
    waits = f"echo up; while [ ! -e {go} ]; do sleep 0.05; done"
    run = rsctl.detach(rsctl.write_job(bash=waits, limits={"grace": "2s"}, **POOL))
    wait_for_reducers(rsctl, run)
    for pid in processes_of(run, "reducer-1"):
        freeze(pid)
    go.touch()
    assert rsctl("status", run, "--watch").exit_code == 0
    assert states(rsctl, run)["reducer-0"] == ("succeeded", "stopped after the workers had ended")
    assert states(rsctl, run)["reducer-1"] == (
        "cancelled",
        "stopped after the workers had ended, and killed 2 s later",
    )


def test_a_reducer_that_may_be_lost_does_not_end_the_job(rsctl: Rsctl) -> None:
    go = rsctl.folder / "go"
    waits = f"echo up; while [ ! -e {go} ]; do sleep 0.05; done"
    job = rsctl.write_job(bash=waits, comm={"on_reducer_loss": "fallback"}, **POOL)
    run = rsctl.detach(job)
    wait_for_reducers(rsctl, run)
    kill(run, "reducer-1")
    wait_until(lambda: states(rsctl, run)["reducer-1"][0] == "failed", "the reducer's end")
    assert states(rsctl, run)["worker-0"][0] == "running"
    go.touch()
    assert rsctl("status", run, "--watch").exit_code == 0
    assert states(rsctl, run)["reducer-1"] == ("failed", "the workers continue without it")
