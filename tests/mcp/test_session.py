"""What the tools take and how long they wait, without a server's process."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl import api
from rsctl.api import Budget, ExitCode, JobState, RsctlError
from rsctl.findings import error
from rsctl.mcp import tools
from rsctl.mcp.server import input_schema
from rsctl.mcp.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "job.yaml").write_text("name: tiny\n")
    (tmp_path / "kept").write_text("{}")
    return Session(tmp_path, may_submit=True, budget=Budget(10))


@pytest.mark.parametrize(
    "name",
    [
        "job.yaml",
        "kept",
        "bench-4k2m9x",
        "gs://bucket/b.json",
        "s3://bucket/b.json",
        "git:main:b.json",
    ],
)
def test_a_source_is_a_run_or_a_place_or_a_file_of_the_folder(session: Session, name: str) -> None:
    assert session.source(name) == name


def test_a_job_file_is_no_bench(session: Session) -> None:
    names = ["job.yaml", "kept", "missing.yml", "bench-4k2m9x"]
    assert [session.is_job_file(name) for name in names] == [True, True, True, False]


@pytest.mark.parametrize("name", ["a\0.yaml", "a" * 5000 + ".yaml"])
def test_a_name_that_is_no_path(session: Session, name: str) -> None:
    for call in (session.job_file, session.source):
        with pytest.raises(RsctlError, match=r"is not a (path|file)"):
            call(name)
    assert not session.is_job_file(name.removesuffix(".yaml"))


def test_a_link_to_itself_is_no_file(session: Session) -> None:
    (session.root / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(RsctlError, match="is not a file in"):
        session.job_file("loop.yaml")


@pytest.mark.parametrize("name", ["b.json", "j.yaml", "j.yml", "-"])
def test_a_source_that_is_named_like_a_file_must_exist(session: Session, name: str) -> None:
    with pytest.raises(RsctlError) as caught:
        session.source(name)
    assert str(caught.value).startswith(f"{name} is not a file in {session.root}")


@pytest.mark.parametrize(
    ("tool", "argument", "most"),
    [
        ("status", "wait", 300),
        ("logs", "tail", 1000),
        ("logs", "max_bytes", 200_000),
        ("metrics", "tail", 1000),
        ("list", "limit", 200),
        ("gate", "looks", 1000),
        ("gate", "repeat", 1000),
    ],
)
def test_an_agent_cannot_ask_for_more(
    session: Session, monkeypatch: pytest.MonkeyPatch, tool: str, argument: str, most: int
) -> None:
    taken: list[Any] = []
    own = tools.TOOLS[tool]._replace(run=lambda _session, given, _stop: taken.append(given))
    monkeypatch.setitem(tools.TOOLS, tool, own)
    needed = {"gate": {"bench": "b"}, "list": {}}.get(tool, {"run": "r"})
    tools.call(session, tool, {**needed, argument: most}, Event())
    assert [getattr(given, argument) for given in taken] == [most]
    with pytest.raises(RsctlError, match=f"{tool}: Expected `int` <= {most} - at"):
        tools.call(session, tool, {**needed, argument: most + 1}, Event())


def test_a_tool_needs_no_more_than_these_arguments() -> None:
    schemas = {name: input_schema(tool.arguments) for name, tool in tools.TOOLS.items()}
    required = {name: ",".join(schema.get("required", [])) for name, schema in schemas.items()}
    assert required == {
        **dict.fromkeys(("validate", "plan", "advise", "rehearse", "submit"), "job"),
        **dict.fromkeys(("status", "logs", "metrics"), "run"),
        **{"compare": "sides", "gate": "bench", "list": ""},
    }
    defaults = {
        (name, key): value["default"]
        for name, schema in schemas.items()
        for key, value in schema["properties"].items()
        if type(value.get("default")) in (int, str)
    }
    assert defaults == {
        ("rehearse", "runner"): "auto",
        ("status", "wait"): 0,
        ("logs", "tail"): 100,
        ("logs", "max_bytes"): 20_000,
        ("metrics", "tail"): 0,
        ("list", "limit"): 20,
    }


class Patience(Event):
    """Notes how long it was waited for, and advances the clock by that."""

    def __init__(self, clock: list[float], gone_after: float) -> None:
        super().__init__()
        self.clock, self.gone_after, self.waits = clock, gone_after, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.clock[0] += timeout
        return self.clock[0] >= self.gone_after


@pytest.mark.parametrize(
    ("target", "is_rehearsed", "pause"),
    [
        ("process", False, 0.3),
        ("compose", False, 0.3),
        ("vertex", True, 0.3),
        ("vertex", False, 10),
    ],
)
@pytest.mark.parametrize("gone_after", [1e9, 15.0])
def test_status_asks_a_cloud_less_often_and_ends_in_time(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    is_rehearsed: bool,
    pause: float,
    gone_after: float,
) -> None:
    clock, looks = [0.0], list[float]()
    run = SimpleNamespace(
        is_rehearsed=is_rehearsed,
        record=SimpleNamespace(target=target),
        state=JobState.RUNNING,
        status=lambda: looks.append(clock[0]),
        to_dict=lambda details: {"state": "running", "details": details, "findings": []},
    )
    monkeypatch.setattr(api, "run", lambda _, on_outdated: run)
    monkeypatch.setattr(tools, "monotonic", lambda: clock[0])
    patience = Patience(clock, gone_after)
    shown = tools.call(session, "status", {"run": "r", "wait": 25}, patience)
    assert shown == {"state": "running", "details": True, "findings": []}
    assert patience.waits[0] == pause
    assert clock[0] == pytest.approx(25 if gone_after > 25 else 15 if pause < 1 else 20, abs=pause)
    assert len(looks) == len(patience.waits) - (gone_after < 25)


@pytest.mark.parametrize(
    ("code", "accepted", "left"),
    [
        (ExitCode.USAGE, None, 10.0),
        (ExitCode.RESULT_UNKNOWN, None, 6.0),
        (ExitCode.REFUSED, "job-1", 6.0),
    ],
)
def test_a_submission_that_made_no_job_frees_its_budget(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    code: ExitCode,
    accepted: str | None,
    left: float,
) -> None:
    def submit() -> None:
        raise RsctlError(code, error("refused", "no"))

    prepared = SimpleNamespace(submission=None, submit=submit, accepted=lambda: accepted)
    monkeypatch.setattr(api, "load", lambda *_args, **_keys: None)
    monkeypatch.setattr(api, "prepare", lambda *_args, **_keys: prepared)
    monkeypatch.setattr(Budget, "amount", lambda *_: 4.0)
    with pytest.raises(RsctlError, match="no"):
        tools.call(session, "submit", {"job": "job.yaml"}, Event())
    assert 10.0 - session.budget.reserved == left
