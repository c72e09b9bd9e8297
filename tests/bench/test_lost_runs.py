"""Runs that the cluster ends have no data: they run again, on other nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsctl.bench import backoff
from rsctl.bench.live_record import CurrentBench
from rsctl.bench.lost_runs import failed_nodes, without_nodes
from rsctl.bench.records import Benches
from rsctl.findings import JobState
from rsctl.job.document import read
from rsctl.runs.records import FAILED_NODE, Fact
from rsctl.runs.store import Store
from rsctl.target_info import target_info
from tests.bench.test_run import ledger, start

__all__ = ["ledger"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for machines are short here."""
    monkeypatch.setattr(backoff, "_FIRST", 0.02)


@pytest.mark.parametrize(("node", "text"), [("n2", " without node n2"), (None, "")])
def test_a_lost_run_is_tried_three_times(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, node: str | None, text: str
) -> None:
    """A note names the reason, and the node if the cluster names it."""
    Path(f"{ledger}.b").touch()
    monkeypatch.setattr("rsctl.bench.active_run.ActiveRun.was_lost", True)
    monkeypatch.setattr("rsctl.bench.active_run.ActiveRun.failed_node", node)
    bench, observer = start(ledger.parent, repeat=1)
    tries = [trial for trial in bench.trials if trial.cell == 1]
    assert [trial.state for trial in tries] == [JobState.FAILED] * 3
    assert observer.findings == [
        f"{trial.run} has no data (worker-0 failed with exit code 1): it runs again{text}"
        for trial in tries[:2]
    ]


def test_a_run_whose_node_fails_its_checks_has_no_data(ledger: Path) -> None:
    """It runs again, since another node may pass them. The command prints a node's own finding."""
    finding = {"severity": "error", "code": "node-unhealthy", "message": "a", "remedy": "b"}
    line = json.dumps({"rsctl": "finding", **finding})
    job = {
        "name": "checked",
        "metrics": {"speed": {"regex": "speed=([0-9]+)"}},
        "run": {"command": ["bash", "-c", f"echo '{line}'; exit 75"], "launcher": "once"},
    }
    (ledger.parent / "job.yaml").write_text(json.dumps(job))
    bench, observer = start(ledger.parent, repeat=1)
    assert [trial.state for trial in bench.trials] == [JobState.FAILED] * 3
    assert sum("has no data" in text for text in observer.findings) == 2


def test_an_end_is_in_the_record_immediately(ledger: Path) -> None:
    """The next run must not get the failed node, so it must see the end before the record is read
    again.
    """
    bench, _ = start(ledger.parent, repeat=1)
    current = CurrentBench(Store(), bench)
    trial = current.record.trials[0]
    current.reload()
    current.conclude(trial, JobState.FAILED, 1, "a node failed: n2")
    assert current.record.trials[0].state is JobState.FAILED
    assert current.reload().trials[0].reason == "a node failed: n2"


def test_failed_nodes_are_excluded(ledger: Path) -> None:
    """All nodes that a failure of the bench has named, beside the excluded nodes of the file."""
    Path(f"{ledger}.b").touch()
    bench, _ = start(ledger.parent, repeat=2)
    store, lost = Store(), [trial.run for trial in bench.trials if trial.cell == 1]
    for run, node in zip(lost, ("n2", "n7"), strict=True):
        facts = [Fact(FAILED_NODE, f"failed: {node}", node)]
        record = store.find(run)
        store.keep(run, [], b"{}", [*record.facts, *facts])
    again = Benches(store).get(bench.bench)
    assert again is not None
    nodes = failed_nodes(store, again)
    assert nodes == ["n2", "n7"]
    job = read(str(ledger.parent / "job.yaml"), ("targets.slurm.exclude=n0",)).job
    assert job is not None
    slurm, process = target_info("slurm"), target_info("process")
    assert without_nodes(job, slurm, nodes).targets.slurm.exclude == "n0,n2,n7"
    assert without_nodes(job, slurm, []) == job
    assert without_nodes(job, process, nodes) == job
