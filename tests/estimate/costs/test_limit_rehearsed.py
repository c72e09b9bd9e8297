"""`limits.cost` through an emulated Vertex AI: refused before, ended during, nothing left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.api import Rehearsal, RsctlError, load, runs, submit
from rsctl.runs import emulator
from rsctl.runs.home import home
from tests.kit.polling import DEADLINE_SECONDS, wait_until

PRICES = """\
vertex:
  source: a dollar a second
  as_of: 2026-11-01
  machines:
    n1-standard-4: {any: {on_demand: 3600}}
"""
JOB = """\
name: dear
workers: {count: 1, machine: n1-standard-4}
image: {base: "rsctl-test-base:1", source: src}
run: {command: [bash, -c, 'echo "pid $BASHPID"; sleep 600'], launcher: once}
limits: {cost: 2 USD}
"""


@pytest.fixture(autouse=True)
def _fast_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two seconds are enough for a job, and all that two dollars pay for."""
    monkeypatch.setattr("rsctl.estimate.costs.limit._LEAST_SECONDS", 1)
    monkeypatch.setenv("RSCTL_CLOUD_PACE", "0.02")
    (tmp_path / "rsctl-config").mkdir()
    (tmp_path / "rsctl-config" / "prices.yaml").write_text(PRICES)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    (tmp_path / "job.yaml").write_text(JOB)
    yield
    for run in runs():
        emulator.end(run.id)


def test_a_dearer_plan_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    job = load(str(tmp_path / "job.yaml"), set={"limits.timeout": "1h"})
    with pytest.raises(RsctlError, match=r"the job can cost 3,600\.00 USD, more than 2\.00 USD"):
        submit(job, target="vertex", rehearse=Rehearsal(runner="process"))
    assert not (home() / "runs").exists()


def test_a_run_is_ended_when_it_has_cost_its_limit(tmp_path: Path) -> None:
    job = load(str(tmp_path / "job.yaml"))
    run = submit(job, target="vertex", rehearse=Rehearsal(runner="process"))
    result = run.wait(timeout=DEADLINE_SECONDS)
    assert (result.state.value, result.exit_code) == ("expired", 6)
    assert (
        run.record.reason
        in (  # the emulator's time limit, or rsctl's own watch on a busy machine
            "it has run for as long as its limits.cost of 2.00 USD allows",
            "it has reached its limits.cost of 2.00 USD: ended by rsctl",
        )
    )
    assert result.cost is None  # a rehearsal costs nothing
    pid = next(int(line.text.split()[1]) for line in run.logs() if line.text.startswith("pid "))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    wait_until(lambda: not emulator.is_alive(run.id), "the emulator's end")
