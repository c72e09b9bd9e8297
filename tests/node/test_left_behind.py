"""Programs that a command has put into the background are named when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rsctl.node import left_behind
from rsctl.node.process_tree import Process


def finding(monkeypatch: pytest.MonkeyPatch, lines: Iterator[str], state: str) -> object:
    """What is found of one process whose command line reads as `lines`, one after the other."""
    child = Process(pid=2, parent=os.getpid(), cpu_ticks=0, rss_pages=0, state=state)
    monkeypatch.setattr(left_behind, "has_children", lambda: True)
    monkeypatch.setattr(left_behind, "tree", lambda _root: [child._replace(state="S")])
    monkeypatch.setattr(left_behind, "read_process", lambda _pid: child)
    monkeypatch.setattr(left_behind, "_read", lambda _pid: next(lines))
    return left_behind.left_behind_finding("worker-0", ["sh", "-c", "python train.py &"])


def test_a_program_that_is_just_being_started_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows an empty command line while a process changes its program."""
    assert finding(monkeypatch, iter(["", "", "python train.py"]), "R") == {
        "severity": "warning",
        "code": "left-behind",
        "message": "the command of worker-0 has ended with exit code 0, and rsctl has ended "
        "1 of its processes that still ran: python train.py",
        "remedy": "let the command wait for its programs: without & at the end of a line, nohup "
        "or a daemon",
    }


def test_a_process_that_has_ended_meanwhile_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its command line stays empty."""
    assert finding(monkeypatch, iter([""]), "Z") is None
