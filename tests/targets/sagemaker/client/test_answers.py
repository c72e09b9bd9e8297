"""Answers that are not SageMaker's, such as those of a proxy, end no command unexpectedly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import RsctlError
from rsctl.images.registry.names import parse_repository
from rsctl.targets.base import Pool
from rsctl.targets.managed.emulator.http import Reply
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.client import SageMakerService
from rsctl.targets.sagemaker.job import SageMakerJob
from rsctl.targets.sagemaker.registry import CLIENT

from .fake_sagemaker import PLAN, REQUEST, RUN, FakeSageMaker
from .opening import opened

POOLS = [Pool(role="worker", count=1, machine="ml.g5.12xlarge")]
CREATED = "2026-01-01T00:00:00.000000Z"
BODIES = {
    "null": b"null",
    "list": b"[]",
    "number": b"5",
    "text": b'"moved"',
    "truth": b"true",
    "deep": b"[" * 100_000,
    "bytes": b"\xff\xfe",
    "page": b"<html>log in</html>",
}
CALLS: dict[str, Callable[[SageMakerJob], Any]] = {
    "status": lambda job: job.status(),
    "describe": lambda job: job.describe(),
    "cancel": lambda job: job.cancel(),
    "log": lambda job: job.log({}, POOLS, CREATED).read(),
    "measure": lambda job: job.measure(CREATED, POOLS),
    "create": lambda _: SageMakerService(Endpoints.of_environment()).create(PLAN.run, REQUEST),
    "find": lambda _: SageMakerService(Endpoints.of_environment()).find(REQUEST, RUN),
    "login": lambda _: CLIENT.log_in(
        parse_repository("123456789012.dkr.ecr.us-east-1.amazonaws.com/bert"),
        Endpoints.of_environment(),
    ),
}


NEED_NO_VALUE = ("cancel", "log", "measure")


def answer_all(fake: FakeSageMaker, patch: pytest.MonkeyPatch, reply: Reply) -> None:
    """Have a fake give this answer to any call."""
    patch.setattr(fake, "admit", lambda _: None)
    patch.setattr(fake, "answer", lambda _: reply)


@pytest.mark.parametrize(
    ("call", "body", "status"),
    [
        (call, body, status)
        for call in CALLS
        for body in BODIES
        for status in (200, 400)
        if (call, status) != ("cancel", 200)  # whose answer has no content
    ],
)
def test_an_answer_of_another_type(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch, call: str, body: str, status: int
) -> None:
    kind = "text/html" if body == "page" else "application/x-amz-json-1.1"
    headers = {"Content-Type": kind, "x-amzn-RequestId": "1"}
    answer_all(sagemaker, monkeypatch, Reply(status, BODIES[body], headers))
    with pytest.raises((RsctlError, Unreachable)) as caught:
        CALLS[call](opened())
    assert "the answer is not" in str(caught.value) or status == 400


@pytest.mark.parametrize("call", [name for name in CALLS if name not in NEED_NO_VALUE])
def test_an_answer_without_a_value(
    sagemaker: FakeSageMaker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    answer_all(sagemaker, monkeypatch, Reply.of({}))
    with pytest.raises((RsctlError, Unreachable), match="the answer is not"):
        CALLS[call](opened())
