"""The process that measures this node, and the time that it may take."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

import rsctl_start

LIMIT_SECONDS = 20.0
"""For all measurements of a node together."""


class Measurer:
    """Starts the process. Leave the context to end it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises OSError if it cannot be started."""
        self.until = time.monotonic() + LIMIT_SECONDS
        command = [*rsctl_start.command("rsctl.node.health.measure"), str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            env={**environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def measure(self) -> dict[str, float] | None:
        """One round of readings; None if the process has ended, or takes too long."""
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        output, line = self._process.stdout.fileno(), b""
        try:
            os.write(self._process.stdin.fileno(), b"\n")
            while not line.endswith(b"\n"):
                left = self.until - time.monotonic()
                if left <= 0 or not select.select([output], [], [], left)[0]:
                    return None
                piece = os.read(output, 1 << 16)
                if not piece:
                    return None
                line += piece
            readings = json.loads(line)
        except (OSError, ValueError):
            return None
        return readings if isinstance(readings, dict) else None
