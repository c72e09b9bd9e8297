"""What a job says of itself: true where it has the form, and never more than a text of one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.findings import Finding
from rsctl.runs.failures import exit_report, first_failure, runtime_finding
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stream.diagnosis import Killer
from rsctl.runs.stream.events import Failure, LogEvent

from .conftest import at


def a_line(kind: str, **fields: Any) -> LogEvent:
    return LogEvent(at(5), "worker-0", "0", "stdout", json.dumps({"rsctl": kind, **fields}))


def test_a_finding_of_a_job_is_one_line_and_points_nowhere() -> None:
    told = {
        "severity": "warning",
        "code": "x\ny",
        "message": "fine\n\x1b[2Jerror: pay here",
        "remedy": "a\r\nb",
        "file": "/etc/passwd",
        "line": 1,
        "column": 1,
        "path": "run",
    }
    assert runtime_finding(a_line("finding", **told)) == Finding(
        severity="warning", code="x y", message="fine error: pay here", remedy=" b"
    )
    assert runtime_finding(a_line("finding", severity="fatal")) is None


@pytest.mark.parametrize(
    ("fields", "signal", "time"),
    [
        ({"code": 137, "signal": "SIGKILL", "time": at(3)}, "SIGKILL", at(3)),
        ({"code": 1, "signal": "SIGX\nerror: forged", "time": "\nerror: forged"}, None, at(5)),
        ({"code": 1, "signal": 9, "time": 9}, None, at(5)),
    ],
)
def test_a_report_of_a_rank(fields: dict[str, Any], signal: str | None, time: str) -> None:
    report = exit_report(a_line("exit", **fields))
    assert report is not None
    assert (report.signal, report.time) == (signal, time)


@pytest.mark.parametrize(
    ("reported", "known", "code", "end"),
    [
        (None, None, "killed", "the sender is unknown"),
        (0, None, "killed", "it was not the kernel because of exhausted memory"),
        (2, None, "memory", "because memory was exhausted"),
        (None, True, "memory", "because memory was exhausted"),
        (0, True, "memory", "because memory was exhausted"),
    ],
)
def test_who_killed_a_rank(reported: int | None, known: bool | None, code: str, end: str) -> None:
    folder = RunFolder("t-aaaaaa")
    folder.create(
        RunDescription(run="t-aaaaaa", target="process", request={}, replicas=["worker-0"])
    )
    fields = {} if reported is None else {"oom_kills": reported}
    line = a_line("exit", code=137, signal="SIGKILL", time=at(5), rank=0, **fields)
    folder.log("worker-0").write_text(f"{at(5)} o {line.text}\n")
    report = exit_report(line)
    assert report is not None
    failure = first_failure([report], folder, {"worker-0": Killer(known)})
    assert isinstance(failure, Failure)
    [cause] = failure.causes
    assert cause.code == code
    assert cause.message.endswith(end)
