"""What each tool asks of rsctl.api, and what it makes of the answer, without a server's process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from rsctl import api
from rsctl.api import (
    Budget,
    ExitCode,
    JobState,
    LogFilter,
    RsctlError,
    logs,
    metrics,
    reconcile,
    run_handle,
)
from rsctl.findings import error, warning
from rsctl.mcp import tools
from rsctl.mcp.server import Handlers
from rsctl.mcp.session import Session
from rsctl.runs.stream.events import LogEvent
from tests.api.recorded import add

JOB = "name: tiny\nrun: {script: train.py, env: {A: '${NOWHERE}'}}\n"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "b.json").write_text("{}")
    return Session(tmp_path, may_submit=True, budget=Budget(10))


@pytest.fixture
def reader(session: Session) -> Session:
    """A session that is read-only."""
    return Session(session.root)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], list[Any]]:
    """Lets a function of the API return something, and notes how it is called."""

    def replace(name: str, result: Any) -> list[Any]:
        calls: list[Any] = []

        def noting(*positional: Any, **named: Any) -> Any:
            calls.append((positional, named))
            return result

        monkeypatch.setattr(api, name, noting)
        return calls

    return replace


def refused(session: Session, tool: str, **given: Any) -> tuple[ExitCode, Any]:
    with pytest.raises(RsctlError) as caught:
        tools.call(session, tool, given, Event())
    return caught.value.exit_code, caught.value.findings


def usage(message: str, remedy: str, code: str = "mcp") -> tuple[ExitCode, Any]:
    return ExitCode.USAGE, (error(code, message, remedy),)


def test_files_outside_of_the_folder_are_refused(session: Session) -> None:
    root = session.root
    for name in ("../job.yaml", "/etc/passwd", "sub/../../x.json"):
        outside = usage(
            f"{name} is outside {root}, the folder of this server", "name a file in this folder"
        )
        assert refused(session, "validate", job=name) == outside
    missing = usage(f"none.yaml is not a file in {root}", "check the path")
    assert refused(session, "plan", job="none.yaml") == missing
    assert refused(session, "compare", sides=["none.yaml"]) == missing
    assert refused(session, "gate", bench="b-1", baseline="none.yaml") == missing
    assert refused(session, "gate", bench="b-1", against="none.yaml") == missing


def test_what_starts_a_job_needs_the_permission(reader: Session) -> None:
    for tool in ("submit", "rehearse"):
        assert refused(reader, tool, job="job.yaml") == usage(
            f"{tool} starts a job, and this server is read-only",
            "start the server with --allow-submit",
        )
    assert refused(reader, "gate", bench="job.yaml") == usage(
        "the gate of a job file runs its remaining cells, and this server is read-only",
        "start the server with --allow-submit",
    )


def test_a_tool_that_does_not_exist(session: Session, reader: Session) -> None:
    reading = "status, logs, metrics, compare, gate, list"
    assert refused(session, "cancel") == usage(
        "no tool 'cancel'", f"tools: validate, plan, advise, rehearse, submit, {reading}"
    )
    assert refused(reader, "cancel") == usage(
        "no tool 'cancel'", f"tools: validate, plan, advise, {reading}"
    )


@pytest.mark.parametrize(
    "setting",
    [{"a": "${PATH}"}, {"a": ["x", {"b": "${PATH:-y}"}]}, {"a=b": 1}, {"a": 1, "b": "${X}"}],
)
def test_a_setting_shows_no_variable_of_the_server(
    session: Session, setting: dict[str, Any]
) -> None:
    key = list(setting)[-1]
    for tool, given in (("validate", {"job": "job.yaml"}), ("gate", {"bench": "b-1"})):
        assert refused(session, tool, **given, set=setting) == usage(
            f"set: {key!r} has a variable of the environment, or is not a key",
            "write ${NAME} into the job file",
        )


def test_a_job_file_with_mistakes_is_planned_as_on_the_command_line(
    session: Session, answers: Callable[[str, Any], list[Any]]
) -> None:
    """Its findings come together with the target's, so that nothing needs a second look."""
    note = warning("x", "odd")
    calls = answers("load", file := SimpleNamespace(cells=[]))
    validated = answers("validate", [note])
    planned = answers("plan", SimpleNamespace())
    settings = {"workers.count": 8, "run.args": ["--a", None], "name": "a b"}
    given = {"job": "job.yaml", "target": "vertex", "set": settings}
    assert tools.call(session, "validate", given, Event()) == {"findings": [note]}
    texts = ["workers.count=8", 'run.args=["--a",null]', 'name="a b"']
    assert calls == [(("job.yaml",), {"set": texts, "strict": False})]
    assert validated == [((file, "vertex"), {})]
    assert planned == []


@pytest.mark.parametrize("cells", [[], [{"a": 1}]])
@pytest.mark.parametrize("rehearse", [False, True])
def test_a_plan_has_its_cells(
    session: Session,
    answers: Callable[[str, Any], list[Any]],
    cells: list[dict[str, int]],
    rehearse: bool,
) -> None:
    answers("load", file := SimpleNamespace(cells=cells))
    calls = answers("plan", {"run": "x"})
    given = {"job": "job.yaml", **({"rehearse": True} if rehearse else {})}
    expected = {"run": "x", **({"cells": cells} if cells else {})}
    assert tools.call(session, "plan", given, Event()) == expected
    assert calls == [((file, None), {"rehearse": rehearse})]


@pytest.mark.parametrize(
    ("run", "alone", "expected"),
    [(None, "alone", "alone"), (None, None, "advice"), ("job-1", "alone", "advice")],
)
def test_advice_of_a_run_is_of_the_whole_step(
    session: Session,
    answers: Callable[[str, Any], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    run: str | None,
    alone: str | None,
    expected: str,
) -> None:
    monkeypatch.setattr(tools, "advice_json", lambda made: made)
    answers("load", "file")
    answers("communication", alone)
    asked = answers("advise", "advice")
    given = {"job": "job.yaml", "target": "vertex", "run": run}
    assert tools.call(session, "advise", given, Event()) == expected
    assert asked == ([(("file", "vertex"), {"run": run})] if expected == "advice" else [])


def test_a_submission_returns_its_run_and_what_is_odd(
    session: Session, answers: Callable[[str, Any], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = warning("x", "odd")
    prepared = SimpleNamespace(
        submission="s", findings=[note], submit=lambda: SimpleNamespace(to_dict=lambda: {"run": 1})
    )
    monkeypatch.setattr(Budget, "amount", lambda *_: 4.0)
    answers("load", "file")
    calls = answers("prepare", prepared)
    expected = {"run": 1, "findings": [note]}
    given = {"job": "job.yaml", "target": "vertex"}
    assert tools.call(session, "submit", {**given, "resume": "job-0"}, Event()) == expected
    assert session.budget.reserved == 4.0
    assert tools.call(session, "rehearse", {**given, "runner": "process"}, Event()) == expected
    assert session.budget.reserved == 4.0  # a rehearsal costs nothing
    [submitted, rehearsed] = calls
    assert submitted == (("file", "vertex"), {"resume": "job-0"})
    assert rehearsed == (("file", "vertex"), {"rehearse": api.Rehearsal("process", {})})


def line(text: str, stream: str = "stdout") -> LogEvent:
    return LogEvent("2026-01-31T12:00:00Z", "worker-0", "1", stream, text)  # type: ignore[arg-type]


class LoggedRun:
    """A run with a log."""

    id = "job-1"

    def __init__(self, *lines: LogEvent) -> None:
        self.lines = lines
        self.asked: list[Any] = []

    def log_batches(self, chosen: LogFilter, *, tail: int) -> list[list[LogEvent]]:
        assert chosen.tail_of
        self.asked.append((chosen.replicas, chosen.failed, chosen.since, tail))
        return [[each] for each in self.lines if chosen.tail_of(each)]

    def log_findings(self) -> list[str]:
        return ["a finding"]


@pytest.mark.parametrize(
    ("given", "texts", "left_out"),
    [
        ({}, ["", "one", "two é", "x" * 4000, "\\x1b"], 0),
        ({"text": "o"}, ["one", "two é"], 0),
        ({"text": "O"}, [], 0),
        ({"max_bytes": 4}, ["\\x1b"], 4),
        ({"max_bytes": 3}, [], 5),
        ({"max_bytes": 4003}, ["\\x1b"], 4),
        ({"max_bytes": 4004}, ["x" * 4000, "\\x1b"], 3),
        ({"max_bytes": 4009}, ["x" * 4000, "\\x1b"], 3),
        ({"max_bytes": 4010}, ["two é", "x" * 4000, "\\x1b"], 2),
    ],
)
def test_the_end_of_a_log_within_some_bytes(
    session: Session,
    answers: Callable[[str, Any], list[Any]],
    given: dict[str, Any],
    texts: list[str],
    left_out: int,
) -> None:
    telemetry = line('{"rsctl": "telemetry", "o": 1}')
    texts_of_run = ("", "one", "two é", "x" * 4001, "\x1b")
    run = LoggedRun(telemetry, *map(line, texts_of_run))
    answers("run", run)
    found = tools.call(session, "logs", {"run": "r", **given}, Event())
    assert [event.text for event in found.pop("events")] == texts
    assert found == {"run": "job-1", "left_out": left_out, "findings": ["a finding"]}
    assert run.asked == [((), False, None, 100)]


def test_lines_of_some_replicas(session: Session, answers: Callable[[str, Any], list[Any]]) -> None:
    run = LoggedRun(line('{"rsctl": "metrics", "step": 3, "loss": 0.5}', "stderr"))
    answers("run", run)
    given = {"run": "r", "replicas": ["worker-0", "worker-1/3"], "failed": True, "tail": 7}
    given["since"] = "2026-01-31T13:00:00+01:00"
    found = tools.call(session, "logs", given, Event())
    since = "2026-01-31T12:00:00.000000Z"
    assert run.asked == [(("worker-0", "worker-1/3"), True, since, 7)]
    assert found["events"] == [line("step 3  loss=0.5", "stderr")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], {"a": 1, "b": 2}),
        (["b"], {"b": 2}),
        (["b", "none"], {"b": 2}),
        (["b", "a"], {"b": 2, "a": 1}),
    ],
)
def test_metrics_by_their_names(
    session: Session,
    answers: Callable[[str, Any], list[Any]],
    names: list[str],
    expected: dict[str, int],
) -> None:
    asked: list[Any] = []

    def metrics(names: list[str], nodes: bool, tail: int) -> Any:
        asked.append((names, nodes, tail))
        return iter(["event"] * bool(tail))

    answers("run", SimpleNamespace(id="job-1", metrics=metrics, summary=lambda: {"a": 1, "b": 2}))
    found = tools.call(session, "metrics", {"run": "r", "names": names, "tail": 3}, Event())
    assert found == {"run": "job-1", "metrics": expected, "events": ["event"], "findings": []}
    assert list(found["metrics"]) == list(expected)
    given = {"run": "r", "names": ["node.cpu"], "nodes": True}
    assert tools.call(session, "metrics", given, Event())["events"] == ["event"]
    assert asked == [(names, False, 3), (["node.cpu"], True, 0), (["node.cpu"], True, 1)]


@pytest.mark.parametrize(
    ("known", "remedy"), [({"a": 1, "b": 2}, "it has a, b"), ({}, "it has logged none")]
)
def test_metrics_that_a_run_does_not_have(
    session: Session,
    answers: Callable[[str, Any], list[Any]],
    known: dict[str, int],
    remedy: str,
) -> None:
    answers("run", SimpleNamespace(id="job-1", metrics=lambda *_, **__: [], summary=lambda: known))
    assert refused(session, "metrics", run="r", names=["x", "y"]) == usage(
        "job-1 has no metric x, y", remedy, "metrics"
    )


def test_a_comparison_of_files_and_runs(
    session: Session, answers: Callable[[str, Any], list[Any]]
) -> None:
    calls = answers("compare", "comparison")
    given = {"sides": ["job-1", "b.json", "git:main:x.json"], "metrics": ["loss"]}
    assert tools.call(session, "compare", given, Event()) == "comparison"
    assert calls == [(("job-1", "b.json", "git:main:x.json"), {"metrics": ["loss"]})]


@pytest.mark.parametrize("may_submit", [False, True])
def test_a_gate_confirms_by_further_runs_where_it_may(
    session: Session, reader: Session, answers: Callable[[str, Any], list[Any]], may_submit: bool
) -> None:
    calls = answers("gate", "verdict")
    stop, chosen = Event(), session if may_submit else reader
    given = {
        "bench": "job.yaml" if may_submit else "job-bench-1",
        "target": "vertex",
        "set": {"a": 1},
        "baseline": "b.json",
        "against": "main",
        "max_regression": {"loss": "5%"},
        "repeat": 3,
        "looks": 9,
    }
    assert tools.call(chosen, "gate", given, stop) == "verdict"
    [((bench, target), named)] = calls
    stops = named.pop("stop")
    assert stops() is None
    stop.set()
    assert stops() == "leave"  # the runs continue without the client
    assert (bench, target) == (given["bench"], "vertex")
    assert named == {
        "set": ["a=1"],
        "baseline": "b.json",
        "against": "main",
        "max_regression": {"loss": "5%"},
        "repeat": 3,
        "confirm": None if may_submit else 0,
        "looks": 9,
        "budget": chosen.budget,
    }
    assert tools.call(chosen, "gate", {"bench": "job-bench-1"}, Event()) == "verdict"
    assert {key: calls[1][1][key] for key in ("baseline", "against", "repeat", "looks", "set")} == {
        "baseline": None, "against": None, "repeat": None, "looks": None, "set": [],
    }  # fmt: skip


def test_a_list_of_runs_in_some_states(
    session: Session, answers: Callable[[str, Any], list[Any]]
) -> None:
    calls = answers("runs", [SimpleNamespace(to_dict=lambda: {"run": "job-1"})])
    listed = {"runs": [{"run": "job-1"}], "findings": []}
    assert tools.call(session, "list", {}, Event()) == listed
    given = {"limit": 3, "name": "train*", "states": ["failed", "running"]}
    tools.call(session, "list", {**given, "target": "vertex", "since": "2h"}, Event())
    states = [JobState.FAILED, JobState.RUNNING]
    names = ("name", "states", "target", "since")
    assert [(limit, *map(named.get, names)) for (limit,), named in calls] == [
        (20, None, [], None, None),
        (3, "train*", states, "vertex", "2h"),
    ]
    known = ", ".join(state.value for state in JobState)
    assert refused(session, "list", states=["failed", "lost", "x"]) == usage(
        "'lost' is not a state", f"states: {known}"
    )


def test_arguments_that_a_tool_does_not_take(session: Session) -> None:
    assert refused(session, "status", run="r", shell="ls") == usage(
        "status: Object contains unknown field `shell`", "arguments: run, wait"
    )


def call(session: Session, name: str, arguments: Any) -> Any:
    asked = SimpleNamespace(name=name, arguments=arguments)
    return anyio.run(Handlers(session).call_tool, None, asked)


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (ValueError("odd"), "bug", "rsctl failed unexpectedly: ValueError: odd"),
        (
            OSError(28, "No space left"),
            "system",
            "rsctl failed unexpectedly: OSError: [Errno 28] No space left",
        ),
    ],
)
def test_what_was_not_foreseen_is_an_answer(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    code: str,
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(api, "runs", fail)
    answer = call(session, "list", None)
    [block] = answer.content
    assert (answer.is_error, block.text) == (True, message)
    assert answer.structured_content == {
        "findings": [msgspec.to_builtins(error(code, message))],
        "exit_code": 3,
    }


def test_long_lines_of_a_failure_are_cut(
    session: Session, answers: Callable[[str, Any], list[Any]]
) -> None:
    """A line of a log can have 256 KiB, such as an image in base64."""

    def to_dict(**_: Any) -> dict[str, Any]:
        return {
            "run": "job-1",
            "first_failure": {"replica": "worker-0", "lines": ["x" * 4001, "y"]},
            "attempts": [{"failure": None}, {"failure": {"lines": ["z" * 4001]}}],
            "findings": [],
        }

    run = SimpleNamespace(to_dict=to_dict, state=JobState.FAILED, is_rehearsed=True)
    answers("runs", [run])
    answers("run", run)
    expected = {
        "run": "job-1",
        "first_failure": {"replica": "worker-0", "lines": ["x" * 4000, "y"]},
        "attempts": [{"failure": None}, {"failure": {"lines": ["z" * 4000]}}],
        "findings": [],
    }
    listed = tools.call(session, "list", {}, Event())["runs"]
    for shown in (*listed, tools.call(session, "status", {"run": "job-1"}, Event())):
        assert shown == expected


def test_an_answer_is_json_and_its_text(
    session: Session, answers: Callable[[str, Any], list[Any]]
) -> None:
    shown = {"runs": [{"run": "é\x1b"}], "findings": []}
    answers("runs", [SimpleNamespace(to_dict=lambda: {"run": "é\x1b"})])
    answer = call(session, "list", {"limit": 2})
    [block] = answer.content
    assert (answer.is_error, answer.structured_content) == (False, shown)
    assert msgspec.json.decode(block.text) == answer.structured_content


def test_an_agent_reads_no_text_that_people_do_not_see(
    session: Session, monkeypatch: pytest.MonkeyPatch, answers: Callable[[str, Any], list[Any]]
) -> None:
    hidden = "a\U000e0041\u200bb\xad\x9b"
    answers("runs", [SimpleNamespace(to_dict=lambda: {"run": hidden})])
    answer = call(session, "list", None)
    assert answer.structured_content == {
        "runs": [{"run": "a\\U000e0041\\u200bb\\xad\\x9b"}],
        "findings": [],
    }
    assert msgspec.json.decode(answer.content[0].text) == answer.structured_content
    problem = RsctlError(ExitCode.USAGE, error("x", f"\x1b[2K{hidden}"))
    monkeypatch.setattr(api, "runs", lambda *_, **__: (_ for _ in ()).throw(problem))
    answer = call(session, "list", None)
    assert "a\\U000e0041\\u200bb\\xad\\x9b" in answer.content[0].text
    assert "\x1b" not in answer.content[0].text
    message = answer.structured_content["findings"][0]["message"]
    assert message == "\x1b[2Ka\\U000e0041\\u200bb\\xad\\x9b"


def test_a_client_that_has_left_is_noticed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    own = tools.TOOLS["list"]._replace(run=lambda _session, _given, stop: events.append(stop))
    monkeypatch.setitem(tools.TOOLS, "list", own)
    call(session, "list", {})
    assert [event.is_set() for event in events] == [True]


@pytest.mark.parametrize("may_submit", [False, True])
def test_what_the_client_is_told_of_the_tools(
    session: Session, reader: Session, may_submit: bool
) -> None:
    handlers = Handlers(session if may_submit else reader)
    offered = anyio.run(handlers.list_tools, None, None).tools
    hints = {tool.name: tool.annotations for tool in offered}
    writing = {"rehearse", "submit", "gate"} if may_submit else set()
    assert {name for name, hint in hints.items() if hint and not hint.read_only_hint} == writing
    assert {hint.destructive_hint for hint in hints.values() if hint} == {False}
    assert ("submit" in hints) is may_submit
    [schema] = [tool.input_schema for tool in offered if tool.name == "status"]
    assert schema == {
        "type": "object",
        "properties": {
            "run": {
                "type": "string",
                "description": "A run's ID, a unique prefix of it, @last, or the URL of a job.",
            },
            "wait": {
                "type": "integer",
                "description": "Seconds to wait for the end of the run.",
                "minimum": 0,
                "maximum": 300,
                "default": 0,
            },
        },
        "required": ["run"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("tool", ["status", "logs", "metrics", "list"])
def test_an_agent_learns_that_a_run_may_be_out_of_date(
    session: Session, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Without credentials a run in a cloud would be `running` for ever."""

    def refuse(_run: str) -> None:
        raise RsctlError(ExitCode.ENVIRONMENT, error("credentials", "log in", "gcloud auth"))

    target = SimpleNamespace(
        reconcile=refuse,
        release=lambda _: None,
        collect=lambda _: None,
        tail=lambda *_: {},
        events=lambda *_: [],
    )
    for module in (reconcile, run_handle, logs, metrics):
        monkeypatch.setattr(module, "get", lambda _: target)
    add("job-1", target="vertex", url="vertex://p/r/1", plan={"pools": []})
    given = {} if tool == "list" else {"run": "job-1"}
    found = tools.call(session, tool, given, Event())
    message = "job-1 may be out of date: log in"
    assert msgspec.to_builtins(found)["findings"] == [
        msgspec.to_builtins(warning("credentials", message, "gcloud auth"))
    ]
