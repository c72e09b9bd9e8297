"""What all runs of a process share: a log-in, and a project's requests for logs."""

from __future__ import annotations

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.targets import get
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.vertex.log_rate import ProjectRateLimiter


def test_jobs_that_have_ended_come_first() -> None:
    """Within a minute, scaled by the pace; those that go on leave room for last requests."""
    budget = ProjectRateLimiter(0.5)
    live = sum(_asked(budget, now=100.0 + i / 100, is_last=False) for i in range(100))
    assert live < sum(_asked(budget, now=102.0, is_last=True) for _ in range(100)) + live < 60
    assert not budget.allows(129.0, is_last=True)
    assert budget.allows(132.0, is_last=False)


def test_a_clock_that_goes_back_holds_nobody_up() -> None:
    """Each job's clock is that of the service as it was heard."""
    budget = ProjectRateLimiter(1.0)
    while budget.allows(500.0, is_last=True):
        budget.spend(500.0)
    assert budget.allows(400.0, is_last=False)


def _asked(budget: ProjectRateLimiter, now: float, is_last: bool) -> bool:
    allowed = budget.allows(now, is_last)
    if allowed:
        budget.spend(now)
    return allowed


def test_one_service_for_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another endpoint, or other credentials, are another one."""
    target = get("vertex")
    assert isinstance(target, ManagedTarget)
    first = target.service(Endpoints.of_environment())
    assert target.service(Endpoints.of_environment()) is first
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "http://127.0.0.1:1")
    other = target.service(Endpoints.of_environment())
    assert other is not first
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    assert target.service(Endpoints.of_environment()) is not other
