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
import time
from contextlib import suppress
from typing import Any

from torch._C._distributed_c10d import TCPStore
from torch.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerState
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous

from rsctl.node.soft_stop import is_stop_asked
from rsctl.node.structured_lines import emit

_ASK_SECONDS = 1.0


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
        self.number += 1
        while self._is_set(f"called/{self.number + 1}"):
            self.number += 1
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

    def call(self, reason: str) -> bool:
        """Call the next meeting because ranks of this node have failed; False if there can be none:
        this node has been asked to end, or the ranks of another have ended already.
        """
        if not self._may_restart():
            return False
        is_first = False
        with suppress(Exception):  # the chief's store has gone, and the chief with it
            is_first = self._store.add(self._key(f"called/{self.number + 1}"), 1) == 1
        if self._is_set(f"done/{self.number}"):
            print("rsctl: no restart in place: the ranks of another node have ended", flush=True)
            return False
        if is_first:
            count = f"restart {self.number} of {self._limit}"
            message = f"{reason}: rsctl restarts the ranks of all nodes in place ({count})"
            remedy = "the log has the error of the ranks before this"
            finding = {"severity": "warning", "code": "restart-in-place", "message": message}
            emit("finding", {**finding, "remedy": remedy})
        return True

    def end(self) -> bool:
        """Record that the ranks of this node have ended; False if a next meeting was called."""
        with suppress(Exception):
            self._store.set(self._key(f"done/{self.number}"), "1")
        return not (self._may_restart() and self._is_set(f"called/{self.number + 1}"))

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
        agent._remaining_restarts = int(meetings.call(_why(result)))
    elif result.state is WorkerState.SUCCEEDED and not meetings.end():
        meetings._asked_at = 0.0
        return RunResult(state=WorkerState.HEALTHY)  # then it sees that others wait for it
    return result


def _why(result: Any) -> str:
    failures = sorted(result.failures.items(), key=lambda each: each[1].timestamp)
    if not failures:
        return "a rank failed"
    rank, failure = failures[0]
    code = int(failure.exitcode)
    return f"rank {rank} " + (
        f"failed with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
    )
