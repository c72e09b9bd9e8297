"""How the nodes of a packed job begin and end each slot together.

The chief listens on the job's port, and the other workers connect to it with the run's token, by
the handshake of mpi/protocol.py. Then both sides send lines:

    worker    ready SLOT        it waits for this slot to begin
    chief     start SLOT PORT EPOCH
    worker    failed SLOT       its command has failed
    chief     end SLOT          another node's command has

A slot begins when all are ready for it. Each has a port of its own for its ranks, so that a late
rank of one slot never meets the ranks of the next. A node that is lost ends the job.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.errors import TEMPORARY, USAGE, LaunchError
from rsctl.node.listener import Listener, listening, own_address
from rsctl.node.mpi import protocol
from rsctl.node.rank import STOP_SIGNALS
from rsctl.node.threads import stop_signals_blocked

_WAKE_SECONDS = 0.5
_MOST_LINE = 100


class Start(NamedTuple):
    """How a slot begins: the port of its rendezvous, and a number that grows from slot to slot."""

    port: int
    epoch: int


class Meeting:
    """This node's part of it. Signals to stop must be blocked in the calling thread."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        """Raises LaunchError if the nodes cannot reach each other."""
        self._cluster, self._main = cluster, threading.get_ident()
        self._lock = threading.Lock()
        self._ready = dict.fromkeys(range(len(cluster.workers)), -1)
        self._socks: list[socket.socket] = []
        self._start: tuple[int, Start] = (-1, Start(0, 0))
        self._slot, self._failed, self._lost = -1, -1, ""
        if len(cluster.workers) == 1:
            return
        token = environ.get("RSCTL_TOKEN", "").encode()
        if not token:
            message = "a packed job of several nodes needs RSCTL_TOKEN"
            raise LaunchError(USAGE, "slots-token", message, "Submit the job with rsctl.")
        identity = protocol.Identity(token, environ.get("RSCTL_RUN", ""), 0)
        with stop_signals_blocked():
            if cluster.index == 0:
                self._listen(identity)
            else:
                self._connect(identity, peer_timeout(cluster, environ))

    @property
    def must_end(self) -> bool:
        """Whether the present slot must end, because a node has failed or is lost."""
        return self._failed >= self._slot or bool(self._lost)

    def enter(self, slot: int) -> Start | None:
        """Wait until all nodes are ready for a slot; None for a signal to stop. Raises LaunchError
        if a node is lost.
        """
        self._slot = slot
        if self._cluster.index == 0:
            self._note_ready(0, slot)
        else:
            self._send(f"ready {slot}")
        while True:
            started, start = self._start
            if started == slot:
                return start
            self.require_all()
            received = signal.sigtimedwait((*STOP_SIGNALS, signal.SIGCHLD), _WAKE_SECONDS)
            if received is not None and received.si_signo != signal.SIGCHLD:
                return None

    def ended(self, slot: int, code: int) -> None:
        """Tell the others if the command of this node has failed in a slot."""
        if code == 0:
            return
        if self._cluster.index == 0:
            self._note_failed(slot)
        else:
            self._send(f"failed {slot}")

    def require_all(self) -> None:
        """Raise LaunchError if a node is lost."""
        if self._lost:
            message = f"{self._lost} is lost: the connection between the nodes has ended"
            remedy = "See the log of that node. What has not run is run in the next job."
            raise LaunchError(TEMPORARY, "slots-lost", message, remedy)

    def _listen(self, identity: protocol.Identity) -> None:
        with listening("slots-address", self._cluster.port, ", where nodes meet"):
            Listener(
                (own_address(self._cluster), self._cluster.port),
                lambda sock, known: self._serve(sock, known, identity),
            )

    def _serve(
        self, sock: socket.socket, known: Callable[[], None], identity: protocol.Identity
    ) -> None:
        with suppress(OSError, ValueError, UnicodeError):
            fields, answer = protocol.receive(sock, identity)
            index = fields.get("index")
            if index not in self._ready or index == 0:
                return
            known()
            sock.sendall(answer)
            with self._lock:
                self._socks.append(sock)
            self._follow(sock, f"worker-{index}", lambda words: self._from_worker(index, words))

    def _connect(self, identity: protocol.Identity, timeout: float) -> None:
        address = self._cluster.chief, self._cluster.port
        fields = {"index": self._cluster.index}
        try:
            sock = protocol.request_within(timeout, address, identity, fields)
        except (OSError, UnicodeError) as error:
            message = f"after {timeout:g} s the chief, {address[0]}, does not answer: {error}"
            remedy = "Check whether that node started, and whether a firewall is between."
            raise LaunchError(TEMPORARY, "peers-silent", message, remedy) from error
        self._socks.append(sock)
        follow = threading.Thread(
            target=self._follow, args=(sock, "worker-0", self._from_chief), daemon=True
        )
        follow.start()

    def _follow(self, sock: socket.socket, name: str, take: Callable[[list[str]], None]) -> None:
        """Take the lines of a node until its connection ends."""
        with suppress(OSError, ValueError), sock.makefile(encoding="ascii") as lines:
            while line := lines.readline(_MOST_LINE):
                take(line.split())
        self._lost = self._lost or name
        self._wake()

    def _from_worker(self, index: int, words: list[str]) -> None:
        what, slot = words
        if what == "ready":
            self._note_ready(index, int(slot))
        elif what == "failed":
            self._note_failed(int(slot))

    def _from_chief(self, words: list[str]) -> None:
        numbers = [int(word) for word in words[1:]]
        if words[0] == "start":
            self._start = numbers[0], Start(numbers[1], numbers[2])
        elif words[0] == "end":
            self._failed = max(self._failed, numbers[0])
        self._wake()

    def _note_ready(self, index: int, slot: int) -> None:
        """The chief begins a slot when all nodes are ready for it."""
        with self._lock:
            self._ready[index] = slot
            started, before = self._start
            if started == slot or set(self._ready.values()) != {slot}:
                return
            epoch = max(before.epoch + 1, int(time.time()))
            self._start = slot, Start(self._free_port(), epoch)
        self._send(f"start {slot} {self._start[1].port} {epoch}")
        self._wake()

    def _note_failed(self, slot: int) -> None:
        self._failed = max(self._failed, slot)
        self._send(f"end {slot}")
        self._wake()

    def _free_port(self) -> int:
        is_alone = len(self._cluster.workers) == 1
        address = "127.0.0.1" if is_alone else own_address(self._cluster)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((address, 0))
            return int(probe.getsockname()[1])

    def _send(self, line: str) -> None:
        for sock in list(self._socks):
            with suppress(OSError):  # its reader notices that it is lost
                sock.sendall(f"{line}\n".encode())

    def _wake(self) -> None:
        """Have the main thread look again; SIGCHLD is the one signal that it waits for anyway."""
        signal.pthread_kill(self._main, signal.SIGCHLD)
