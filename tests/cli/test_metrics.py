"""`rsctl metrics`: what the job measured, as a table, as events, as charts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rsctl.findings import JobState

from .conftest import Cli, MadeRun, at

Make = Callable[..., MadeRun]


@pytest.fixture
def made(make_run: Make) -> MadeRun:
    run = make_run()
    for step in range(8):
        run.metric(2 + step, "loss", 8.0 - step, step=step)
        run.metric(2 + step, "accuracy", step / 8)
    run.metric(10, "loss", 2.0, step=8, replica="worker-1")
    run.metric(10, "node.cpu", 50)
    return run.succeed(11)


def test_a_table(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("metrics", "@last")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
loss      █▇▆▅▄▃▂▁                  1 nats  of 9
accuracy  ▁▂▃▄▅▆▇█                  0.875  of 8
"""
    )
    assert rsctl("metrics", "@last", "--name", "accuracy").out == (
        "accuracy  ▁▂▃▄▅▆▇█                  0.875  of 8\n"
    )
    assert "node.cpu  " in rsctl("metrics", "@last", "--nodes").out
    assert "node.cpu  " in rsctl("metrics", "@last", "--name", "node.cpu").out


def test_late_and_doubled_lines_are_the_same_for_all(rsctl: Cli, make_run: Make) -> None:
    """A cloud's log may bring them: the last value is the one with the latest time."""
    run = make_run()
    for second, value in ((2, 8.0), (4, 0.25), (3, 4.0), (3, 4.0)):
        run.metric(second, "loss", value, step=second)
        run.metric(second + 4, "loss", value / 8, replica="worker-1", step=second)
    run.succeed(11)
    assert rsctl("status", "@last", "-o", "json").json["metrics"] == {"loss": 0.25}
    assert rsctl("list", "-o", "json").json["runs"][0]["metrics"] == {"loss": 0.25}
    assert "loss=0.25" in rsctl("list").out
    assert rsctl("metrics", "@last").out == "loss  █▄▄▁                      0.25 nats  of 8\n"
    table = rsctl("export", "@last", "--table", "samples").out.splitlines()
    assert table[1].split(",")[1:3] == ["loss", "4.0"]


def test_values_as_events(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("metrics", "@last", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert len(done.events) == 17
    assert done.events[0] == {
        "type": "metric",
        "time": at(2),
        "replica": "worker-0",
        "name": "loss",
        "value": 8.0,
        "step": 0,
    }
    assert "node.cpu" not in {event["name"] for event in done.events}
    whole = rsctl("metrics", "@last", "-o", "json", "--nodes").events
    assert [event["name"] for event in whole[17:]] == ["node.cpu"]
    named = rsctl("metrics", "@last", "-o", "json", "--name", "loss", "--name", "node.cpu").events
    assert {event["name"] for event in named} == {"loss", "node.cpu"}


def test_values_as_they_come(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("metrics", "@last", "-f")
    assert done.out.splitlines()[:2] == [
        "worker-0   step 0  loss=8",
        "worker-0   accuracy=0",
    ]
    assert len(done.out.splitlines()) == 17


def test_no_metrics(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    done = rsctl("metrics", "@last")
    told = "job-aaaaaa has no metrics; to see the telemetry of its nodes: --nodes\n"
    assert (done.code, done.out, done.err) == (0, "", told)
    assert rsctl("metrics", "@last", "--nodes").err == "job-aaaaaa has no metrics\n"
    done = rsctl("metrics", "@last", "--plot")
    assert (done.code, done.out, done.err) == (0, "", "no metrics to draw\n")
    done = rsctl("metrics", "@last", "-o", "json")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_no_metrics_of_a_job_that_defines_none(rsctl: Cli, make_run: Make) -> None:
    make_run(metrics_spec={}).succeed(2)
    told = "job-aaaaaa has no metrics; define them in the job file, under metrics\n"
    assert rsctl("metrics", "@last", "--nodes").err == told


def test_a_chart_fits_a_narrow_terminal_and_has_no_escape_codes(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("metrics", "@last", "--plot")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert max(map(len, lines)) <= 80
    assert lines[0] == "loss"
    assert lines[1].split() == ["(nats)", "^"]
    assert "(step)" in done.out
    assert lines[-1] == "" or lines[-1].startswith(" ")
    accuracy = lines[lines.index("accuracy") :]
    assert accuracy[1].split() == ["^"]
    assert any("(seconds)" in line for line in accuracy)


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [0.0],
        [1.0, 1.0],
        [-1.0, -2.0],
        [1e308, -1e308],
        [5e-324, 1e-320],
        [math.nan, 1.0, math.inf, -math.inf],
    ],
)
@pytest.mark.parametrize("steps", [None, [0, 0, 0, 0], [-5, 5, 7, 9], [2**62, 2**62 + 1, 0, 1]])
def test_any_values_can_be_shown(
    rsctl: Cli, make_run: Make, values: list[float], steps: list[int] | None
) -> None:
    run = make_run()
    for index, value in enumerate(values):
        run.metric(2 + index, "loss", value, step=steps[index] if steps else None)
    run.succeed(9)
    for options in ([], ["--plot"], ["-f"], ["-o", "json"]):
        assert rsctl("metrics", "@last", *options).code == 0


def test_a_diverged_loss_is_shown(rsctl: Cli, make_run: Make) -> None:
    run = make_run()
    run.metric(2, "loss", 1.0)
    run.metric(3, "loss", math.nan)
    run.succeed(4)
    assert rsctl("metrics", "@last").out == (
        "loss  ▄x                        nan nats (best 1)  of 2\n"
    )
    assert rsctl("metrics", "@last", "-o", "json").events[1]["value"] == "nan"


@pytest.mark.parametrize(("value", "text"), [(math.nan, "nan"), (math.inf, "inf")])
def test_what_json_has_no_number_for_is_the_same_text_everywhere(
    rsctl: Cli, make_run: Make, value: float, text: str
) -> None:
    run = make_run()
    run.metric(2, "loss", value)
    run.succeed(3)
    assert rsctl("status", "@last", "-o", "json").json["metrics"] == {"loss": text}
    assert rsctl("list", "-o", "json").json["runs"][0]["metrics"] == {"loss": text}
    assert rsctl("metrics", "@last", "-o", "json").events[0]["value"] == text


def test_following_and_drawing_exclude_each_other(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("metrics", "@last", "-f", "--plot")
    assert (done.code, done.out) == (2, "")
    assert "--plot draws the existing values and cannot be combined with --follow" in done.err


def test_a_run_that_goes_on_is_followed_to_its_end(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    run.metric(2, "loss", 1.0)
    lock = run.folder.lock()

    def next_second(_seconds: float) -> None:
        run.metric(3, "loss", 2.0)
        run.state(4, JobState.SUCCEEDED, exit_code=0)

    monkeypatch.setattr("rsctl.api.metrics.sleep", next_second)
    done = rsctl("metrics", "@last", "-f")
    assert done.out == "worker-0   loss=1\nworker-0   loss=2\n"
    assert lock


def test_following_a_metric_that_never_came_is_an_error_at_the_end(
    rsctl: Cli, made: MadeRun
) -> None:
    """It printed nothing, and its exit code was 0."""
    shown = rsctl("metrics", "@last", "--name", "lss")
    for more in ([], ["-o", "json"]):
        done = rsctl("metrics", "@last", "-f", "--name", "lss", *more)
        assert (done.code, done.err) == (2, shown.err)
        assert "has no metric 'lss'" in done.err
        assert [event["type"] for event in done.events] == ["finding"] * bool(more)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (-1.2, 1.2, "1.2 1 0.8 0.6 0.4 0.2 0 -0.2 -0.4 -0.6 -0.8 -1 -1.2"),
        (99.9991, 100.0003, None),
        (12345.1, 12345.3, None),
        (0.98701, 0.98712, None),
        (-1e-7, 1e-7, None),
    ],
)
def test_the_labels_of_an_axis_differ_and_zero_is_zero(
    rsctl: Cli, make_run: Make, low: float, high: float, labels: str | None
) -> None:
    run = make_run()
    run.metric(2, "loss", low)
    run.metric(3, "loss", high)
    run.succeed(4)
    lines = rsctl("metrics", "@last", "--plot").out.splitlines()
    shown = [line.split("|")[0].strip() for line in lines if "|" in line][:-2]
    assert len(set(shown)) == len(shown) == 13
    assert not any("e-16" in label or "e-17" in label for label in shown)
    if labels:
        assert " ".join(shown) == labels


def test_a_metric_that_a_run_does_not_have(rsctl: Cli, make_run: Callable[..., MadeRun]) -> None:
    made = make_run()
    made.metric(3, "loss", 1.0)
    made.metric(3, "node.cpu_percent", 50.0)
    made.succeed(9)
    for more in ([], ["--plot"], ["-o", "json"], ["--name", "loss"]):
        done = rsctl("metrics", "@last", "--name", "nope", *more)
        assert done.code == 2
        assert "job-aaaaaa has no metric 'nope'\n    -> it has loss; " in done.err
    assert rsctl("metrics", "@last", "--name", "node.cpu_percent", "--nodes").code == 0
