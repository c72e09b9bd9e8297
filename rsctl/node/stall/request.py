"""Asks a launcher on this machine for a report, which comes into its log."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rsctl.node.stall.agent import request_pipe


def send_request(number: int, environ: Mapping[str, str]) -> bool:
    """Ask for the report of this number; whether a launcher listens."""
    try:
        pipe = os.open(request_pipe(environ), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.write(pipe, f"{number}\n".encode())
    except OSError:
        return False
    finally:
        os.close(pipe)
    return True
