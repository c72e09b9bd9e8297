"""Which replica has failed, by the logs alone."""

from __future__ import annotations

import pytest

from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.log_failures import log_failures, signal_name
from rsctl.runs.stream.events import Failure, UnnamedFailure

from .conftest import at

REPLICAS = ["worker-0", "worker-1", "worker-2"]
TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: x"]
TOOLKIT = "2026-01-31 12:00:09 sagemaker-training-toolkit ERROR    Reporting training FAILURE"
SENTENCE = "cannot reach bucket s3://data/train"  # a line that no other log has


def failures(reported: UnnamedFailure, **logs: list[str]) -> list[Failure]:
    """What logs show; line n of each was printed in second n."""
    folder = RunFolder("job-1")
    folder.create(RunDescription(run="job-1", target="x", request={}, replicas=REPLICAS))
    for name, lines in logs.items():
        text = "".join(f"{at(second)} o {line}\n" for second, line in enumerate(lines))
        folder.log(name.replace("_", "-")).write_text(text)
    return log_failures(folder, REPLICAS, reported)


CODE_1 = UnnamedFailure(exit_code=1, text=f"AlgorithmError: {SENTENCE}, exit code: 1")
KILLED = UnnamedFailure(exit_code=137, signal="SIGKILL")


def test_without_a_sign_it_is_not_known() -> None:
    assert failures(CODE_1) == []
    assert failures(CODE_1, worker_0=["step 1"], worker_1=["an error"]) == []


def test_a_log_that_ends_with_a_traceback_is_the_weakest_sign() -> None:
    found = failures(KILLED, worker_0=["a"], worker_1=["b", *TRACEBACK], worker_2=TRACEBACK)
    assert found == [
        Failure(replica="worker-1", time=at(1), exit_code=137, signal="SIGKILL"),
        Failure(replica="worker-2", time=at(0), exit_code=137, signal="SIGKILL"),
    ]


def test_a_line_that_the_platform_quotes_is_stronger_than_a_traceback() -> None:
    logs = {"worker_0": TRACEBACK, "worker_1": ["a", f"  {SENTENCE}", "b", SENTENCE, "c"]}
    assert failures(CODE_1, **logs) == [Failure(replica="worker-1", time=at(3), exit_code=1)]
    logs["worker_1"] += TRACEBACK
    assert failures(CODE_1, **logs) == [Failure(replica="worker-1", time=at(5), exit_code=1)]


@pytest.mark.parametrize(
    ("line", "is_sign"), [("exit code: 1", False), ("x" * 15, False), ("x" * 16, True)]
)
def test_a_short_line_may_stand_in_any_log(line: str, is_sign: bool) -> None:
    reported = UnnamedFailure(exit_code=1, text=f"{'x' * 16}, exit code: 1")
    assert bool(failures(reported, worker_0=[line])) is is_sign


def test_the_report_of_a_toolkit_is_the_strongest_sign() -> None:
    logs = {"worker_0": TRACEBACK, "worker_1": [SENTENCE], "worker_2": ["a", TOOLKIT, "b", TOOLKIT]}
    assert failures(CODE_1, **logs) == [Failure(replica="worker-2", time=at(1), exit_code=1)]
    logs["worker_2"] = ["a", *TRACEBACK, TOOLKIT]
    assert failures(CODE_1, **logs) == [Failure(replica="worker-2", time=at(1), exit_code=1)]


@pytest.mark.parametrize(
    ("lines", "code", "signal"),
    [
        (["Encountered exit_code 7"], 7, None),
        (["ExitCode 1", "ExitCode 0", " ExitCode 3"], 3, None),
        (["ExitCode 1"], 1, None),
        (["ExitCode -9"], 137, "SIGKILL"),
        (["ExitCode -99"], 227, None),
        (["my ExitCode 5"], 143, "SIGTERM"),
        ([], 143, "SIGTERM"),
    ],
)
def test_the_exit_code_is_that_of_what_the_toolkit_started(
    lines: list[str], code: int, signal: str | None
) -> None:
    """Its own is 1; without any it is what the platform says."""
    reported = UnnamedFailure(exit_code=143, signal="SIGTERM")
    [found] = failures(reported, worker_0=[*lines, "ExecuteUserScriptError:"])
    assert (found.exit_code, found.signal) == (code, signal)


def test_only_the_end_of_a_log_and_no_overlong_line_is_read() -> None:
    long = SENTENCE + " " * 4097
    assert failures(CODE_1, worker_0=[long]) == []
    assert failures(CODE_1, worker_0=[SENTENCE, *["x"] * 50]) != []
    log = RunFolder("job-1").log("worker-0")
    log.write_text(f"{at(0)} o {SENTENCE}\n" + f"{at(1)} o x\n" * 5000)
    assert log_failures(RunFolder("job-1"), REPLICAS, CODE_1) == []


def test_names_of_signals() -> None:
    assert [signal_name(9), signal_name(15), signal_name(0), signal_name(999)] == [
        *("SIGKILL", "SIGTERM", None, None),
    ]
