"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Found = TypeVar("Found")

DEADLINE_SECONDS = 240.0
"""Far longer than anything takes on a busy machine."""


def wait_until(
    condition: Callable[[], Found | None],
    what: str = "a condition",
    *,
    seconds: float = DEADLINE_SECONDS,
) -> Found:
    """The first true value of a condition; fails the test when the time is over.

    It sleeps eight times as long as the condition has taken, which leaves most of the machine's
    time to what it waits for.
    """
    end = time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        if found := condition():
            return found
        time.sleep(max(0.02, 8 * (time.monotonic() - begin)))
    pytest.fail(f"timed out waiting for {what}")
