"""Local runs whose supervisor is slowed down or stopped: they can be ended all the same."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rsctl.runs.folder import RunFolder
from rsctl.targets.local import target as local_target
from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.kit.processes import freeze

from ..conftest import Rsctl

SLOW = {"regex": "(x|xx)+(y)"}


def test_a_regex_that_never_ends_stops_nothing(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash=f"echo {'x' * 90}; echo loss=1; echo {'x' * 90}; echo loss=2; sleep 600",
        metrics={"slow": SLOW, "loss": {"regex": "loss=([0-9]+)"}},
        limits={"timeout": "8s"},
    )
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 6
    assert done.result["metrics"]["loss"] == {"last": 2.0, "count": 2}
    [finding] = [event for event in done.events if event["type"] == "finding"]
    assert (finding["severity"], finding["message"], finding["path"]) == (
        "warning",
        "metric slow is no longer read: its regex takes too long",
        "metrics.slow.regex",
    )


def test_a_supervisor_that_hangs_does_not_keep_a_run_alive(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash="echo up; sleep 600", workers={"count": 2}))
    rsctl.wait_for_log(run, "up")
    freeze(rsctl.supervisor(run))
    done = rsctl("cancel", run)
    assert (done.exit_code, done.stderr) == (0, f"{run} cancelled\n")
    assert rsctl.status(run)["exit_code"] == 5
    assert rsctl.processes(run) == []


def test_who_follows_a_run_sees_it_end_too(rsctl: Rsctl) -> None:
    cli = rsctl.start("submit", "--cancel-on-interrupt", rsctl.write_job(bash="echo up; sleep 600"))
    assert cli.stdout is not None
    assert cli.stdout.readline() == "worker-0 | up\n"
    run = rsctl.status("@last")["run"]
    freeze(rsctl.supervisor(run))
    cli.send_signal(signal.SIGINT)
    cli.communicate(timeout=DEADLINE_SECONDS)
    assert cli.returncode == 5
    assert rsctl.processes(run) == []


def test_any_command_may_record_the_end_of_a_cancelled_run(
    rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `submit` does in one terminal after `cancel` in another one has killed the supervisor."""
    run = rsctl.detach(rsctl.write_job(bash="echo up; sleep 600"))
    rsctl.wait_for_log(run, "up")
    freeze(rsctl.supervisor(run))
    monkeypatch.setenv("RSCTL_HOME", rsctl.env["RSCTL_HOME"])
    canceller = local_target.LocalTarget()
    canceller.cancel(run)
    monkeypatch.setattr(local_target, "_HEAR_SECONDS", 0.0)
    next(canceller.events(run, {}, follow=True))
    wait_until(lambda: not RunFolder(run).is_supervised(), "the supervisor to end")
    assert rsctl.status(run)["state"] == "cancelled"
    assert rsctl.processes(run) == []


def test_a_run_whose_image_is_being_pulled_can_be_cancelled(rsctl: Rsctl, tmp_path: Path) -> None:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f'#!/bin/bash\ncase "$*" in *create*) touch {tmp_path}/pulls; exec sleep 600;; esac\n'
    )
    docker.chmod(0o755)
    rsctl.env["PATH"] = f"{docker.parent}:{rsctl.env['PATH']}"
    job = rsctl.write_job(bash="true")
    job_file = rsctl.folder / job
    job_file.write_text(job_file.read_text().replace("source: source", "uri: some.example/image:1"))
    run = rsctl.detach(job, "-t", "compose")
    while not (tmp_path / "pulls").exists():
        assert rsctl.status(run)["ended"] is None
    done = rsctl("cancel", run)
    assert (done.exit_code, done.stderr) == (0, f"{run} cancelled\n")
    assert rsctl.status(run)["reason"] is None
