"""A node that has failed the job's checks: it is named as the node that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rsctl.targets.slurm.cluster import Cluster, JobRecord, Part
from rsctl.targets.slurm.job import SlurmJob
from rsctl.targets.slurm.job_address import JobAddress
from rsctl.targets.slurm.states import States, read_states
from rsctl.targets.slurm.status import status_of

STATES = """\
2026-11-27T10:00:00.000000Z started c/7 0 gpu-1
2026-11-27T10:00:01.000000Z running 0 worker 0 gpu-1 10.0.0.1 2000;worker 1 gpu-2 10.0.0.2 2001
2026-11-27T10:00:09.000000Z unhealthy gpu-2;$(id)
2026-11-27T10:00:09.000000Z ended 75 done
"""


def test_the_node_is_a_fact_and_the_remedy_excludes_it() -> None:
    states = read_states(STATES)
    assert states.unhealthy == ("gpu-2",)
    status = status_of(JobRecord(7, "FAILED", exit_code="75:0"), states)
    assert status is not None
    facts = {fact.name: fact.value for fact in status.facts}
    assert facts["failed_node"] == "gpu-2"
    [finding] = [f for f in status.findings if f.code == "node-failed"]
    assert finding.message == "nodes that have failed the job's checks: gpu-2"
    assert finding.remedy == "submit it again with targets.slurm.exclude: gpu-2"
    assert finding.path == "targets.slurm.exclude"


class EndsInBetween:
    """A cluster whose job ends after its file has been read."""

    def __init__(self) -> None:
        self._rows = STATES.splitlines(keepends=True)
        self._shown = 2

    def has_files(self, folder: str) -> bool:
        return bool(folder)

    def read(self, folder: str, parts: Sequence[Part]) -> dict[str, bytes]:
        assert folder
        return {part.path: "".join(self._rows[: self._shown]).encode() for part in parts}

    def job(self, job: int) -> JobRecord | None:
        self._shown = len(self._rows)
        return JobRecord(job, "FAILED", name="t-1", exit_code="75:0")


def test_a_job_that_ends_while_rsctl_asks() -> None:
    job = SlurmJob(JobAddress("local", "c", 7, "/s/t-1"), cast("Cluster", EndsInBetween()))
    assert [finding.code for finding in job.status().findings] == ["node-failed"]


class EndsForgotten(EndsInBetween):
    """A cluster whose requeued job succeeds, and is forgotten, after its file has been read."""

    def __init__(self) -> None:
        super().__init__()
        again = "2026-11-27T10:01:00.000000Z started c/7 1 gpu-1\n"
        done = "2026-11-27T10:01:09.000000Z ended 0 done\n"
        self._rows = [*STATES.replace("75 done", "143 ended").splitlines(True), again, done]
        self._shown = 4

    def job(self, job: int) -> None:
        self._shown = len(self._rows)


def test_a_requeued_job_that_slurm_forgets_while_rsctl_asks() -> None:
    job = SlurmJob(JobAddress("local", "c", 7, "/s/t-1"), cast("Cluster", EndsForgotten()))
    status = job.status()
    assert (status.state, status.attempt, status.reason) == ("succeeded", 2, None)


def test_a_dead_node_of_a_job_that_slurm_has_forgotten() -> None:
    """The run still has no data, and the next one leaves the node out."""
    text = STATES.replace("unhealthy gpu-2;$(id)", "suspects gpu-1 down*;gpu-2 silent")
    status = status_of(None, read_states(text))
    assert status is not None
    assert (status.state, status.reason) == ("failed", "a node failed: gpu-1, gpu-2")
    facts = {fact.name: fact.value for fact in status.facts}
    assert (facts["slurm_job"], facts["failed_node"]) == (7, "gpu-1,gpu-2")
    [finding] = status.findings
    assert (finding.code, finding.message) == (
        "node-failed",
        "nodes that were down, drained or silent when the job failed: gpu-1,gpu-2",
    )


def test_a_job_that_has_ended_while_the_controller_was_away() -> None:
    """Slurm 24.11 takes its node for failed, but the job has written down that it is complete."""
    states = read_states(STATES.replace("unhealthy gpu-2;$(id)", "x").replace("75", "0"))
    record = JobRecord(7, "NODE_FAIL", reason="NodeDown", failed_node="gpu-1")
    status = status_of(record, states)
    assert status is not None
    assert (status.state, status.reason, status.findings) == ("succeeded", None, [])
    queued = status_of(JobRecord(7, "PENDING", restarts=1), states)
    assert queued == status


def test_a_node_that_cannot_create_the_log() -> None:
    """Slurm reports a signal; the job's folder says nothing, for it is not there."""
    status = status_of(JobRecord(7, "FAILED", exit_code="0:53"), read_states(""))
    assert status is not None
    assert status.reason == (
        "its first node could not create the job's log: targets.slurm.shared does not exist there, "
        "or you may not write to it"
    )


def test_an_earlier_start_of_the_job_does_not_count() -> None:
    states: States = read_states(STATES)
    status = status_of(JobRecord(7, "FAILED", restarts=1), states)
    assert status is not None
    assert "failed_node" not in {fact.name for fact in status.facts}
