"""Restarts of all ranks of a job by torchrun, without a new job: `limits.restarts_in_place`.

torchrun's agents restart the ranks of their own node only, and those of a static rendezvous do not
learn that another node's ranks have failed. So agents count the starts of the ranks together, in
the store of the rendezvous: each start of all ranks is a meeting, from 1. An agent whose ranks have
failed calls the next meeting, and the others join it. Each meeting has a store of its own for the
ranks, on a port that the chief reports: torch 2.13 would find the keys of the ranks before in
the former one. Other versions of torch have not been tried.

Source: torch/distributed/elastic/agent/server/api.py (`_invoke_run`) and
torch/distributed/rendezvous.py (`_create_c10d_store`), torch 2.13.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from torch._C._distributed_c10d import TCPStore
from torch.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerState
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous

from rsctl.node.soft_stop import is_stop_asked
from rsctl.node.structured_lines import emit, warning

_ASK_SECONDS = 1.0
_MOST_SHOWN = 4
_STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)


class Meetings:
    """The starts of the ranks of all nodes. `limit` is how many may follow the first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.number = 0
        self._store: Any = None
        self._asked_at = 0.0
        self._agent: Any = None
        self._rank_store: Any = None  # of this meeting; a server ends with its last reference

    @property
    def restarts_left(self) -> int:
        """How many restarts may still follow."""
        return max(0, self._limit - self.number + 1)

    def follow(self, agent: Any) -> None:
        """Take torch's agent, whose ranks start at the meetings."""
        self._agent = agent

    def join(self, rendezvous: Any) -> None:
        """Enter the next meeting, and have the ranks use its store."""
        self._store = rendezvous._store
        self._enter_next(rendezvous.world_size)
        while self._is_set(f"called/{self.number + 1}"):
            self._enter_next(rendezvous.world_size)
        if self.number == 1:
            return
        port_key = self._key(f"port/{self.number}")
        if rendezvous.rank == 0:
            address, nodes = rendezvous.master_addr, rendezvous.world_size
            self._rank_store = TCPStore(address, 0, nodes, True, wait_for_workers=False)
            self._store.set(port_key, str(self._rank_store.port))
        # Torch counts the failures of this node alone; ranks read a number that all agree on.
        self._agent._remaining_restarts = self.restarts_left
        self._agent._worker_group.spec.master_port = int(self._store.get(port_key))

    def is_called(self) -> bool:
        """Whether another node has called the next meeting; asks the store once a second."""
        now = time.monotonic()
        if now < self._asked_at + _ASK_SECONDS:
            return False
        self._asked_at = now
        return self._may_restart() and self._is_set(f"called/{self.number + 1}")

    def call(self, exit_codes: Mapping[int, int]) -> bool:
        """Call the next meeting because ranks of this node have failed, with these exit codes, -n
        for signal n; False if there can be none: this node has been asked to end, or the ranks of
        another have ended already.
        """
        if not self._may_restart():
            return False
        failed = "".join(f"{rank} {code}\n" for rank, code in exit_codes.items()) or "\n"
        with suppress(Exception):  # the chief's store has gone, and the chief with it
            self._store.append(self._key(f"failed/{self.number + 1}"), failed)
            self._store.set(self._key(f"called/{self.number + 1}"), "1")
        if self._is_set(f"done/{self.number}"):
            print("rsctl: no restart in place: the ranks of another node have ended", flush=True)
            return False
        return True

    def end(self) -> bool:
        """Record that the ranks of this node have ended; False if a next meeting was called."""
        with suppress(Exception):
            self._store.set(self._key(f"done/{self.number}"), "1")
        return not (self._may_restart() and self._is_set(f"called/{self.number + 1}"))

    def _enter_next(self, nodes: int) -> None:
        self.number += 1
        # Ranks that only lost another may fail before it does: the last node knows of all.
        if self._store.add(self._key(f"joined/{self.number}"), 1) == nodes and self.number > 1:
            self._report(self._store.get(self._key(f"failed/{self.number}")).decode())

    def _report(self, failed: str) -> None:
        words = iter(failed.split())
        codes = {int(rank): int(code) for rank, code in zip(words, words, strict=True)}
        count = f"restart {self.number - 1} of {self._limit}"
        message = f"{_why(codes)}: rsctl restarts the ranks of all nodes in place ({count})"
        remedy = "the log has the error of the ranks before this"
        emit("finding", warning("restart-in-place", message, remedy))

    def _may_restart(self) -> bool:
        return self.restarts_left > 0 and not is_stop_asked(os.environ)

    def _is_set(self, key: str) -> bool:
        with suppress(Exception):
            return bool(self._store.check([self._key(key)]))
        return False

    def _key(self, name: str) -> str:
        return f"rsctl/meeting/{name}"


def restart_together(meetings: Meetings) -> None:
    """Have torchrun's agent take part in the meetings."""
    _join_meetings(meetings)
    _watch_others(meetings)


def _join_meetings(meetings: Meetings) -> None:
    rendezvous: Any = static_tcp_rendezvous.StaticTCPRendezvous
    meet = rendezvous.next_rendezvous

    def next_rendezvous(self: Any) -> Any:
        met = meet(self)
        meetings.join(self)
        return met

    rendezvous.next_rendezvous = next_rendezvous
    rendezvous.num_nodes_waiting = lambda self: int(meetings.is_called())


def _watch_others(meetings: Meetings) -> None:
    """Have the agent decide with the others what follows when its ranks have ended."""
    agent_type: Any = SimpleElasticAgent
    invoke, restart = agent_type._invoke_run, agent_type._restart_workers

    def invoke_run(self: Any, *arguments: Any) -> Any:
        meetings.follow(self)
        monitor = self._monitor_workers
        self._monitor_workers = lambda group: _decided(self, meetings, monitor(group))
        return invoke(self, *arguments)

    def restart_workers(self: Any, group: Any) -> None:
        emit("restart", {"number": meetings.number})  # before the ranks that it is about
        restart(self, group)

    agent_type._invoke_run, agent_type._restart_workers = invoke_run, restart_workers


def _decided(agent: Any, meetings: Meetings, result: Any) -> Any:
    """The state of its ranks as the agent must see it."""
    if result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
        agent._remaining_restarts = int(meetings.call(_exit_codes(result)))
    elif result.state is WorkerState.SUCCEEDED and not meetings.end():
        meetings._asked_at = 0.0
        return RunResult(state=WorkerState.HEALTHY)  # then it sees that others wait for it
    return result


def _exit_codes(result: Any) -> dict[int, int]:
    """By rank, the exit codes of those that failed: torch ends the node's other ranks when one has,
    and counts them too (torch/distributed/elastic/multiprocessing/api.py, `SubprocessContext`).
    """
    codes = {int(rank): int(failure.exitcode) for rank, failure in result.failures.items()}
    return {rank: code for rank, code in codes.items() if code not in _STOPPED} or codes


def _why(exit_codes: Mapping[int, int]) -> str:
    """Which ranks have failed, and how, those of the lowest numbers first."""
    ends = [
        f"rank {rank} "
        + (f"failed with exit code {code}" if code >= 0 else f"was killed by signal {-code}")
        for rank, code in sorted(exit_codes.items())
    ]
    shown, more = ends[:_MOST_SHOWN], len(ends) - _MOST_SHOWN
    return (", ".join(shown) or "a rank failed") + (f" and {more} more" if more > 0 else "")
