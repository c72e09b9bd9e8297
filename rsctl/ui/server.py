"""The server of `rsctl ui`: listens on loopback, in a thread."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.installation import needs_extra

_HOST = "127.0.0.1"
_CLOSE_SECONDS = 2


class Served(NamedTuple):
    """A running server: its address with the token, and without it."""

    url: str
    address: str


@contextmanager
def serve(port: int = 0, token_file: Path | None = None) -> Iterator[Served]:
    """Serve the page until the context ends; port 0 is a free one.

    The token is in `token_file`, or a new one. Raises RsctlError if the extra `ui` is not
    installed, the file is not usable, or the port is taken.
    """
    with needs_extra("ui", "ui", "rsctl ui needs starlette and uvicorn"):
        import starlette  # noqa: F401
        import uvicorn
    from rsctl.ui.guard import Guard
    from rsctl.ui.keeper import Keeper
    from rsctl.ui.routes import make_app
    from rsctl.ui.token import make_token

    token = make_token(token_file)
    listener = _listen(port)
    number = listener.getsockname()[1]
    keeper = Keeper()
    guard = Guard(make_app(keeper), number, token)
    config = uvicorn.Config(
        guard,
        http="h11",  # httptools has no limit for the length of a header
        log_config=None,
        log_level="error",  # other users of this machine can send malformed requests
        access_log=False,  # it would contain the token
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="rsctl-ui", daemon=True)
    thread.start()
    keeper.start()
    address = f"http://{_HOST}:{number}/"
    try:
        yield Served(f"{address}?token={token}", address)
    finally:
        keeper.stop.set()  # ends the streams
        server.should_exit = True
        thread.join(2 * _CLOSE_SECONDS)
        keeper.close(_CLOSE_SECONDS)
        listener.close()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port), backlog=128)
    except OSError as problem:
        message = f"cannot listen on {_HOST}:{port}: {os.strerror(problem.errno or 0)}"
        finding = error("port", message, "choose another port with --port, or leave it out")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
