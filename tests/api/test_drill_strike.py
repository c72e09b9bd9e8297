"""A fault of several nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import drill_strike
from rsctl.api.drill_faults import FAULTS, Situation
from rsctl.targets.local.strikes import NotStruck, Strike

SITUATION = Situation("process", in_containers=False, has_reducers=False, is_spot=False)
[FULL_DISK] = (fault for fault in FAULTS if fault.name == "full-disk")


class Node:
    def __init__(self, replica: str, is_up: bool) -> None:
        self.replica, self.is_up, self.is_full = replica, is_up, False

    def fill_disk(self) -> Strike:
        if not self.is_up:
            raise NotStruck(f"{self.replica} had no running rank")
        self.is_full = True
        return Strike(f"no space for files of {self.replica}", undo=self.free)

    def free(self) -> None:
        self.is_full = False


def strike(monkeypatch: pytest.MonkeyPatch, *nodes: Node) -> Strike:
    found = {node.replica: node for node in nodes}
    monkeypatch.setattr(drill_strike, "nodes_of", lambda *_: found)
    run: Any = SimpleNamespace(id="t-123456", replicas=[*found])
    return drill_strike.strike(FULL_DISK, SITUATION, run)


def test_the_strike_of_one_node_may_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Node("worker-0", True)
    struck = strike(monkeypatch, first, Node("worker-1", False), Node("worker-2", False))
    assert (struck.text, first.is_full) == ("no space for files of worker-0", True)
    struck.undo()
    assert not first.is_full


def test_without_a_struck_node_it_has_not_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotStruck, match="worker-0 had no running rank"):
        strike(monkeypatch, Node("worker-0", False), Node("worker-1", True))
