"""The live view of a run in a terminal, and what is named at its end."""

from __future__ import annotations

import re
import sys

import pytest

from rsctl.cli.views.run_live import format_states
from rsctl.findings import JobState

from .conftest import Cli
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
