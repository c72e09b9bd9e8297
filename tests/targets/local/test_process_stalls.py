"""Jobs of four ranks that hang: the guilty rank is named, and never another one.

These are the faults that need a real process; `tests/runs/stalls/test_recorded.py` has others. All
jobs run at the same time, since what they do most is wait.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.local.backend import processes_of
from tests.kit.polling import wait_until

from ..conftest import Rsctl

SCRIPT = Path(__file__).parents[2] / "kit" / "scripts" / "faults.py"
DDP = "all_reduce of [641] Float"


@pytest.fixture
def rsctl(rsctl: Rsctl, torch_forks: dict[str, str]) -> Rsctl:
    """Its jobs do not spend their time on importing torch."""
    rsctl.env.update(torch_forks)
    return rsctl


def submit(rsctl: Rsctl, fault: str, **keys: Any) -> str:
    source = rsctl.folder / "source"
    source.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, source / "train.py")
    limits = {"stall": "5s"}
    run = {"script": "train.py", "args": [fault]}
    job = rsctl.write_job(
        **{"run": run, "workers": {"count": 2, "processes": 2}, "limits": limits, **keys}
    )
    return rsctl.detach(job)


def stall(rsctl: Rsctl, run: str) -> tuple[str | None, str]:
    """The node that is guilty of a run's stall, and why.

    Ranks that are copies of another process are not descendants of their launcher: on a busy
    machine it sees nothing until they have begun, and reports a stall that names none.
    """

    def found() -> list[tuple[str | None, str]]:
        events = (json.loads(line) for line in states.read_text().splitlines())
        stalls = [e for e in events if e["type"] == "finding" and e["finding"]["code"] == "stall"]
        named = [(e["replica"], e["finding"]["message"].partition(" s: ")[2]) for e in stalls]
        return [each for each in named if each[0] is not None]

    states = rsctl.home / "runs" / run / "states.log"
    return wait_until(found, f"the stall of {run}", seconds=150)[0]


def failure(rsctl: Rsctl, run: str) -> dict[str, Any]:
    wait_until(lambda: rsctl.status(run)["ended"] is not None, f"the end of {run}", seconds=150)
    found: dict[str, Any] = rsctl.status(run)["first_failure"]
    assert found is not None, rsctl.status(run)["reason"]
    return found


def line_of(text: str) -> str:
    """`train.py:LINE` of the script's line with this text."""
    texts = SCRIPT.read_text().splitlines()
    return f"train.py:{next(i for i, t in enumerate(texts, 1) if t.strip() == text)}"


def test_the_guilty_rank_of_a_hang_is_named(rsctl: Rsctl) -> None:
    keys = {"limits": {"stall": "10s"}}  # 20 ranks come to their wait, on a busy machine too
    runs = {"skip": submit(rsctl, "skip", reducers={"count": 1}, **keys)}
    for fault in ("absent", "stop", "exit", "lock"):
        runs[fault] = submit(rsctl, fault, **keys)
    found = {}
    for fault in sorted(runs, key="lock".__ne__):  # that rank uses a processor until it is ended
        found[fault] = stall(rsctl, runs[fault])
        os.kill(rsctl.supervisor(runs[fault]), signal.SIGTERM)

    assert {replica for replica, _ in found.values()} == {"worker-1"}
    why = {fault: text for fault, (_, text) in found.items()}
    assert why["absent"].startswith("rank 2 (worker-1) does not join the others: ranks 0-1, 3 wait")
    assert why["absent"].endswith(f"it is at {line_of('time.sleep(600)  # absent')} main")
    assert "rank 2 (worker-1) does not answer; its process " in why["stop"]
    assert f"has been stopped by a signal; ranks 0-1, 3 wait in {DDP}" in why["stop"]
    assert "does not answer; native code holds Python's lock at train.py:" in why["lock"]
    assert f"hold_lock; ranks 0-1, 3 wait in {DDP}" in why["lock"]
    assert why["exit"].startswith(
        "rank 2 (worker-1) does not end: its script has ended, and a thread of it has not, at "
    )
    assert why["skip"].startswith("rank 2 (worker-1) waits in barrier of the default process group")
    assert "ranks 0 and 1 wait in all_reduce of [641] float32 over the reducers" in why["skip"]
    kept = rsctl.home / "runs" / runs["lock"] / "worker-1" / "evidence"
    assert "hold_lock" in (kept / "rank-2.stacks.txt").read_text()
    assert "thread " in (kept / "rank-2.proc.txt").read_text()
    wait_until(lambda: not any(map(rsctl.processes, runs.values())), "the end of all processes")


def test_the_rank_whose_call_makes_others_abort_is_named(rsctl: Rsctl) -> None:
    found = failure(rsctl, submit(rsctl, "large"))
    assert (found["rank"], found["replica"]) == (2, "worker-1")
    assert found["causes"][0]["code"] == "collective-mismatch"
    assert found["causes"][0]["message"].startswith(
        "rank 2 (worker-1) called all_reduce of [700000] Float where "
    )


def test_a_stall_is_a_warning_and_debug_names_who_holds_the_others_up(rsctl: Rsctl) -> None:
    patient = {"script": "train.py", "args": ["none"], "env": {"RSCTL_TRANSPORT_SILENCE": 100}}
    run = submit(rsctl, "none", run=patient, reducers={"count": 1})
    rsctl.wait_for_log(run, "step 5")
    for pid in processes_of(run, "reducer-0"):
        if b"rsctl.transport.reduce" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGSTOP)
            stopped = pid

    def stalls() -> list[str]:
        findings = rsctl.status(run)["findings"]
        return [f["message"] for f in findings if f["code"] == "stall"]

    wait_until(lambda: [text for text in stalls() if "reducer-0" in text], "the finding")
    why = (
        f"reducer-0 does not sum gradients: its process {stopped} has been stopped by a signal; "
        "all ranks wait for it"
    )
    assert stalls()[-1:] == [f"the job has made no progress for 5 s: {why}"]
    assert rsctl.status(run)["state"] == "running"
    asked = json.loads(rsctl("debug", run, "-o", "json").stdout)
    assert (asked["verdict"]["message"], asked["silent"], asked["asked"]) == (why, [], True)
    os.kill(stopped, signal.SIGCONT)
    rsctl.wait_for_log(run, "step 15")
    assert rsctl("cancel", run).exit_code == 0


def test_a_job_that_writes_a_checkpoint_has_not_stalled(rsctl: Rsctl) -> None:
    copies = "for i in $(seq 40); do cat $f $f >> $RSCTL_OUTPUT_DIR/c; sleep 0.1; done"
    script = "f=$TMPDIR/f; head -c 1000000 /dev/zero > $f; "
    script += f"[ $NODE_RANK = 0 ] && {{ {copies}; }}; exit 0"
    job = rsctl.write_job(bash=script, limits={"stall": "2s", "on_stall": "fail"})
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr


def test_a_job_that_only_sleeps_is_ended_and_restarted(rsctl: Rsctl) -> None:
    script = "[ $RSCTL_ATTEMPT = 2 ] && exit 0; sleep 600"
    limits = {"stall": "1s", "on_stall": "restart", "retries": 1}
    done = rsctl("submit", rsctl.write_job(bash=script, limits=limits), "-o", "json")
    assert done.exit_code == 0, done.stderr
    [attempt] = done.result["attempts"]
    assert attempt["reason"] == "no process uses a processor, reads or writes"


def test_a_stall_is_found_although_other_replicas_have_ended(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="[ $NODE_RANK = 0 ] && exit 0; sleep 600",
        workers={"count": 2},
        roles={"setup": {"command": ["true"], "ends": "by-itself"}},
        limits={"stall": "1s", "on_stall": "fail", "timeout": "60s"},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 1, done.stderr
    assert "worker-1 stalled at " in done.stderr


def test_a_role_that_stalls_after_the_workers_have_ended_is_found(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="true",
        roles={"evaluator": {"command": ["sleep", "600"], "ends": "by-itself"}},
        limits={"stall": "1s", "on_stall": "fail", "timeout": "60s"},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 1, done.stderr
    assert "evaluator-0 stalled at " in done.stderr


def test_a_job_that_computes_in_silence_has_not_stalled(rsctl: Rsctl) -> None:
    script = "end=$((SECONDS + 5)); while [ $SECONDS -lt $end ]; do :; done"
    limits = {"stall": "2s", "on_stall": "fail"}
    done = rsctl("submit", rsctl.write_job(bash=script, limits=limits))
    assert done.exit_code == 0, done.stderr


def test_without_debug_a_stall_is_found_and_not_explained(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="echo up; sleep 600",
        workers={"count": 2},
        limits={"stall": "1s", "on_stall": "fail"},
        comm={"debug": "off"},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 1
    assert "worker-0 stalled at " in done.stderr


@pytest.mark.parametrize("command", ["debug"])
def test_a_run_that_has_ended_without_a_stall_has_no_report(rsctl: Rsctl, command: str) -> None:
    run = rsctl.detach(rsctl.write_job(bash="true"))
    wait_until(lambda: rsctl.status(run)["ended"] is not None, "the end")
    done = rsctl(command, run)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {run} has ended, and its log has no report of a stall" in done.stderr
