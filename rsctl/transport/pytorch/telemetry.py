"""Telemetry lines: the counters of the transport, at an interval and at the end."""

from __future__ import annotations

import threading

from rsctl.transport import Transport
from rsctl.transport.pytorch.report import emit, rank

_INTERVAL_SECONDS = 10.0


class Telemetry:
    """Prints a `telemetry` line every ten seconds, from a thread, and a last one at the end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._over = threading.Event()
        threading.Thread(target=self._run, name="rsctl-telemetry", daemon=True).start()

    def end(self) -> None:
        """Print the last line."""
        self._over.set()
        self._print()

    def _run(self) -> None:
        while not self._over.wait(_INTERVAL_SECONDS):
            self._print()

    def _print(self) -> None:
        """All numbers count from the start. Bytes are those on this rank's connections.

        `busy_seconds` are those in which a gradient was under way, `stalled_seconds` those of them
        in which a full window kept the next block back; `gbit_per_second` is what was sent while
        busy.
        """
        stats = self._transport.stats()
        rate = stats.bytes_out * 8e-9 / stats.busy if stats.busy else 0.0
        emit(
            "telemetry",
            {
                "transport": {
                    "rank": rank(),
                    "operations": stats.operations,
                    "reduced_bytes": stats.reduced,
                    "sent_bytes": stats.bytes_out,
                    "received_bytes": stats.bytes_in,
                    "busy_seconds": round(stats.busy, 3),
                    "stalled_seconds": round(stats.stalled, 3),
                    "gbit_per_second": round(rate, 3),
                }
            },
        )
