"""A worker's side of launcher mpi: it starts MPI's daemon when the chief asks. See protocol.py."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

from rsctl.node import process_tree
from rsctl.node.cluster import Cluster
from rsctl.node.environment import peer_timeout
from rsctl.node.errors import TEMPORARY, LaunchError
from rsctl.node.listener import Listener, listening, own_address
from rsctl.node.mpi import protocol
from rsctl.node.mpi.mpirun import require_token
from rsctl.node.platforms import LOCAL
from rsctl.node.rank import STOP_SIGNALS

_END_SECONDS = 30.0
"""How long a daemon that has been asked to end may take; torchrun gives its ranks as long."""

_PIECE_BYTES = 1 << 15
_DRAIN_SECONDS = 2.0
_STOP_SECONDS = 5.0
_CHIEF_LOST = 1


class Starter:
    """Listens for the chief, and starts daemons for it from when it holds this node until it ends.

    `environ` is what they get. Raises LaunchError if it cannot listen.
    """

    def __init__(self, cluster: Cluster, environ: Mapping[str, str]) -> None:
        token = require_token(environ)
        self._identity = protocol.Identity(token, environ.get("RSCTL_RUN", ""), cluster.index)
        self._environ = dict(environ)
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._is_held = threading.Event()
        self._has_ended = threading.Event()
        self._code: int | None = None
        with listening("starter-address", cluster.port, ", where the chief starts MPI"):
            Listener((own_address(cluster), cluster.port), self._serve)

    def wait(self, timeout: float) -> int | None:
        """Wait for the chief, `timeout` seconds at most, and for its end.

        Returns the exit code that the chief told, None if it was lost. Raises LaunchError if it
        does not come.
        """
        if not self._is_held.wait(timeout):
            message = f"after {timeout:g} s the chief has not requested this node's part"
            remedy = "See the chief's log; a slow start needs a longer RSCTL_RESOLVE_SECONDS."
            raise LaunchError(TEMPORARY, "peers-silent", message, remedy)
        self._has_ended.wait()
        return self._code

    def close(self) -> None:
        """Start no more, and end the daemons, which end their ranks; kill what does not react."""
        with self._lock:
            self._has_ended.set()
            daemons = list(self._daemons)
        for daemon in daemons:
            _send(daemon, signal.SIGTERM)
        for daemon in daemons:
            try:
                daemon.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                _send(daemon, signal.SIGKILL)

    def _serve(self, sock: socket.socket, authenticated: Callable[[], None]) -> None:
        with suppress(OSError, ValueError):
            fields, answer = protocol.receive(sock, self._identity)
            authenticated()
            if "daemon" in fields:
                daemon = self._start(fields["daemon"])
                sock.sendall(answer)
                self._follow(daemon, sock)
            elif not self._is_held.is_set():
                self._is_held.set()  # mpirun may ask for a daemon as soon as the chief is answered
                try:
                    sock.sendall(answer)
                except OSError:
                    self._is_held.clear()
                    raise
                self._hold(sock)

    def _hold(self, sock: socket.socket) -> None:
        try:
            word, _, code = sock.makefile(encoding="ascii").readline(64).partition(" ")
            self._code = int(code) if word == "end" else None
        finally:
            self._has_ended.set()

    def _start(self, command: object) -> subprocess.Popen[bytes]:
        """Start a daemon, in a session of its own. Raises ValueError for anything else."""
        program = _daemon(command)
        with self._lock:
            if not self._is_held.is_set() or self._has_ended.is_set():
                raise ValueError("the job does not run")
            daemon = subprocess.Popen(
                program,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=_unblock_signals,
            )
            self._daemons.append(daemon)
        return daemon

    def _follow(self, daemon: subprocess.Popen[bytes], sock: socket.socket) -> None:
        """Send what it writes and its exit code; end it when the connection ends."""
        assert daemon.stdout is not None  # noqa: S101
        assert daemon.stderr is not None  # noqa: S101
        lock = threading.Lock()
        pumps = [
            threading.Thread(target=_pump, args=(pipe, sock, kind, lock), daemon=True)
            for pipe, kind in ((daemon.stdout, protocol.STDOUT), (daemon.stderr, protocol.STDERR))
        ]
        for thread in pumps:
            thread.start()
        threading.Thread(target=_end_with_connection, args=(daemon, sock), daemon=True).start()
        code = daemon.wait()
        for thread in pumps:
            thread.join(_DRAIN_SECONDS)
        with lock:
            protocol.send_frame(
                sock, protocol.EXIT, str(code if code >= 0 else 128 - code).encode()
            )


def run_for_chief(cluster: Cluster, environ: Mapping[str, str]) -> int:
    """Start daemons for the chief until the job has ended; returns this node's exit code.

    That is 0 if the chief has told its own: it speaks for the job, whichever rank failed. A stop
    signal ends the daemons. Raises LaunchError if the chief does not come.
    """
    starter = Starter(cluster, environ)
    try:
        code = starter.wait(peer_timeout(cluster, environ))
    finally:
        starter.close()
        process_tree.kill_descendants()
    if code is None:
        # In the words that distinguish the first failure from its consequences.
        print("rsctl: Connection closed by peer: the chief has gone", file=sys.stderr)
        return _CHIEF_LOST
    if code != 0 and cluster.platform == LOCAL:
        threading.Event().wait(_STOP_SECONDS)  # the platform or supervisor stops this node
    return 0


def _daemon(command: object) -> list[str]:
    """A daemon's command line, its program found where this node's mpirun is."""
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ValueError("this is not a valid command line")
    if not command or command[0] not in protocol.DAEMONS:
        raise ValueError(f"only {' and '.join(protocol.DAEMONS)} can be started")
    beside = os.path.dirname(os.path.realpath(shutil.which("mpirun") or ""))
    program = shutil.which(command[0]) or os.path.join(beside, command[0])
    return [program, *command[1:]]


def _unblock_signals() -> None:
    """In the child: the threads of this process hold the stop signals back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGCHLD))


def _pump(pipe: IO[bytes], sock: socket.socket, kind: int, lock: threading.Lock) -> None:
    with suppress(OSError, ValueError):
        while data := os.read(pipe.fileno(), _PIECE_BYTES):
            with lock:
                protocol.send_frame(sock, kind, data)


def _end_with_connection(daemon: subprocess.Popen[bytes], sock: socket.socket) -> None:
    with suppress(OSError):
        sock.recv(1)  # Nothing comes.
    if daemon.poll() is None:
        _send(daemon, signal.SIGTERM)


def _send(daemon: subprocess.Popen[bytes], signum: int) -> None:
    with suppress(OSError):
        if daemon.poll() is None:
            os.killpg(daemon.pid, signum)
