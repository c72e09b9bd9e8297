"""How long clients wait, by the clock of the test."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.retries import RetryPolicy


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What has been waited for; the jitter is as long as it can be."""
    monkeypatch.setattr("random.uniform", lambda least, most: most)
    return []


def test_retries_wait_up_to_twice_as_long_each_time(waits: list[float]) -> None:
    retries = RetryPolicy(sleep=waits.append)
    for attempt in range(1, 8):
        retries.before_retry(attempt)
    assert waits == [2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(
    ("asked", "least"),
    [("7", 7), ("61", 60), ("0", 0), ("", 0), (None, 0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0)],
)
def test_a_service_may_ask_for_a_longer_wait(
    waits: list[float], asked: str | None, least: float
) -> None:
    RetryPolicy(sleep=waits.append).before_retry(1, asked)
    assert waits == [least + 2]


def test_the_jitter_starts_at_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda least, most: least)
    waits: list[float] = []
    RetryPolicy(sleep=waits.append).before_retry(3)
    assert waits == [0]


def test_polls_become_slower_up_to_a_limit(waits: list[float]) -> None:
    list(islice(RetryPolicy(sleep=waits.append).polls(), 10))
    assert waits[:3] == pytest.approx([1, 1.3, 1.69])
    assert waits[-3:] == pytest.approx([1.3**6, 6, 6])


def test_all_waits_are_on_the_scale_of_the_endpoints(waits: list[float]) -> None:
    endpoints = Endpoints.of_emulator({"RSCTL_CLOUD_PACE": "0.5"})
    retries = replace(RetryPolicy.of(endpoints, tries=3), sleep=waits.append)
    retries.before_retry(1)
    assert (waits, retries.tries) == ([1], 3)
