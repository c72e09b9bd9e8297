"""A node's part of the checks before its ranks start.

All workers measure at the same time, as often as the chief asks: a node that is slow once may have
been busy, and only one that is slow in each round is named. The workers connect to the port of the
job on the chief, which nothing else uses yet. The chief judges all readings, and sends the findings
to all. A node with an error ends the job; the others wait to be stopped.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.errors import ENVIRONMENT, TEMPORARY, LaunchError
from rsctl.node.health import bandwidth
from rsctl.node.health.chief import Address, Member, Members, Send, lead
from rsctl.node.health.measurer import LIMIT_SECONDS, Measurer
from rsctl.node.health.rules import UNHEALTHY, NodeProblem
from rsctl.node.health.settings import Checks, read_checks
from rsctl.node.listener import Listener, listening, own_address
from rsctl.node.mpi import protocol
from rsctl.node.network import is_loopback
from rsctl.node.platforms import platform
from rsctl.node.structured_lines import emit

_STOP_SECONDS = 10.0
_ENTRIES = 60
"""So many readings are on one structured line, which has to be short."""


def run_checks(cluster: Cluster, environ: Mapping[str, str]) -> None:
    """Run the checks that RSCTL_CHECKS asks for on this node, if it is a worker.

    Raises LaunchError if this node is not fit for the job, and SystemExit if another one is not.
    """
    checks = read_checks(environ)
    if cluster.role != "worker" or not (checks.network or checks.gpu or checks.cpu):
        return
    if is_loopback(cluster.own_host) or environ.get("RSCTL_TARGET") == "compose":
        # A rehearsal has the figures of the cloud's machines.
        checks = checks._replace(gbps=None, gpus=None, is_one_machine=True)
    readings, problems = _run(cluster, checks, environ)
    shown = [*readings.items()]
    for begin in range(0, len(shown), _ENTRIES):
        emit("telemetry", {"check": dict(shown[begin : begin + _ENTRIES])})
    own = [problem for problem in problems if problem.node == cluster.index]
    errors = [problem for problem in own if problem.is_error]
    for problem in own:
        if problem not in errors[:1]:
            severity = "error" if problem.is_error else "warning"
            emit("finding", {"severity": severity, **_fields(problem)})
    if any(problem.code == UNHEALTHY for problem in errors):
        platform(cluster.platform).report_unhealthy(cluster, environ)
    if errors:
        raise LaunchError(TEMPORARY, *_fields(errors[0]).values())
    guilty = sorted({f"worker-{p.node}" for p in problems if p.is_error})
    if guilty:
        _wait_for_stop(guilty)


def _fields(problem: NodeProblem) -> dict[str, str]:
    return {"code": problem.code, "message": problem.message, "remedy": problem.remedy}


def _wait_for_stop(guilty: list[str]) -> NoReturn:
    """End after the guilty node, in the words that distinguish a failure from its consequences."""
    text = f"rsctl: Connection closed by peer: the checks of {', '.join(guilty)} have failed"
    print(text, file=sys.stderr, flush=True)
    threading.Event().wait(_STOP_SECONDS)  # the platform, or rsctl's supervisor, stops this node
    sys.exit(1)


def _run(
    cluster: Cluster, checks: Checks, environ: Mapping[str, str]
) -> tuple[dict[str, float], list[NodeProblem]]:
    """The readings of this node, and the findings on all nodes."""
    if len(cluster.workers) == 1:
        return _measure_alone(checks, environ)
    token, run = _token(environ), environ.get("RSCTL_RUN", "")
    timeout = peer_timeout(cluster, environ)
    joining: queue.Queue[Member] = queue.Queue()
    has_ended = threading.Event()

    def identity(index: int) -> protocol.Identity:
        return protocol.Identity(token, run, index)

    def send(other: int, address: Address) -> float:
        try:
            with protocol.request(address, identity(other), {"checks": "send"}) as sock:
                return bandwidth.send(sock)
        except (OSError, UnicodeError):
            return 0.0

    listener = _listen(cluster, identity(cluster.index), joining, has_ended)
    try:
        if cluster.index:
            fields = {"checks": cluster.index, "name": _name(environ), "port": listener.port}
            with _join(cluster, identity(0), fields, timeout) as chief:
                return _follow(chief, environ, send)
        members = Members.wait(joining, len(cluster.workers), timeout)
        address = cluster.chief, cluster.port
        with _measurer(environ) as measurer:
            nodes, problems = lead(members, checks, measurer, send, _name(environ), address)
        listener.close()  # before the others connect to torchrun here
        members.end(nodes, problems)
        return nodes[0], problems
    finally:
        listener.close()
        has_ended.set()


def _measure_alone(
    checks: Checks, environ: Mapping[str, str]
) -> tuple[dict[str, float], list[NodeProblem]]:
    with _measurer(environ) as measurer:
        nodes, problems = lead(Members(), checks, measurer, lambda *_: 0.0, _name(environ), ("", 0))
    return nodes[0], problems


def _follow(
    chief: socket.socket, environ: Mapping[str, str], send: Send
) -> tuple[dict[str, float], list[NodeProblem]]:
    """Do what the chief asks for, until it sends the readings of this node and all findings."""
    try:
        chief.settimeout(None)  # until all have joined, for which the chief has a limit
        request = json.loads(protocol.read_frame(chief)[1])
        chief.settimeout(4 * LIMIT_SECONDS)
        with _measurer(environ) as measurer:
            while "problems" not in request:
                if "send" in request:
                    host, port = request["to"]
                    protocol.send_json(chief, {"gbps": send(int(request["send"]), (host, port))})
                else:
                    protocol.send_json(chief, {"readings": measurer.measure()})
                request = json.loads(protocol.read_frame(chief)[1])
        return request["readings"], [NodeProblem(*each) for each in request["problems"]]
    except (OSError, ValueError, KeyError, TypeError):
        # In the words that distinguish the first failure from its consequences.
        print("rsctl: Connection closed by peer: the chief has gone", file=sys.stderr, flush=True)
        sys.exit(1)


def _name(environ: Mapping[str, str]) -> str:
    """The host's name, by which the owner of the machine knows it."""
    return environ.get("SLURMD_NODENAME") or socket.gethostname()


def _token(environ: Mapping[str, str]) -> bytes:
    token = environ.get("RSCTL_TOKEN", "")
    if not token:
        message = "RSCTL_TOKEN is not set, by which nodes know each other in their checks"
        raise LaunchError(ENVIRONMENT, "token-missing", message, "rsctl sets it; do not remove it.")
    return token.encode()


def _measurer(environ: Mapping[str, str]) -> Measurer:
    try:
        return Measurer(environ)
    except OSError as error:
        message = f"cannot start the process that checks this node: {error}"
        raise LaunchError(
            TEMPORARY, UNHEALTHY, message, "Look at the limits of the node."
        ) from error


def _listen(
    cluster: Cluster,
    own: protocol.Identity,
    joining: queue.Queue[Member],
    has_ended: threading.Event,
) -> Listener:
    """Listen for the data of other nodes, and on the chief for the nodes themselves."""

    def serve(sock: socket.socket, authenticated: Callable[[], None]) -> None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            fields, answer = protocol.receive(sock, own)
            authenticated()
            sock.sendall(answer)
            if fields["checks"] == "send":
                bandwidth.receive(sock)
            elif own.index == 0 and 0 < int(fields["checks"]) < len(cluster.workers):
                index, name = int(fields["checks"]), str(fields["name"])[:100]
                address = cluster.workers[index], int(fields["port"])
                joining.put(Member(index, sock, name, address))
                has_ended.wait()

    port = 0 if cluster.index else cluster.port
    with listening("checks-address", port, " for the checks of the nodes"):
        return Listener((own_address(cluster), port), serve)


def _join(
    cluster: Cluster, chief: protocol.Identity, fields: dict[str, Any], timeout: float
) -> socket.socket:
    """Connect to the chief. Raises LaunchError if it does not answer in time."""
    try:
        address = cluster.chief, cluster.port
        return protocol.request_within(timeout, address, chief, fields)
    except (OSError, UnicodeError) as error:
        raise LaunchError(
            TEMPORARY,
            "peers-silent",
            f"after {timeout:g} s the chief does not answer for the checks of the nodes: {error}",
            "See the chief's log, and whether a firewall is between the nodes.",
        ) from error
