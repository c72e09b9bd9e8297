"""The chief's side of the checks: it asks all nodes to measure, and judges the readings."""

from __future__ import annotations

import json
import queue
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from rsctl.node.errors import TEMPORARY, LaunchError
from rsctl.node.health.measurer import LIMIT_SECONDS, Measurer
from rsctl.node.health.rules import CHECK, NodeProblem, Slow, problems, slow_rates
from rsctl.node.health.settings import Checks
from rsctl.node.mpi import protocol

_ROUNDS = 3
_ROUND_SECONDS = 4.0
"""No round begins with less time left."""

_UNSURE = f"the check ended before it was sure, after {LIMIT_SECONDS:g} s"
_TURN_SECONDS = 0.5

Address = tuple[str, int]
Send = Callable[[int, Address], float]
"""Sends to the worker of this index at its address; returns Gbit/s."""


class Member(NamedTuple):
    """Another worker that has joined: its connection, its name, and where it receives."""

    number: int
    sock: socket.socket
    name: str
    address: Address


class Members:
    """The connections to the other workers; None for one that no longer answers.

    `names` and `addresses` are theirs, in the order of their indexes.
    """

    def __init__(self, joined: Sequence[Member] = ()) -> None:
        self._sockets: list[socket.socket | None] = [member.sock for member in joined]
        self.names = [f"worker-{member.number} on {member.name}" for member in joined]
        self.addresses = [member.address for member in joined]

    @classmethod
    def wait(cls, joining: queue.Queue[Member], count: int, timeout: float) -> Members:
        """Wait until all have joined. Raises LaunchError if one does not within `timeout` s."""
        joined: dict[int, Member] = {}
        until = time.monotonic() + timeout
        while len(joined) < count - 1:
            left = until - time.monotonic()
            if left <= 0:
                absent = [f"worker-{n}" for n in range(1, count) if n not in joined]
                raise LaunchError(
                    TEMPORARY,
                    "peers-silent",
                    f"after {timeout:g} s these nodes have not joined the checks: "
                    f"{', '.join(absent)}",
                    "Check whether they started, and whether a firewall is between the nodes.",
                )
            with suppress(queue.Empty):  # in short turns, since a signal does not end the wait
                member = joining.get(timeout=min(left, _TURN_SECONDS))
                joined[member.number] = member
        members = cls([joined[index] for index in sorted(joined)])
        for member in joined.values():
            member.sock.settimeout(2 * LIMIT_SECONDS)
        return members

    def ask(
        self, requests: Sequence[Mapping[str, Any]], own: Callable[[], Any]
    ) -> tuple[Any, list[Mapping[str, Any]]]:
        """Send a request to each, do this node's part, and return it with their answers."""
        for sock, request in zip(self._sockets, requests, strict=True):
            if sock is not None:
                with suppress(OSError):  # its answer will not come either
                    protocol.send_json(sock, request)
        return own(), self._answers()

    def end(self, nodes: Sequence[Mapping[str, float]], found: Sequence[NodeProblem]) -> None:
        """Send each its readings and the findings, and wait until it has them."""
        for sock, readings in zip(self._sockets, nodes[1:], strict=True):
            if sock is not None:
                with suppress(OSError):
                    protocol.send_json(sock, {"readings": readings, "problems": found})
        for sock in self._sockets:
            if sock is not None:
                with suppress(OSError):
                    sock.settimeout(_ROUND_SECONDS)
                    sock.recv(1)

    def _answers(self) -> list[Mapping[str, Any]]:
        """The answers; {} of a node that gives none in time. Raises LaunchError if one has gone."""
        answers: list[Mapping[str, Any]] = []
        for place, sock in enumerate(self._sockets):
            answer: Any = {}
            try:
                answer = json.loads(protocol.read_frame(sock)[1]) if sock is not None else {}
            except (TimeoutError, ValueError):
                self._sockets[place] = None  # its frames are out of step
            except OSError as error:
                raise LaunchError(
                    TEMPORARY,
                    "peers-silent",
                    f"worker-{place + 1} has ended during the checks of the nodes: {error}",
                    f"See the log of worker-{place + 1}.",
                ) from error
            answers.append(answer if isinstance(answer, dict) else {})
        return answers


def lead(
    members: Members,
    checks: Checks,
    measurer: Measurer,
    send: Send,
    name: str,
    address: Address,
) -> tuple[list[dict[str, float]], list[NodeProblem]]:
    """The last readings of all nodes, this one first, and the findings. `name` and `address` are of
    this node.

    It asks for another round while a node seems slow, three at most and within the limit of time;
    with fewer rounds, what seems slow is a warning. A node without readings is not judged: its
    image may be slow to load, or too small.
    """
    count = len(members.names) + 1
    slow: frozenset[Slow] = frozenset()
    nodes: list[dict[str, float]] = []
    for number in range(_ROUNDS):
        first, others = members.ask([{}] * (count - 1), measurer.measure)
        measured = [first, *(answer.get("readings") for answer in others)]
        nodes = [_numbers(readings) for readings in measured]
        if checks.network and count > 1:
            _measure_network(members, nodes, send, [address, *members.addresses])
        slow_now = slow_rates(nodes, checks)
        slow = slow_now if number == 0 else slow & slow_now
        if not slow or measurer.until - time.monotonic() < _ROUND_SECONDS:
            break
    named = [f"worker-0 on {name}", *members.names]
    found = problems(nodes, slow if number == _ROUNDS - 1 else frozenset(), checks, named)
    unsure = [
        problem._replace(code=CHECK, message=f"{problem.message}; {_UNSURE}", is_error=False)
        for problem in problems(nodes, slow, checks, named)
        if problem not in found
    ]
    unknown = [
        NodeProblem(
            index,
            CHECK,
            f"{named[index]} was not checked: it has not measured itself in {LIMIT_SECONDS:g} s",
            "Look at the log of this node; an image that loads slowly can be the reason.",
            is_error=False,
        )
        for index, readings in enumerate(measured)
        if readings is None
    ]
    return nodes, [*found, *unsure, *unknown]


def _measure_network(
    members: Members, nodes: list[dict[str, float]], send: Send, addresses: Sequence[Address]
) -> None:
    """Add the best rates of each node: with two neighbours, a slow one does not make it slow."""
    count = len(nodes)
    for stride in (1, 2) if count > 2 else (1,):
        targets = [(index + stride) % count for index in range(count)]
        requests = [{"send": target, "to": addresses[target]} for target in targets[1:]]
        first = partial(send, targets[0], addresses[targets[0]])
        own, others = members.ask(requests, first)
        rates = [own, *(answer.get("gbps", 0.0) for answer in others)]
        for index, (target, rate) in enumerate(zip(targets, rates, strict=True)):
            for node, name in ((index, "send_gbps"), (target, "receive_gbps")):
                nodes[node][name] = max(nodes[node].get(name, 0.0), round(float(rate), 4))


def _numbers(readings: Any) -> dict[str, float]:
    if not isinstance(readings, dict):
        return {}
    return {str(n): float(v) for n, v in readings.items() if isinstance(v, (int, float))}
