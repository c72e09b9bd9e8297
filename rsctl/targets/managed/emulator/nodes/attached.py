"""A command that runs in place of a node: its lines, then its exit code, go to a listener."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import NamedTuple, Optional

from rsctl.node.exec_errors import encoded
from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.nodes import NodeListener

_BLOCK = 1 << 16
_LONGEST_LINE = 256 << 10
_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 30.0


class NodeCommand(NamedTuple):
    """The process to start: arguments, working directory, the whole environment (None: this
    one's).
    """

    argv: list[str]
    cwd: Optional[str] = None
    env: Optional[dict[str, str]] = None


class AttachedCommand:
    """A running command. `conclude` makes a node's exit code of the command's (-N: signal N).

    It is called when the command has ended, and sees to it that nothing else of the node is left.
    Raises OSError if the command cannot be started.
    """

    def __init__(
        self,
        node: str,
        command: NodeCommand,
        listener: NodeListener,
        conclude: Callable[[int], int],
    ) -> None:
        self._node = node
        self._listener = listener
        self._conclude = conclude
        self._ended = threading.Event()
        self._read_until: float | None = None
        env = command.env
        self.process = subprocess.Popen(
            [encoded(word) for word in command.argv],
            cwd=command.cwd,
            env=None if env is None else {encoded(n): encoded(v) for n, v in env.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether its exit has not been reported yet."""
        return not self._ended.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until its exit is reported; whether it was."""
        return self._ended.wait(seconds)

    def _wait(self) -> None:
        code = self._conclude(self.process.wait())
        # The pipes end now, unless something that has left the node holds one open.
        self._read_until = monotonic() + _DRAIN_SECONDS
        self._reader.join()
        try:
            self._listener.ended(self._node, code)
        finally:
            self._ended.set()

    def _read(self) -> None:
        pipes = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        rests = dict.fromkeys(pipes, b"")
        with DefaultSelector() as selector:
            for stream, pipe in pipes.items():
                selector.register(pipe, EVENT_READ, stream)  # type: ignore[arg-type]
            while selector.get_map():
                until = self._read_until  # as it is before: the last lines may come in between
                ready = selector.select(_POLL_SECONDS)
                if until and (not ready or monotonic() > until):
                    break
                for key, _ in ready:
                    block = os.read(key.fd, _BLOCK)
                    if block:
                        rests[key.data] = self._emit_lines(key.data, rests[key.data] + block)
                    else:
                        selector.unregister(key.fileobj)
        for stream, pipe in pipes.items():
            if rests[stream]:
                self._line(stream, rests[stream], now())
            if pipe:
                pipe.close()

    def _emit_lines(self, stream: str, content: bytes) -> bytes:
        """Pass the whole lines to the listener; returns the rest."""
        *lines, rest = content.split(b"\n")
        time = now()
        for line in lines:
            self._line(stream, line, time)
        if len(rest) > _LONGEST_LINE:
            self._line(stream, rest, time)
            return b""
        return rest

    def _line(self, stream: str, line: bytes, time: str) -> None:
        for start in range(0, len(line) or 1, _LONGEST_LINE):
            piece = line[start : start + _LONGEST_LINE].decode(errors="replace")
            self._listener.line(self._node, stream, piece, time)
