"""A server that takes connections and answers in its own time, or not at all."""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class SilentServer:
    """Accepts connections and never answers."""

    def __enter__(self) -> SilentServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def _serve(self) -> None:
        while True:
            try:
                self._held.append(self._socket.accept()[0])
            except OSError:
                return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._socket.close()
        for held in self._held:
            held.close()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
