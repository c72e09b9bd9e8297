"""Asks a launcher on this machine for a report, which comes into its log."""

from __future__ import annotations

import os
from collections.abc import Mapping

EVIDENCE_DIR = "RSCTL_EVIDENCE_DIR"
"""The variable with the folder for evidence; by default a folder of the outputs."""


def request_pipe(environ: Mapping[str, str]) -> str:
    """The named pipe by which a replica on this machine, or in this container, is asked."""
    replica = environ.get("RSCTL_REPLICA", "node")
    folder = environ.get("TMPDIR")
    if not folder:
        import tempfile  # supervisors do without

        folder = tempfile.gettempdir()
    return os.path.join(folder, f"rsctl-ask-{replica}")


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
