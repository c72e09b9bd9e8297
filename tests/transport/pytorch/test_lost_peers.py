"""A rank that loses another one in a collective does not succeed, whatever its script catches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("operation", "noted", "code"),
    [
        ("all_reduce", ["all_reduce"], 1),
        ("work", ["collective"], 1),
        ("backward", ["all_reduce"], 1),
        ("barrier", ["barrier"], 0),
        ("send", [], 0),
    ],
)
def test_an_error_that_the_script_catches(
    run: Callable[..., Any], operation: str, noted: list[str], code: int
) -> None:
    """A barrier carries no data, and messages between two ranks may end by intention."""
    ended = run("lost.py", operation, RSCTL_EXPECTED_RANKS="2")
    assert ended.code == code, ended.err
    assert [record["op"] for record in ended.printed("lost")] == noted
    last = "rank 0 ends with exit code 1, because a collective has failed: "
    assert sum(text.startswith(last) for text in ended.messages) == code


def test_a_stop_that_comes_when_the_script_has_ended(alone: Callable[..., Any]) -> None:
    """A rank that misses this one has the job stopped; the exit code tells who left."""
    program = """
import os, signal
import torch.distributed as dist
from rsctl.transport.pytorch import gloo_threads
dist.init_process_group("gloo")
gloo_threads.wait = lambda: os.kill(os.getpid(), signal.SIGTERM)
"""
    done = alone(program, RSCTL_EXPECTED_RANKS="1")
    assert done.code == 0, done.err
