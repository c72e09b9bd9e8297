"""The live view of a run in a terminal, and what is named at its end."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rsctl.api import Run, Work
from rsctl.cli.output import reset_output, set_output
from rsctl.cli.views import run_live
from rsctl.cli.views.run import make_view
from rsctl.cli.views.run_live import LiveView, format_states
from rsctl.findings import JobState
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import LogEvent, MetricEvent, ResultEvent, StateEvent
from rsctl.runs.stream.headline import Tally

from .conftest import Cli, at
from .submissions import job

TRAIN = """
import json, time
for step in range(1, 31):
    print(json.dumps({"rsctl": "metrics", "step": step, **{f"metric{n}": 1 for n in range(9)}}))
    time.sleep(0.05)
"""


def submit_in_terminal(rsctl: Cli, term: str) -> str:
    """All that a terminal gets of a job that succeeds."""
    rsctl.write(TRAIN, "src/train.py")
    rsctl.write(
        "name: job\nimage: {source: src}\nlimits: {timeout: 1h}\n"
        f"run: {{command: [{sys.executable}, -u, train.py, --max-steps, '30'], launcher: once}}\n"
    )
    argv = ("submit", "job.yaml", "--target", "process")
    done = rsctl.terminal(*argv, COLUMNS="100", LINES="30", TERM=term)
    assert done.code == 0
    return done.out


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_terminal_has_step_rate_time_left_and_more_metrics(rsctl: Cli) -> None:
    shown = submit_in_terminal(rsctl, "xterm-256color")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"step \d+ of 30  [\d.]+ steps/s  0:0\d left  limits.timeout in 59:\d\d", text)
    assert re.search(r"  metric0 ▄+ 1  metric1 ▄+ 1  metric2 ▄+ 1", text)
    assert "  metric6 ▄▄▄▄▄▄▄▄▄▄▄▄ 1  and 2 more" in text
    assert "1 running" in text
    last = text.splitlines()[-1]
    assert re.fullmatch(r"report: rsctl report (\S+)   charts: rsctl metrics --plot \1", last)


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_dumb_terminal_gets_plain_lines(rsctl: Cli) -> None:
    shown = submit_in_terminal(rsctl, "dumb")
    assert "\x1b" not in shown
    assert "succeeded after" in shown


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ({"worker-0": "running", "worker-1": "running"}, "2 running"),
        (
            {"worker-0": "running", "worker-1": "queued", "worker-2": "running"},
            "2 running, 1 queued (worker-1)",
        ),
        (
            {f"worker-{n}": "running" if n > 4 else "failed" for n in range(20)},
            "5 failed (worker-0, worker-1, worker-2, ...), 15 running",
        ),
    ],
)
def test_replicas_whose_state_differs_have_their_names(states: dict[str, str], shown: str) -> None:
    assert format_states({name: JobState(state) for name, state in states.items()}) == shown


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_the_end_of_a_submission_names_what_to_type_next(rsctl: Cli) -> None:
    """What would show nothing is left out; -o json is for programs."""
    done = rsctl.process("submit", job(rsctl, "exit 3"))
    run = rsctl("list", "-o", "json").json["runs"][0]["run"]
    assert done.err.splitlines()[-1] == (
        f"its log: rsctl logs --failed {run}   report: rsctl report {run}"
    )
    metrics = {"loss": {"regex": r"loss=(\S+)"}}
    name = job(rsctl, 'echo loss=1; echo loss=2; touch "$RSCTL_OUTPUT_DIR/model"', metrics=metrics)
    done = rsctl.process("submit", name)
    run = rsctl("list", "-o", "json").json["runs"][0]["run"]
    charts = f"report: rsctl report {run}   charts: rsctl metrics --plot {run}"
    assert done.err.splitlines()[-1] == f"{charts}   its files: rsctl get {run}"
    assert "rsctl get" not in rsctl.process("submit", name, "--get", "here").err
    done = rsctl.process("submit", name, "-o", "json")
    assert "rsctl report" not in done.out + done.err


class Screen:
    """A terminal of 60 columns, and a clock of seconds since the run was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.seconds = 0.0
        self._capsys = capsys
        for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(run_live, "monotonic", lambda: 1000.0 + self.seconds)
        monkeypatch.setattr(run_live, "now", lambda: at(self.seconds))

    def lines(self) -> list[str]:
        """The lines that it has got since the last call."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._capsys.readouterr().out)
        return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    return Screen(monkeypatch, capsys)


def line(second: int, replica: str) -> LogEvent:
    text = f"line {second}"
    return LogEvent(time=at(second), replica=replica, id=text, stream="stdout", text=text)


def test_the_status_line_of_a_run(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts from the first state of the whole run, the time from its creation."""
    waits: list[Any] = [None, SimpleNamespace(describe=lambda: "0:12: no machines")]
    monkeypatch.setattr(run_live, "read_waiting", lambda _: waits.pop())
    monkeypatch.setattr(run_live, "progress_bar", lambda _, name: f"{name} 30%" * ("1" in name))
    screen.seconds = 20.0
    view = LiveView("job-1", ["worker-0", "worker-1"], Work(timeout=90.0), at(10))
    tally = Tally({})
    view.show([StateEvent(time=at(12), state=JobState.STARTING, replica="worker-0")], tally)
    assert [shown[2:] for shown in screen.lines()][-3:] == [
        "starting  0:10  1 starting, 1 queued (worker-1)  job-1",
        "waiting 0:12: no machines",
        "worker-1 | worker-1 30%",
    ]
    screen.seconds = 20.09  # it is drawn at most ten times a second
    view.show([], tally)
    assert screen.lines() == []
    view.show([StateEvent(time=at(19), state=JobState.RUNNING, reason="all here")], tally)
    assert screen.lines()[0] == "running: all here"
    screen.seconds = 30.0
    value = MetricEvent(time=at(3), replica="worker-0", name="loss", value=0.25)
    tally.add(value)
    view.show([StateEvent(time=at(25), state=JobState.RUNNING, replica="worker-0"), value], tally)
    assert [shown[2:] for shown in screen.lines()][-4:] == [
        "running  0:20  1 running, 1 queued (worker-1)  job-1",
        "limits.timeout in 1:19",
        "loss ▄ 0.25",
        "worker-1 | worker-1 30%",
    ]
    view.close()


def test_lines_of_the_log_are_above_the_status_line(screen: Screen) -> None:
    """In the order of the events; a run that nothing is known of has one line below them."""
    view = LiveView("job-1", ["worker-0"], Work())
    screen.seconds = 5.0
    log = [line(1, "worker-0"), line(3, "worker-0")]
    state = StateEvent(time=at(2), state=JobState.FAILED, replica="worker-0", exit_code=3)
    view.show([log[0], state, log[1]], Tally({}))
    shown = [text for text in screen.lines() if "job-1" not in text]
    assert shown == [
        "worker-0 | line 1",
        "worker-0 failed (exit code 3)",
        "worker-0 | line 3",
    ]
    screen.seconds = 6.0
    view.show([], Tally({}))
    [status] = screen.lines()
    assert status[2:] == "starting  0:06  1 failed  job-1"
    result = ResultEvent(time=at(9), state=JobState.FAILED, exit_code=1)
    view.finish(result, cast(Run, SimpleNamespace(record=ENDED, cost=lambda: None)))
    assert screen.lines()[-1] == "job-1 failed after 0:08: no disk\\x07"


def test_metrics_take_two_lines(screen: Screen) -> None:
    view = LiveView("job-1", ["worker-0"], Work())
    tally = Tally({})
    for n in range(7):
        for second in range(14):
            value = MetricEvent(time=at(second), replica="worker-0", name=f"m{n}", value=float(n))
            tally.add(value)
    screen.seconds = 5.0
    view.show([], tally)
    bar = "▄" * 12
    assert screen.lines()[-2:] == [
        f"  m0 {bar} 0  m1 {bar} 1  m2 {bar} 2",
        f"  m3 {bar} 3  m4 {bar} 4  and 2 more",
    ]
    view.close()


def test_events_in_a_file_are_lines_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """The log is on standard output; with a failure also --quiet says how it ended."""
    view = make_view("text", "job-1", ["worker-0", "worker-1"], Work())
    log = [line(1, "worker-0"), line(3, "worker-1")]
    state = StateEvent(time=at(2), state=JobState.RUNNING)
    view.show([log[0], state, log[1]], Tally({}))
    assert capsys.readouterr() == ("worker-0 | line 1\nworker-1 | line 3\n", "running\n")
    found = cast(Run, SimpleNamespace(record=ENDED, cost=lambda: None))
    set_output(quiet=True, no_color=False)
    try:
        view.show([state], Tally({}))
        view.finish(ResultEvent(time=at(9), state=JobState.SUCCEEDED, exit_code=0), found)
        assert capsys.readouterr() == ("", "")
        view.finish(ResultEvent(time=at(9), state=JobState.FAILED, exit_code=1), found)
        assert capsys.readouterr().err == "job-1 failed after 0:08: no disk\\x07\n"
    finally:
        reset_output()
    view.close()


ENDED = RunRecord(
    run="job-1", name="job", target="process", url="process://job-1", created=at(0), ended=at(8),
    state=JobState.FAILED, reason="no disk\x07", plan={}, metrics_spec={},
)  # fmt: skip
