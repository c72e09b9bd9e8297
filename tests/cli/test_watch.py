"""`rsctl watch`: what `rsctl submit` shows, of a run that was left or has ended."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from rsctl.api import Run
from rsctl.cli.follow import follow
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.runs import find_run
from rsctl.findings import JobState
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Event, Failure, ResultEvent
from rsctl.runs.stream.headline import Tally
from tests.kit.polling import DEADLINE_SECONDS, wait_until

from .conftest import Cli, MadeRun, at
from .submissions import job

Make = Callable[..., MadeRun]


def test_of_an_ended_run_the_last_lines_and_its_end(rsctl: Cli, make_run: Make) -> None:
    run = make_run("job-aaaaaa")
    for second in range(2, 57):
        run.log(second, f"line {second}")
    failure = Failure(replica="worker-1", time=at(57), exit_code=3, lines=["no disk"])
    run.fail(58, failure)
    done = rsctl("watch", "job-aaaaaa")
    assert done.code == 1
    assert done.out.splitlines() == [f"worker-0 | line {second}" for second in range(7, 57)]
    assert "worker-1 failed first: exit code 3 at 12:00:57 UTC" in done.err
    assert "job-aaaaaa failed after 0:58\n" in done.err
    last = "its log: rsctl logs --failed job-aaaaaa   report: rsctl report job-aaaaaa"
    assert done.err.splitlines()[-1] == last
    assert rsctl("watch", "job-aaaaaa", "--tail", "2").out.splitlines() == [
        "worker-0 | line 55",
        "worker-0 | line 56",
    ]
    assert rsctl("watch", "job-aaaaaa", "--tail", "0").out == ""


def test_a_run_with_checkpoints_can_be_resumed(rsctl: Cli) -> None:
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/a; exit 3")
    submitted = rsctl("submit", path, "--target", "process")
    run = Store().runs()[0].run
    command = f"resume: rsctl submit {rsctl.folder / path} --resume {run} --target process"
    assert submitted.err.splitlines()[-1].startswith("resume: ")
    assert rsctl("watch", run).err.splitlines()[-1] == command


def test_quiet_says_why_a_run_failed_and_not_that_one_succeeded(rsctl: Cli, make_run: Make) -> None:
    make_run("job-aaaaaa").succeed(8)
    make_run("job-bbbbbb").fail(8, Failure(replica="worker-1", time=at(7), exit_code=3))
    assert rsctl("watch", "job-aaaaaa", "-q").err == ""
    said = rsctl("watch", "job-bbbbbb", "-q").err
    assert "worker-1 failed first: exit code 3 at 12:00:07 UTC" in said
    assert "job-bbbbbb failed after 0:08\n" in said


def test_lines_that_are_for_rsctl_alone_are_not_among_the_last(rsctl: Cli, make_run: Make) -> None:
    run = make_run("job-aaaaaa")
    for second in range(2, 42, 4):
        run.log(second, f"line {second}")
        for more in range(1, 4):
            run.log(second + more, '{"rsctl": "telemetry", "cpu_percent": 7}')
    run.log(2, "worker-1 has begun", "worker-1")
    run.succeed(58)
    assert rsctl("watch", "job-aaaaaa", "--tail", "3").out.splitlines() == [
        "worker-1 | worker-1 has begun",
        "worker-0 | line 30",
        "worker-0 | line 34",
        "worker-0 | line 38",
    ]
    all_lines = rsctl("watch", "job-aaaaaa", "--tail", "90").out.splitlines()
    assert len(all_lines) == 11
    last = rsctl("watch", "job-aaaaaa", "--tail", "3", "-o", "json").events
    assert sum(event["type"] == "log" for event in last) == 4


def test_as_events_it_has_all_lines_and_a_result(rsctl: Cli, make_run: Make) -> None:
    run = make_run("job-aaaaaa")
    for second in range(2, 57):
        run.log(second, f"line {second}")
    run.succeed(58)
    events = rsctl("watch", "job-aaaaaa", "-o", "json").events
    assert sum(event["type"] == "log" for event in events) == 55
    assert (events[-1]["type"], events[-1]["state"]) == ("result", "succeeded")


def test_an_unknown_run_is_an_error_in_the_stream_too(rsctl: Cli) -> None:
    done = rsctl("watch", "job-zzzzzz", "-o", "json")
    assert done.code == 2
    assert [event["type"] for event in done.events] == ["finding", "result"]
    assert done.events[-1]["exit_code"] == 2


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_ctrl_c_leaves_the_run_and_a_cancelled_run_ends_the_watch(rsctl: Cli) -> None:
    name = job(rsctl, "echo up; sleep 300")
    run = rsctl.process("submit", "-d", name).out.strip()
    pipe = subprocess.PIPE
    ci = {**os.environ, "CI": "true"}
    with subprocess.Popen(
        rsctl.argv("watch", run), stdout=pipe, stderr=pipe, text=True, env=ci
    ) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "worker-0 | up\n"
        watcher.send_signal(signal.SIGINT)
        _, err = watcher.communicate(timeout=DEADLINE_SECONDS)
    assert watcher.returncode == 130
    assert f"{run} continues to run\n  watch it again: rsctl watch {run}\n" in err
    assert rsctl("status", run, "-o", "json").json["state"] == "running"
    with subprocess.Popen(rsctl.argv("watch", run), stdout=pipe, stderr=pipe, text=True) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "worker-0 | up\n"
        assert rsctl("cancel", run).code == 0
        _, err = watcher.communicate(timeout=DEADLINE_SECONDS)
    assert watcher.returncode == 5
    assert f"{run} cancelled after" in err


def test_ctrl_c_ends_a_watch_whose_pager_reads_no_more(rsctl: Cli, make_run: Make) -> None:
    run = make_run("job-aaaaaa")
    lock = run.folder.lock()
    for line in range(3000):
        run.log(2, f"line {line}")
    reader, writer = os.pipe()
    with subprocess.Popen(
        rsctl.argv("watch", "job-aaaaaa", "-o", "json"), stdout=writer, stderr=writer
    ) as watcher:
        wait_until(lambda: not select.select([], [writer], [], 0)[1])
        watcher.send_signal(signal.SIGINT)
        try:
            assert watcher.wait(DEADLINE_SECONDS) == 130
        finally:
            watcher.kill()
            for descriptor in (reader, writer, lock):
                os.close(descriptor)


class Interrupted:
    """A view whose user presses Ctrl-C, and whose output may then fail."""

    def __init__(self, problem: int = 0) -> None:
        self._problem = problem
        self.ends: list[JobState] = []

    def show(self, _events: list[Event], _tally: Tally) -> None:
        raise KeyboardInterrupt

    def finish(self, result: ResultEvent, _run: Run) -> None:
        self.ends.append(result.state)
        if self._problem:
            raise OSError(self._problem, os.strerror(self._problem))

    def close(self) -> None:
        pass


def test_ctrl_c_as_a_run_ends_gives_its_own_exit_code(rsctl: Cli, make_run: Make) -> None:
    make_run("job-aaaaaa").fail(3, Failure(replica="worker-1", time=at(2), exit_code=3))
    view = Interrupted()
    assert follow(find_run("job-aaaaaa"), view, Interrupts(), cancel_on_interrupt=False) == 1
    assert view.ends == [JobState.FAILED]


@pytest.mark.usefixtures("runs_end_with_the_test")
@pytest.mark.parametrize(
    ("problem", "is_left"), [(errno.EIO, True), (errno.EPIPE, True), (errno.ENOSPC, False)]
)
def test_a_watch_is_left_though_its_terminal_is_gone_but_not_on_a_full_disk(
    rsctl: Cli,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: int,
    is_left: bool,
) -> None:
    name = rsctl.process("submit", "-d", job(rsctl, "echo up; sleep 300")).out.strip()
    run, view = find_run(name), Interrupted(problem)
    with (rsctl.folder / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr("rsctl.cli.output.S_ISREG", lambda _mode: False)  # as of a terminal
        if is_left:
            assert follow(run, view, Interrupts(), cancel_on_interrupt=False) == 130
            assert f"{name} continues to run\n" in capsys.readouterr().err
        else:
            with pytest.raises(OSError, match="No space left"):
                follow(run, view, Interrupts(), cancel_on_interrupt=False)
        out.write("the rest")
    assert (rsctl.folder / "out").read_text() == ("" if is_left else "the rest")


def test_a_terminal_shows_how_far_the_run_is(rsctl: Cli, make_run: Make) -> None:
    """The goal and the time limit come from the saved job file, the time from its creation."""
    spec = {
        "name": "job",
        "image": {"source": "src"},
        "limits": {"timeout": "1h"},
        "run": {"script": "train.py", "args": {"max-steps": 30}},
    }
    run = make_run("job-aaaaaa", workers=1, spec=json.dumps(spec))
    run.metrics([(step, "loss", 1.0, {"step": step}) for step in range(2, 12)])
    run.log(12, "eleven")
    run.succeed(13)
    screen = {"COLUMNS": "120", "LINES": "30", "TERM": "xterm-256color"}
    done = rsctl.terminal("watch", "job-aaaaaa", **screen)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.out)
    assert done.code == 0
    assert "worker-0 | eleven" in text
    assert "step 11 of 30  1 s/step" in text
    assert "job-aaaaaa succeeded after 0:13" in text
