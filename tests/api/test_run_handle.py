"""Runs on this machine: submitted, followed and ended, from one thread and from two."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

import rsctl.api
from rsctl.api import ExitCode, JobFailed, JobState, LogEvent, MetricEvent, ResultEvent, RsctlError
from rsctl.runs.migrations import VERSION
from rsctl.runs.store import Store
from tests.kit.docker import BASE, needs_docker
from tests.kit.polling import wait_until

from .conftest import Write


@pytest.mark.parametrize("target", ["process", pytest.param("compose", marks=needs_docker)])
def test_a_run_from_its_plan_to_its_result(
    write_job: Write, capfd: pytest.CaptureFixture[str], target: str
) -> None:
    command = ["bash", "-c", "echo loss=0.5; echo loss=0.25"]
    as_it_is = {"image": {"uri": BASE}, "run": {"command": command, "launcher": "none"}}
    changes = as_it_is if target == "compose" else {}
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGINT)
    job = rsctl.api.load(write_job(**changes), set={"workers.count": 2})
    run = rsctl.api.submit(job, target=target)
    events = list(run.follow())
    values = sorted(event.value for event in events if isinstance(event, MetricEvent))
    assert values == [0.25, 0.25, 0.5, 0.5]
    result = events[-1]
    assert isinstance(result, ResultEvent)
    assert (result.state, result.run) == (JobState.SUCCEEDED, run.id)
    assert result.metrics["loss"]["best"] == 0.25
    assert run.wait(check=True).metrics == result.metrics
    assert run.status().plan["world_size"] == 2
    assert [m.value for m in run.metrics(["loss"])].count(0.5) == 2
    assert set(run.locations()) == {"outputs", "checkpoints"}
    assert "<tr><td>state</td><td>succeeded</td></tr>" in run._repr_html_()
    assert "<tr><td>loss</td><td>0.25</td></tr>" in run._repr_html_()
    assert run.record.settings == ["workers.count=2"]
    assert [each.id for each in rsctl.api.runs()] == [run.id]
    assert rsctl.api.run("@last").id == rsctl.api.run(run.id[:-2]).id == run.id
    assert (dict(os.environ), signal.getsignal(signal.SIGINT)) == (environment, handler)
    assert capfd.readouterr() == ("", "")


def test_the_last_values(write_job: Write) -> None:
    """They are read without the values before them."""
    run = rsctl.api.submit(write_job("for i in 1 2 3; do echo loss=$i; done"))
    run.wait()
    values = [(m.name, m.value) for m in run.metrics()]
    assert values == [("loss", 1), ("loss", 2), ("loss", 3)]
    assert [[m.value for m in run.metrics(tail=n)] for n in (0, 1, 3, 9)] == [
        [],
        [3],
        [1, 2, 3],
        [1, 2, 3],
    ]
    assert [m.value for m in run.metrics(["loss"], tail=2)] == [2, 3]
    assert [*run.metrics(["x"], tail=2)] == []
    [last] = run.metrics(nodes=True, tail=1)
    assert last.name == [m.name for m in run.metrics(nodes=True)][-1]


def test_lines_are_chosen(write_job: Write) -> None:
    run = rsctl.api.submit(write_job("echo a; echo b $NODE_RANK; echo c >&2", workers={"count": 2}))
    run.wait()
    assert sorted(line.text for line in run.logs(grep="^b")) == ["b 0", "b 1"]
    assert {line.replica for line in run.logs(replicas=["worker-1"])} == {"worker-1"}
    assert len(list(run.logs(tail=2, role="worker"))) == 2
    assert list(run.logs(since=datetime.now(timezone.utc))) == []
    with pytest.raises(RsctlError, match="has no replica 'worker-9'"):
        list(run.logs(replicas=["worker-9"]))
    with pytest.raises(RsctlError, match="not a valid regular expression"):
        list(run.logs(grep="("))


def test_a_failure_is_an_exception_with_its_causes(write_job: Write) -> None:
    script = "echo \"ModuleNotFoundError: No module named 'nope'\"; exit 3"
    run = rsctl.api.submit(write_job(script))
    with pytest.raises(JobFailed, match=f"{run.id} failed: worker-0 first") as caught:
        run.wait(check=True)
    assert caught.value.exit_code is ExitCode.JOB_FAILED
    assert caught.value.findings[1].message == "a Python module is missing: nope"
    assert caught.value.result.first_failure
    assert caught.value.result.first_failure.exit_code == 3
    for same in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert (same.result, str(same)) == (caught.value.result, str(caught.value))


def test_a_run_goes_on_when_nobody_waits_and_is_cancelled(write_job: Write) -> None:
    run = rsctl.api.submit(write_job("echo up; sleep 300"))
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.1)
    for event in run.follow():
        if isinstance(event, LogEvent):
            break
    assert rsctl.api.run(run.id).state is JobState.RUNNING
    states = (record.state for record in rsctl.api.run(run.id).watch())
    assert next(states) is JobState.RUNNING
    assert run.cancel().state is JobState.CANCELLED
    assert list(states)[-1] is JobState.CANCELLED
    assert run.cancel().state is JobState.CANCELLED
    assert run.wait().exit_code == ExitCode.CANCELLED


def test_a_submission_with_an_id_can_be_repeated(write_job: Write, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    path = write_job(f"echo $RSCTL_REPLICA >> {starts}")
    first = rsctl.api.submit(path, run_id="nightly-1")
    first.wait(check=True)
    again = rsctl.api.submit(path, run_id="nightly-1")
    assert starts.read_text() == "worker-0\n"
    assert (again.id, again.state) == ("nightly-1", JobState.SUCCEEDED)
    assert len(rsctl.api.runs()) == 1
    other = rsctl.api.load(path, set={"workers.count": 3})
    with pytest.raises(RsctlError, match="the run ID nightly-1 belongs to another job"):
        rsctl.api.submit(other, run_id="nightly-1")
    with pytest.raises(RsctlError, match="is not a valid run ID"):
        rsctl.api.submit(path, run_id="Nightly 1")


def test_results_go_with_a_home_that_is_moved(
    write_job: Write, rsctl_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_job("echo a > $RSCTL_OUTPUT_DIR/a; echo c > $RSCTL_CHECKPOINT_DIR/c")
    run = rsctl.api.submit("job.yaml")
    assert run.wait().exit_code == 0
    moved = rsctl_home.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("RSCTL_HOME", str(moved))
    folder = moved / "runs" / run.id
    found = {name: str(folder / name) for name in ("outputs", "checkpoints")}
    assert rsctl.api.run(run.id).locations() == found
    assert [f.path for f in run.fetch(tmp_path / "got", only=["outputs"]).files] == ["outputs/a"]
    (folder / "outputs" / "a").unlink()
    (folder / "outputs").rmdir()
    assert run.locations()["outputs"] == str(rsctl_home / "runs" / run.id / "outputs")


def test_what_cannot_be_sent_is_recorded(write_job: Write) -> None:
    Path("file").touch()
    with pytest.raises(RsctlError, match="cannot write") as caught:
        rsctl.api.submit(write_job(outputs="file/below"))
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    [run] = rsctl.api.runs()
    assert run.state is JobState.FAILED


def test_runs_are_forgotten(write_job: Write) -> None:
    run = rsctl.api.submit(write_job("sleep 300"))
    with pytest.raises(RsctlError, match="according to its last known state"):
        rsctl.api.forget_run(run.id)
    run.cancel()
    assert rsctl.api.forget_run(run.id).run == run.id
    with pytest.raises(RsctlError, match="no run"):
        rsctl.api.run(run.id)


def test_two_runs_at_once_in_threads(write_job: Write) -> None:
    path = write_job("for i in 1 2 3; do echo loss=$i; sleep 0.1; done")
    job = rsctl.api.load(path)

    def train(count: int) -> tuple[str, int]:
        run = rsctl.api.submit(rsctl.api.load(path, set={"workers.count": count}))
        return run.id, sum(isinstance(event, MetricEvent) for event in run.follow())

    with ThreadPoolExecutor(2) as threads:
        (one, few), (two, many) = threads.map(train, (1, 2))
    assert (few, many) == (3, 6)
    assert {run.id for run in rsctl.api.runs()} == {one, two}
    assert rsctl.api.plan(job).world_size == 1


def test_one_run_in_several_threads(write_job: Write) -> None:
    run = rsctl.api.submit(write_job("echo up; sleep 300"))
    results: list[ResultEvent] = []
    waiting = threading.Thread(target=lambda: results.append(run.wait()))
    waiting.start()
    wait_until(lambda: run.status().state is JobState.RUNNING, "the run")
    run.cancel()
    waiting.join(60)
    assert [result.state for result in results] == [JobState.CANCELLED]


def test_an_iterator_moves_between_threads(write_job: Write) -> None:
    """As `asyncio.to_thread` calls it; a garbage collection closes it in any thread."""
    run = rsctl.api.submit(write_job())
    run.wait()
    values = run.metrics()
    with ThreadPoolExecutor(1) as other:
        first = other.submit(next, values).result()
    assert [metric.value for metric in [first, *values]] == [0.5, 0.25]

    abandoned = run.metrics(follow=True)
    next(abandoned)
    with ThreadPoolExecutor(1) as other:
        other.submit(abandoned.close).result()  # type: ignore[attr-defined]


def test_a_process_at_work_submits_after_a_newer_version_has_changed_the_store(
    write_job: Write,
) -> None:
    """The run's own processes continue as this one does, as in a bench of many hours."""
    rsctl.api.runs()
    with Store().transaction() as database:
        database.execute(f"PRAGMA user_version={VERSION + 1}")
    result = rsctl.api.submit(write_job("echo loss=1")).wait()
    assert (result.state, result.metrics["loss"]["last"]) == (JobState.SUCCEEDED, 1.0)
