"""Which replica failed, and what to do about it, from a FailureReason."""

from __future__ import annotations

import pytest

from rsctl.findings import error
from rsctl.runs.stream.events import Failure

from .fake_sagemaker import FakeSageMaker
from .opening import status

ALONE = {
    "VolumeSizeInGB": 10,
    "InstanceType": "ml.m5.xlarge",
    "InstanceCount": 1,
}


@pytest.mark.parametrize(
    ("reason", "replica", "code", "sign", "rank"),
    [
        (
            "AlgorithmError: worker-3, rank 7 failed (exit code 1)\nTraceback ...\nValueError: x, "
            "exit code: 1",
            "worker-3",
            1,
            None,
            7,
        ),
        (
            "AlgorithmError: reducer-1 was killed by SIGKILL (exit code 137), most often for want "
            "of memory, exit code: 137",
            "reducer-1",
            137,
            "SIGKILL",
            None,
        ),
        ("worker-0, rank 0 failed (exit code 42)", "worker-0", 42, None, 0),
        ("AlgorithmError: worker-99 failed (exit code 1)", None, 0, None, None),
        ("AlgorithmError: , exit code: 139", None, 0, None, None),
        ("CapacityError: worker-1 code 3", None, 0, None, None),
    ],
)
def test_who_failed(
    sagemaker: FakeSageMaker,
    reason: str,
    replica: str | None,
    code: int,
    sign: str | None,
    rank: int | None,
) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    assert found.reason == reason
    failure = replica and Failure(
        replica=replica, time=found.time, exit_code=code, signal=sign, rank=rank
    )
    assert found.failed == ([failure] if failure else [])


def test_of_one_machine_there_is_no_doubt_who_failed(sagemaker: FakeSageMaker) -> None:
    reason = "AlgorithmError: , exit code: 139"
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason, ResourceConfig=ALONE)
    assert [(f.replica, f.exit_code) for f in found.failed] == [("worker-0", 139)]


@pytest.mark.parametrize(
    ("reason", "finding"),
    [
        (
            "CapacityError: Unable to provision requested ML compute capacity. Please retry using "
            "a different ML instance type.",
            (
                "stock-out",
                "try again later, or use another machine type or region",
                "workers.machine",
            ),
        ),
        (
            "InternalServerError: We encountered an internal error. Please try again.",
            ("cloud", "submit the job again; with limits.retries SageMaker does that itself", None),
        ),
        (
            "ClientError: Please use an instance type with more memory, or reduce the size of "
            "training data processed on an instance.",
            (
                "memory",
                "use a smaller batch or fewer data loader workers, or a machine with more memory",
                "workers.machine",
            ),
        ),
        (
            "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:role/x'",
            (
                "role",
                "check that the role exists and that its trust policy lets "
                "sagemaker.amazonaws.com assume it",
                "targets.sagemaker.role",
            ),
        ),
        ("ClientError: Something new", ("cloud", None, None)),
        ("AlgorithmError: worker-0 failed (exit code 1)", None),
    ],
)
def test_what_to_do_about_it(
    sagemaker: FakeSageMaker, reason: str, finding: tuple[str, str, str] | None
) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    if finding is None:
        assert found.findings == []
        return
    code, remedy, path = finding
    path = "limits.retries" if "limits.retries" in (remedy or "") else path
    assert found.findings == [error(code, reason, remedy, path)]


@pytest.mark.parametrize(
    ("reason", "code", "sign"),
    [
        ("AlgorithmError: , exit code: 139", 139, None),
        ("AlgorithmError: ExecuteUserScriptError:\nExitCode -9\nErrorMessage", 137, "SIGKILL"),
        (
            "AlgorithmError: ExecuteUserScriptError:\nExitCode 3\nErrorMessage, exit code: 1",
            3,
            None,
        ),
        ("AlgorithmError: HTTP status code: 404, exit code: 2", 2, None),
        ("AlgorithmError: framework error: \nTraceback (most recent call last):", 1, None),
        ("ClientError: Please use an instance type with more memory., exit code: 137", 137, None),
    ],
)
def test_of_several_machines_the_text_says_how_one_failed(
    sagemaker: FakeSageMaker, reason: str, code: int, sign: str | None
) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    assert found.failed == []
    assert found.unnamed is not None
    assert (found.unnamed.exit_code, found.unnamed.signal) == (code, sign)
    alone = status(sagemaker, "Failed", "Failed", FailureReason=reason, ResourceConfig=ALONE)
    sign = sign or {137: "SIGKILL", 139: "SIGSEGV"}.get(code)
    assert [(f.replica, f.exit_code, f.signal) for f in alone.failed] == [("worker-0", code, sign)]


@pytest.mark.parametrize(
    "reason",
    [
        "CapacityError: Unable to provision requested ML compute capacity.",
        "ClientError: Data download failed:Insufficient disk space",
        "InternalServerError: We encountered an internal error. Please try again.",
    ],
)
def test_what_is_no_failure_of_a_container(sagemaker: FakeSageMaker, reason: str) -> None:
    found = status(sagemaker, "Failed", "Failed", FailureReason=reason)
    assert (found.failed, found.unnamed) == ([], None)
