"""`rsctl list`, `status` and `cancel`, on runs with states of our choice."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, JobState, RsctlError, error, note
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, MetricEvent
from rsctl.targets.local import process

from .conftest import Cli, MadeRun, at

Make = Callable[..., MadeRun]
RUN_KEYS = [
    *("run", "name", "target", "url", "state", "created", "reason", "exit_code", "attempt"),
    *("started", "ended", "first_failure", "attempts", "placements", "replicas"),
    *("settings", "facts", "metrics", "rehearsed", "results", "restarts_in_place", "cost"),
]
FAILURE = Failure(
    replica="worker-1",
    time=at(7),
    exit_code=1,
    rank=3,
    lines=["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'x\x1b[2J'"],
    causes=[note("module", "a Python module is missing: x", "add it to image.python")],
)


def test_no_runs_yet(rsctl: Cli) -> None:
    done = rsctl("list")
    assert (done.code, done.out, done.err) == (0, "", "no runs yet; start one: rsctl submit JOB\n")
    done = rsctl("list", "-o", "json")
    assert (done.code, done.json, done.err) == (0, {"runs": []}, "")


@pytest.fixture
def three(make_run: Make) -> None:
    make_run("job-aaaaaa").succeed(10)
    make_run("longer-name-bbbbbb", second=1).fail(12, FAILURE)
    make_run("job-cccccc", second=2).state(2.5, JobState.CANCELLED, exit_code=5)


def test_runs_in_a_table(rsctl: Cli, three: None, make_run: Make) -> None:
    done = rsctl("list")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
RUN                 TARGET   STATE      EXIT  CREATED (UTC)     TIME
job-cccccc          process  cancelled     5  2026-01-31 12:00  0:00
longer-name-bbbbbb  process  failed        1  2026-01-31 12:00  0:11
job-aaaaaa          process  succeeded     0  2026-01-31 12:00  0:10
"""
    )
    assert rsctl("list", "-n", "1").out.splitlines()[1:] == [
        "job-cccccc  process  cancelled     5  2026-01-31 12:00  0:00"
    ]
    make_run("job-dddddd", second=3, target="sagemaker").succeed(10)
    assert (
        rsctl("list", "-n", "2").out
        == """\
RUN         TARGET     STATE      EXIT  CREATED (UTC)     TIME
job-dddddd  sagemaker  succeeded     0  2026-01-31 12:00  0:07
job-cccccc  process    cancelled     5  2026-01-31 12:00  0:00
"""
    )


def test_a_narrow_terminal_breaks_no_word(rsctl: Cli, three: None, make_run: Make) -> None:
    run = make_run("job-dddddd", second=4)
    for name in ("learning_rate", "loss"):
        run.metric(5, name, 1 / 3)
    run.succeed(10)
    done = rsctl.terminal("list", "-n", "2", COLUMNS="60", NO_COLOR="1")
    assert (
        done.out.replace("\r\n", "\n")
        == """\
RUN         TARGET   STATE      EXIT  CREATED (UTC)     TIME
    OVERRIDES AND METRICS
job-dddddd  process  succeeded     0  2026-01-31 12:00  0:06
    loss=0.3333  learning_rate=0.3333
job-cccccc  process  cancelled     5  2026-01-31 12:00  0:00
there are older runs; to see them: rsctl list -n 4, or -n 0 for all
"""
    )
    shown = rsctl.terminal("list", COLUMNS="120", NO_COLOR="1").out
    assert "0:06  loss=0.3333  learning_rate=0.3333" in shown


def test_so_many_runs(rsctl: Cli, three: None) -> None:
    assert len(rsctl("list", "-n", "0").out.splitlines()) == 4
    assert rsctl("list", "-n", "3").err == ""
    assert (
        rsctl("list", "-n", "2").err
        == "there are older runs; to see them: rsctl list -n 4, or -n 0 for all\n"
    )
    assert rsctl("list", "-n", "2", "-q").err == ""
    assert rsctl("list", "-n", "-1").code == 2


def test_runs_are_chosen_by_name_state_and_time(rsctl: Cli, make_run: Make) -> None:
    make_run("train-aaaaaa").succeed(3)
    failed = make_run("train-bbbbbb", second=10)
    failed.state(12, JobState.FAILED, exit_code=1)
    make_run("eval-cccccc", second=20).succeed(23)

    def listed(*options: str) -> list[str]:
        done = rsctl("list", "-o", "json", *options)
        return [run["run"] for run in done.json["runs"]]

    assert listed("--name", "train") == ["train-bbbbbb", "train-aaaaaa"]
    assert listed("--name", "*a*") == ["eval-cccccc", "train-bbbbbb", "train-aaaaaa"]
    assert listed("--state", "succeeded", "-n", "1") == ["eval-cccccc"]
    assert listed("--state", "failed", "--state", "expired") == ["train-bbbbbb"]
    assert listed("--since", "2026-01-31T12:00:10Z") == ["eval-cccccc", "train-bbbbbb"]
    done = rsctl("list", "--name", "nope")
    assert (done.code, done.out, done.err) == (0, "", "no such runs\n")
    assert rsctl("list", "--since", "soon").code == 2
    assert rsctl("list", "--state", "lost").code == 2


def test_a_run_is_listed_with_its_overrides_and_last_metrics(rsctl: Cli, make_run: Make) -> None:
    run = make_run()
    for name in ("zeta", "node.cpu", "loss", "b", "a"):
        run.metric(2, name, 7)
        run.metric(3, name, 1 / 3)
    text = rsctl("list").out.splitlines()[1]
    assert text.endswith("  loss=0.3333  a=0.3333  b=0.3333  and 1 more")
    [listed] = rsctl("list", "-o", "json").json["runs"]
    assert listed["metrics"] == {"a": 1 / 3, "b": 1 / 3, "loss": 1 / 3, "zeta": 1 / 3}


def test_the_overrides_of_a_run_are_kept_without_secrets(rsctl: Cli) -> None:
    rsctl.write("name: job\nrun: {script: train.py, launcher: once}\nimage: {source: src}\n")
    settings = ["--set", "run.args.name=a b", "--set", "run.env.API_KEY=hush"]
    assert rsctl.process("submit", "job.yaml", "-q", *settings).code == 0
    [listed] = rsctl("list", "-o", "json").json["runs"]
    assert listed["settings"] == ["run.args.name=a b", "run.env.API_KEY=***"]
    assert "--set 'run.args.name=a b'  --set 'run.env.API_KEY=***'" in rsctl("list").out


def test_runs_as_json(rsctl: Cli, three: None) -> None:
    done = rsctl("list", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == ["runs"]
    runs = done.json["runs"]
    assert [run["run"] for run in runs] == ["job-cccccc", "longer-name-bbbbbb", "job-aaaaaa"]
    assert all(list(run) == RUN_KEYS for run in runs)
    for run in runs:
        found = rsctl("status", run["run"], "-o", "json").json
        assert list(found.pop("goodput")) == [
            *("share", "seconds", "parts", "unpaid", "dollars", "unknown", "until")
        ]
        assert found == {
            **run,
            "spec": None,
            "gradients": None,
            "waiting": None,
            "slowest_rank": None,
            "findings": [],
        }


def test_the_status_of_a_run_that_succeeded(rsctl: Cli, three: None) -> None:
    done = rsctl("status", "job-aaaaaa")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
process://job-aaaaaa  succeeded
0:10 since 2026-01-31T12:00:00.000000Z
  worker-0    succeeded   exit code 0
  worker-1    succeeded   exit code 0
"""
    )


def test_the_status_of_a_run_that_failed(rsctl: Cli, three: None) -> None:
    done = rsctl("status", "longer")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
process://longer-name-bbbbbb  failed: worker-1 failed with exit code 1
0:11 since 2026-01-31T12:00:01.000000Z
  worker-0    failed      exit code 1, as a result of the failure of worker-1
  worker-1    failed      exit code 1
worker-1 (rank 3) failed first: exit code 1 at 12:00:07 UTC, 5.0 s after the start
  Traceback (most recent call last):
  ModuleNotFoundError: No module named 'x'
cause: a Python module is missing: x
    -> add it to image.python
as a result, these failed: worker-0
"""
    )


def test_the_cost_of_a_run(rsctl: Cli, make_run: Make) -> None:
    """Once it has ended it is no longer the cost so far."""
    cost = {"per_hour": 3600.0, "seconds": 60.0, "spot": False, "limit": 40.0}
    made = make_run("job-aaaaaa", target="vertex", cost=cost)
    made.succeed(11)
    assert (
        "  cost        10.00 USD of 40.00 USD: 0:10 at 3,600.00 USD per hour on demand"
        in rsctl("status", "job-aaaaaa").out.splitlines()
    )


def test_the_pages_of_a_run(rsctl: Cli, three: None) -> None:
    shown = rsctl("open", "job-aaaaaa")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.split()[:1] == ["run"]
    one = rsctl("open", "job-aaaaaa", "run", "-o", "json")
    assert list(one.json["pages"]) == ["run"]
    refused = rsctl("open", "job-aaaaaa", "console")
    assert (refused.code, refused.out, refused.err) == (
        2,
        "",
        "error: job-aaaaaa has no page console\n    -> it has run\n",
    )


@pytest.mark.parametrize(
    ("is_terminal", "environment", "opens"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, {}, sys.platform == "darwin"),
        (False, {"DISPLAY": ":0"}, False),
        (True, {"DISPLAY": ":0", "CI": "true"}, False),
        (True, {"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, False),
    ],
)
def test_a_page_is_opened_at_a_desktop_alone(
    rsctl: Cli,
    three: None,
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    environment: dict[str, str],
    opens: bool,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    done = rsctl("open", "job-aaaaaa")
    assert (len(opened), opened[:1]) == (opens, [Path(done.out.split()[1]).as_uri()] * opens)
    assert done.err == ("no browser could be started\n" if opens else "")
    assert rsctl("open", "job-aaaaaa", "-o", "json").code == 0
    assert len(opened) == opens


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (["worker-9", "--", "ls"], "job-aaaaaa has no replica worker-9", "worker-0, worker-1"),
        (["worker-1"], "there is no command to run", "rsctl exec job-aaaaaa worker-1 -- COMMAND"),
        (["ps-0"], "job-aaaaaa has ended (succeeded), and its nodes with it", "rsctl logs"),
        (["worker-x"], "job-aaaaaa has ended (succeeded), and its nodes with it", "rsctl logs"),
    ],
)
def test_a_command_on_a_node_names_a_replica_or_is_for_the_first(
    rsctl: Cli, three: None, words: list[str], message: str, remedy: str
) -> None:
    done = rsctl("exec", "job-aaaaaa", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {message}\n    -> ")
    assert remedy in done.err


def test_the_status_as_json(rsctl: Cli, three: None) -> None:
    shown = rsctl("status", "longer", "-o", "json").json
    more = ["spec", "gradients", "waiting", "slowest_rank", "findings", "goodput"]
    assert list(shown) == [*RUN_KEYS, *more]
    reference = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
    [row] = re.findall(r"(?m)^\| status, cancel .*", reference.read_text())
    assert [key for key in shown if f"`{key}`" not in row] == []
    failure = ["replica", "time", "exit_code", "signal", "rank", "log", "lines", "causes"]
    assert list(shown["first_failure"]) == failure
    replica = ["replica", "state", "since", "exit_code", "reason"]
    assert [list(r) for r in shown["replicas"]] == [replica, replica]


def test_a_watched_status_is_a_line_a_state(rsctl: Cli, three: None) -> None:
    done = rsctl("status", "longer", "--watch", "-o", "json")
    [line] = done.out.splitlines()
    assert (done.code, json.loads(line)["exit_code"]) == (1, 1)
    [line] = rsctl("status", "nope", "--watch", "-o", "json").out.splitlines()
    assert list(json.loads(line)) == ["findings"]


@pytest.mark.parametrize("command", ["status", "compare", "diff x"])
def test_an_error_is_a_document(rsctl: Cli, command: str) -> None:
    done = rsctl(*command.split(), "nope", "-o", "json")
    [finding] = done.json["findings"]
    assert (done.code, finding["severity"]) == (2, "error")


def test_a_report_is_not_written_into_a_file_json(rsctl: Cli, three: None) -> None:
    """As someone asks for who knows the other commands."""
    done = rsctl("report", "job-aaaaaa", "-o", "json")
    assert (done.code, Path("json").exists()) == (2, False)
    assert "rsctl export --format json RUN" in done.err


@pytest.mark.parametrize("command", ["logs", "metrics"])
def test_an_error_is_an_event_of_a_stream(rsctl: Cli, command: str) -> None:
    done = rsctl(command, "nope", "-o", "json")
    [event] = done.events
    assert (done.code, event["type"]) == (2, "finding")
    assert event["message"] == "there is no run 'nope'"


def test_the_status_of_a_run_with_reducers(rsctl: Cli, three: None) -> None:
    told = {"operations": 12.0, "reduced_bytes": 5e6, "gbit_per_second": 0.5, "busy_seconds": 1.0}
    events = [
        MetricEvent(time="", replica="worker-0", name=f"node.transport.{name}", value=value)
        for name, value in told.items()
    ]
    Store().add_metrics("job-aaaaaa", events)
    line = "  gradients   12 all-reduces of 5 MB in total, 0.5 Gbit/s"
    assert rsctl("status", "job-aaaaaa").out.splitlines()[-1] == line
    assert rsctl("status", "job-aaaaaa", "-o", "json").json["gradients"] == {
        "operations": 12,
        "bytes": 5_000_000,
        "seconds": 1.0,
        "wire_seconds": None,
        "ring_seconds": None,
        "gbps": 0.5,
        "link_gbps": None,
        "stalled": 0.0,
        "latest_rank": None,
        "late_ms": None,
    }


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JobState.SUCCEEDED, 0),
        (JobState.FAILED, 1),
        (JobState.CANCELLED, 5),
        (JobState.EXPIRED, 6),
    ],
)
def test_watching_ends_with_the_runs_exit_code(
    rsctl: Cli, make_run: Make, state: JobState, code: int
) -> None:
    make_run().state(3, state, exit_code=code)
    assert rsctl("status", "@last").code == 0
    done = rsctl("status", "@last", "--watch")
    assert done.code == code
    assert done.out == rsctl("status", "@last").out


def test_a_run_whose_supervisor_was_killed_is_cleared_away(rsctl: Cli, make_run: Make) -> None:
    make_run(workers=1)
    for command in (["list"], ["status", "@last"]):
        done = rsctl(*command)
        assert (done.code, done.err) == (0, "")
        assert "failed" in done.out
    assert rsctl("status", "@last", "-o", "json").json["reason"] == (
        "its supervisor was killed; rsctl has removed its remaining processes"
    )


def test_what_is_known_is_shown_even_if_a_run_cannot_be_looked_at(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compose run when docker does not answer."""

    def fail(_run: str) -> None:
        raise RsctlError(ExitCode.ENVIRONMENT, error("docker", "no engine", "start it"))

    monkeypatch.setattr(process.TARGET, "reconcile", fail, raising=False)
    made = make_run("job-aaaaaa")
    made.log(2, "hello")
    make_run("job-bbbbbb", second=1).succeed(3)
    told = "job-aaaaaa may be out of date:\nwarning: no engine\n    -> start it\n"
    done = rsctl("list")
    assert (done.code, done.err) == (0, told)
    assert len(done.out.splitlines()) == 3
    for command in (["status", "job-a"], ["logs", "job-a"], ["metrics", "job-a", "-o", "json"]):
        done = rsctl(*command)
        assert (done.code, done.err) == (0, told)
    assert rsctl("prune").err == f"{told}nothing to remove\n"
    assert rsctl("cancel", "job-a").code == 3


def test_cancelling_what_has_ended(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(3)
    done = rsctl("cancel", "@last")
    assert (done.code, done.out) == (0, "")
    assert done.err == "job-aaaaaa has already ended: succeeded\n"
    done = rsctl("cancel", "@last", "-o", "json", "-q")
    assert (done.code, done.err, list(done.json)) == (0, "", RUN_KEYS)


def test_cancelling_what_does_not_end(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsctl.cli.cancel._WAIT_SECONDS", 0.1)
    monkeypatch.setattr(process.TARGET, "cancel", lambda _run: None, raising=False)
    lock = make_run().folder.lock()
    done = rsctl("cancel", "@last")
    os.close(lock)
    assert (done.code, done.out) == (6, "")
    assert done.err == "error: job-aaaaaa has not ended after 0.1 s\n    -> try again\n"


@pytest.mark.parametrize("command", ["status", "logs", "metrics", "cancel"])
def test_an_empty_reference_is_no_run(rsctl: Cli, make_run: Make, command: str) -> None:
    """As in `rsctl cancel "$RUN"` with RUN not set."""
    make_run().succeed(3)
    done = rsctl(command, "")
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "error: there is no run ''\n    -> see `rsctl list`\n",
    )
