"""The meetings of `limits.restarts_in_place`: what two nodes say about the ranks that failed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.deferred import Deferred

distributed = Deferred("torch.distributed")
in_place = Deferred("rsctl.node.in_place")


class Node:
    """A node's meetings, and its side of the rendezvous."""

    def __init__(self, rank: int, store: Any, limit: int = 3, nodes: int = 2) -> None:
        self.meetings = in_place.Meetings(limit)
        spec = SimpleNamespace(master_port=0)
        agent = SimpleNamespace(_worker_group=SimpleNamespace(spec=spec), _remaining_restarts=0)
        self.meetings.follow(agent)
        self._rendezvous = SimpleNamespace(
            _store=store, rank=rank, world_size=nodes, master_addr="127.0.0.1"
        )

    def join(self) -> None:
        self.meetings.join(self._rendezvous)


@pytest.mark.parametrize(
    ("on_first", "on_second", "reason"),
    [
        (None, {3: 7}, "rank 3 failed with exit code 7"),
        ({1: 1}, {3: 7}, "rank 1 failed with exit code 1, rank 3 failed with exit code 7"),
        ({0: -9}, None, "rank 0 was killed by signal 9"),
        ({}, None, "a rank failed"),  # torch does not say which
        (
            dict.fromkeys(range(3), 1),
            {3: 7, 4: 1, 5: 1},
            "rank 0 failed with exit code 1, rank 1 failed with exit code 1, "
            "rank 2 failed with exit code 1, rank 3 failed with exit code 7 and 2 more",
        ),
    ],
)
def test_the_ranks_that_failed_on_all_nodes_are_named_once(
    on_first: Mapping[int, int] | None,
    on_second: Mapping[int, int] | None,
    reason: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    nodes = [Node(rank, store) for rank in range(2)]
    for node in nodes:
        node.join()
    for node, failed in zip(nodes, (on_first, on_second), strict=True):
        if failed is not None:
            assert node.meetings.call(failed)
    nodes[0].join()
    assert capfd.readouterr().out == ""
    nodes[1].join()
    message = f"{reason}: rsctl restarts the ranks of all nodes in place (restart 1 of 3)"
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["message"] == message
    assert [node.meetings.restarts_left for node in nodes] == [2, 2]


def test_no_start_follows_the_last_restart() -> None:
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    node = Node(0, store, limit=1, nodes=1)
    node.join()
    assert node.meetings.call({0: 1})
    node.join()
    assert not node.meetings.call({0: 1})


def test_each_start_of_the_ranks_has_a_later_epoch_that_all_nodes_agree_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks can fail within a second, and a node can miss a start."""
    from rsctl.node import torchrun

    monkeypatch.setenv("RSCTL_EPOCH", "0")
    monkeypatch.setattr(torchrun, "time", lambda: 1000.9)
    monkeypatch.setattr(torchrun.StaticTCPRendezvous, "next_rendezvous", lambda _self: None)
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    starts = []
    torchrun._agree_on_epochs(lambda: len(starts))

    def epoch(rank: int) -> str:
        node = SimpleNamespace(_store=store, rank=rank)
        torchrun.StaticTCPRendezvous.next_rendezvous(node)  # type: ignore[arg-type]
        return os.environ["RSCTL_EPOCH"]

    epochs = []
    for start in range(3):
        starts.append(start)
        epochs.append(epoch(rank=0))
    assert epochs == ["1000", "1001", "1002"]
    assert epoch(rank=1) == "1002"
