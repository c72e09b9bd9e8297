"""The error that ends a command with `-o json`, as the last events of its stream."""

from __future__ import annotations

import json

import pytest

from rsctl.api import ResultUnknown
from rsctl.cli.error_events import errors_as_events
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.store import Store

from .conftest import Cli
from .test_runs import Make

PROBLEM = error("quota", "no quota", "ask for more")


@pytest.mark.parametrize(
    ("code", "run", "state", "url"),
    [
        (ExitCode.USAGE, None, "failed", None),
        (ExitCode.USAGE, "job-zzzzzz", "failed", None),
        (ExitCode.CANCELLED, None, "cancelled", None),
        (ExitCode.REFUSED, "job-aaaaaa", "succeeded", "process://job-aaaaaa"),
    ],
)
def test_an_error_and_the_result_of_the_run(
    make_run: Make, capsys: pytest.CaptureFixture[str],
    code: ExitCode, run: str | None, state: str, url: str | None,
) -> None:  # fmt: skip
    """A run that the store knows has its own state."""
    make_run().succeed(3)
    with pytest.raises(RsctlError), errors_as_events("json", run):
        raise RsctlError(code, PROBLEM)
    finding, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert (finding["type"], finding["code"], finding["message"]) == (
        "finding",
        "quota",
        "no quota",
    )
    shown = {name: result[name] for name in ("type", "state", "exit_code")}
    assert shown == {"type": "result", "state": state, "exit_code": int(code)}
    assert (result.get("run"), result.get("url")) == (run, url)


def test_a_run_whose_result_is_unknown_has_its_own(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run().metric(2, "loss", 0.5)
    with pytest.raises(ResultUnknown), errors_as_events("json"):
        raise ResultUnknown(Store().find("job-aaaaaa"), PROBLEM)
    *_, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert (result["exit_code"], result["state"]) == (9, JobState.RUNNING.value)
    assert result["metrics"]["loss"]["last"] == 0.5


def test_text_has_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RsctlError), errors_as_events("text"):
        raise RsctlError(ExitCode.USAGE, PROBLEM)
    assert capsys.readouterr().out == ""
    with errors_as_events("json"):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words", ["status nope", "bench status nope", "catalog --region mars", "history none.jsonl"]
)
def test_a_command_that_prints_one_document_prints_its_error_too(rsctl: Cli, words: str) -> None:
    done = rsctl(*words.split(), "-o", "json")
    assert (done.code, list(done.json)) == (2, ["findings"])
    [finding] = done.json["findings"]
    assert finding["severity"] == "error"
    assert finding["message"] in done.err
    assert rsctl(*words.split()).out == ""
