"""Which rank an attempt on this machine failed by, where several nodes and ranks failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.findings import JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.stalls.verdict_type import Verdict
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure
from rsctl.targets.local.backend import ReplicaExit
from rsctl.targets.local.exits import ReplicaExits

WORKERS = ["worker-0", "worker-1"]
LOG = """\
{0}1.000000Z o {{"rsctl": "lost", "rank": 2, "local_rank": 0, "time": "{0}1.000000Z"}}
{0}1.100000Z e [worker-1/0] RuntimeError: of rank 2
{0}1.200000Z o {{"rsctl": "lost", "rank": 3, "local_rank": 1, "time": "{0}1.200000Z"}}
{0}1.300000Z e [worker-1/1] RuntimeError: of rank 3
"""
AT = "2026-01-31T12:00:0"
OTHER_SHAPE = Verdict(
    kind="mismatch", message="rank 2 called other", guilty=(2,), replicas=("worker-1",)
)


def a_failure(number: int, rank: int, second: float) -> Failure:
    time = f"{AT}{second:.6f}Z"
    return Failure(replica=f"worker-{number}", rank=rank, time=time, exit_code=1)


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([a_failure(0, 1, 1.5), a_failure(1, 2, 1.6)], id="a-node-before-it"),
        pytest.param([a_failure(1, 3, 1.5), a_failure(1, 2, 1.6)], id="a-rank-before-it"),
        pytest.param([a_failure(0, 1, 1.5), a_failure(1, 3, 1.6)], id="it-reports-nothing"),
    ],
)
def test_the_rank_that_differed_is_the_first_whoever_ended_before(reports: list[Failure]) -> None:
    folder = RunFolder("t-aaaaaa")
    job = RunDescription(run="t-aaaaaa", target="process", request={}, replicas=WORKERS)
    folder.create(job)
    folder.log("worker-1").write_text(LOG.format(AT))
    store = Store()
    recorder = Recorder(folder, store)
    exits = ReplicaExits(folder, job, recorder)
    exits.add_reports(reports)
    for name in WORKERS:
        ended: Any = SimpleNamespace(name=name, stopped_at=None, killed=False)
        exits.add(ended, ReplicaExit(1))
    exits.collapse = OTHER_SHAPE
    outcome = exits.outcome()
    recorder.close()
    store.close()
    assert outcome.state is JobState.FAILED
    assert outcome.failure is not None
    assert (outcome.failure.replica, outcome.failure.rank) == ("worker-1", 2)
    assert outcome.failure.causes[0].message == "rank 2 called other"
    assert "RuntimeError: of rank 2" in outcome.failure.lines
    assert "RuntimeError: of rank 3" not in outcome.failure.lines
