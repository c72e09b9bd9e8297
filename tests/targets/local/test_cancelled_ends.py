"""A job that is cancelled, or ended by a rule of `watch`, keeps its grace and its reason."""

from __future__ import annotations

import subprocess
from typing import Any

from tests.kit.polling import DEADLINE_SECONDS, wait_until

from ..conftest import Rsctl

SAVES = (
    'trap "echo saving; until test -e go; do sleep 0.05; done; '
    'touch \\$RSCTL_CHECKPOINT_DIR/last; exit 0" TERM; touch ready; echo up; '
    "while true; do sleep 0.05; done"
)
FAILS = (
    'if [ "$NODE_RANK" = 1 ]; then until test -e ready; do sleep 0.05; done; exit 3; fi; ' + SAVES
)


def cancel_while_it_saves(rsctl: Rsctl, run: str) -> dict[str, Any]:
    """The status of the run, of which something saved its state when `cancel` had been heard."""
    rsctl.wait_for_log(run, "saving")
    cancel = rsctl.start("cancel", run)
    wait_until(lambda: rsctl.status(run)["state"] != "running", "the answer to the cancellation")
    assert rsctl.status(run)["state"] == "cancelling"
    (rsctl.folder / "source" / "go").touch()
    assert ended(cancel) == 0
    assert (rsctl.home / "runs" / run / "checkpoints" / "last").exists()
    assert rsctl.processes(run) == []
    return rsctl.status(run)


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode


def test_a_job_that_saves_before_its_time_limit(rsctl: Rsctl) -> None:
    limits = {"timeout": "1h", "grace": "59m58s"}
    run = rsctl.detach(rsctl.write_job(bash=SAVES, limits=limits))
    assert cancel_while_it_saves(rsctl, run)["state"] == "expired"


def test_a_job_that_has_failed(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FAILS, workers={"count": 2}))
    status = cancel_while_it_saves(rsctl, run)
    assert status["state"] == "failed"
    assert status["first_failure"]["exit_code"] == 3


def test_a_job_that_has_failed_does_not_start_again(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash=FAILS, workers={"count": 2}, limits={"retries": 1})
    run = rsctl.detach(job)
    assert cancel_while_it_saves(rsctl, run)["state"] == "cancelled"
    assert rsctl.log(run).count("| up") == 1


def test_a_job_whose_workers_have_succeeded(rsctl: Rsctl) -> None:
    server = {"count": 1, "command": ["bash", "-c", SAVES], "ends": "with-workers"}
    job = rsctl.write_job(
        run={"command": ["bash", "-c", "until test -e ../up; do sleep 0.05; done"],
             "launcher": "once"},
        roles={"ps": server},
    )  # fmt: skip
    run = rsctl.detach(job)
    rsctl.wait_for_log(run, "up")
    (rsctl.folder / "up").touch()
    assert cancel_while_it_saves(rsctl, run)["state"] == "succeeded"


def test_a_rule_that_ends_a_job_leaves_the_workers_what_they_need_to_save(rsctl: Rsctl) -> None:
    """Such as reducers and parameter servers, which end after the workers."""
    saves = SAVES.replace("touch", "test ! -e ended && touch").replace("echo up", "echo loss=9")
    server = 'trap "touch ended; exit" TERM; touch up; while true; do sleep 0.05; done'
    job = rsctl.write_job(
        bash=f"until test -e up; do sleep 0.05; done; {saves}",
        roles={"ps": {"count": 1, "command": ["bash", "-c", server], "ends": "with-workers"}},
        metrics={"loss": {"regex": "loss=([0-9]+)"}},
        watch={"high": {"metric": "loss", "above": 5, "do": "fail"}},
    )
    run = rsctl.detach(job)
    assert cancel_while_it_saves(rsctl, run)["state"] == "failed"


def test_a_rule_does_not_end_a_job_whose_workers_have_succeeded(rsctl: Rsctl) -> None:
    """Where a server prints its last values as it is stopped."""
    server = 'trap "echo loss=9; sleep 0.3; exit" TERM; touch up; while true; do sleep 0.05; done'
    job = rsctl.write_job(
        bash="until test -e up; do sleep 0.05; done",
        roles={"ps": {"count": 1, "command": ["bash", "-c", server], "ends": "with-workers"}},
        metrics={"loss": {"regex": "loss=([0-9]+)"}},
        watch={"high": {"metric": "loss", "above": 5, "for": 1, "do": "fail"}},
        limits={"timeout": "30s"},
    )
    done = rsctl("submit", job)
    assert "ps-0: error: watch.high: loss is 9" in done.stderr
    assert done.exit_code == 0, done.stderr
