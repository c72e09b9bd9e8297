"""`rsctl debug` on runs whose nodes have reported, and on runs without a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.api.debug import inspect_run
from rsctl.findings import JobState, RsctlError
from tests.api.recorded import add, refused

from .conftest import Cli, MadeRun

Make = Callable[..., MadeRun]
RECORDED = Path(__file__).parents[1] / "runs" / "stalls" / "recorded" / "loop.txt"
MESSAGE = (
    "rank 2 (worker-1) has not called all_reduce of [641] Float (collective 10), for which ranks "
    "0-1, 3 wait; it is at train.py:36 spin"
)


def stalled(make_run: Make) -> MadeRun:
    """A run that was cancelled after the stall of a real job."""
    run = make_run()
    for row in RECORDED.read_text().splitlines():
        replica, _, text = row.partition(" ")
        run.log(3, text, replica)
    run.state(9, JobState.CANCELLED, exit_code=130)
    return run


def test_the_last_reports_of_a_run_that_has_ended(rsctl: Cli, make_run: Make) -> None:
    run = stalled(make_run)
    for folder in ("worker-1/evidence", "outputs/rsctl-evidence/worker-0"):
        (run.folder.path / folder).mkdir(parents=True)
    done = rsctl("debug", "@last")
    message, *ranks = done.out.splitlines()
    assert (done.code, message) == (0, MESSAGE)
    assert [line.partition(",")[0] for line in ranks] == [
        f"  rank {n} (worker-{n // 2})" for n in range(4)
    ]
    assert ranks[2].endswith(", at train.py:36 spin")
    assert done.err == (
        "these are the last reports in the log; the ranks were not asked now\n"
        f"stacks, Flight Recorder, connections: {run.folder.path}/worker-1/evidence\n"
        "stacks, Flight Recorder, connections: "
        f"{run.folder.path}/outputs/rsctl-evidence/worker-0\n"
    )


def test_the_reports_as_json(rsctl: Cli, make_run: Make) -> None:
    stalled(make_run)
    done = rsctl("debug", "@last", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["run"], done.json["asked"], done.json["silent"]) == ("job-aaaaaa", False, [])
    verdict = done.json["verdict"]
    assert (verdict["message"], verdict["guilty"], verdict["waiting"]) == (MESSAGE, [2], [0, 1, 3])
    assert [node["replica"] for node in done.json["nodes"]] == ["worker-0", "worker-1"]


@pytest.mark.parametrize("later", [None, '{"rsctl": "stall", "over": true}'])
def test_a_run_without_a_report(rsctl: Cli, make_run: Make, later: str | None) -> None:
    """A node that has progressed since its report has none."""
    run = stalled(make_run) if later else make_run().succeed(2)
    for replica in run.replicas if later else ():
        run.log(4, later or "", replica)
    done = rsctl("debug", "@last")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: job-aaaaaa has ended, and its log has no report of a stall\n"
        "    -> run the command while the job is in progress\n"
    )


def test_a_run_of_which_no_node_has_started_is_said_to_start() -> None:
    """Such as while its image is built, and between two attempts."""
    with pytest.raises(RsctlError) as problem:
        inspect_run(add(state="starting"))
    assert refused(problem.value) == (
        "no node of job-1 runs: the run is starting -> try again later"
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (1, "no node of job-aaaaaa has answered"),
        (2, "worker-0, worker-1 of job-aaaaaa have ended in the meantime"),
    ],
)
def test_nodes_are_said_to_have_ended_if_all_have(
    make_run: Make, monkeypatch: pytest.MonkeyPatch, ended: int, said: str
) -> None:
    """Otherwise a node has not answered, whose image may have no launcher."""
    monkeypatch.setattr("rsctl.api.debug.ANSWER_SECONDS", 0.3)
    run = make_run(workers=2)
    for replica in run.replicas:
        run.state(1, JobState.RUNNING, replica=replica)
    before = run.store.find(run.run)
    for replica in run.replicas[:ended]:
        run.state(2, JobState.FAILED, replica=replica, exit_code=1)
    with pytest.raises(RsctlError) as problem:
        inspect_run(before)
    assert refused(problem.value).partition(" -> ")[0] == said


def test_a_node_that_ends_before_it_answers_is_said_to_have_ended(make_run: Make) -> None:
    run = make_run(workers=1)
    run.state(1, JobState.RUNNING, replica="worker-0")
    before = run.store.find(run.run)
    run.state(2, JobState.FAILED, replica="worker-0", exit_code=1)
    with pytest.raises(RsctlError) as problem:
        inspect_run(before)
    assert refused(problem.value) == (
        "worker-0 of job-aaaaaa has ended in the meantime -> see its state: rsctl status job-aaaaaa"
    )
