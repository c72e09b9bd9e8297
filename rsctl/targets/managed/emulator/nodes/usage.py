"""The resource usage of nodes that print no telemetry, in the fields of rsctl's own."""

from __future__ import annotations

import json
import re
import subprocess

_SIZE = re.compile(r"([\d.]{1,20})\s?([kKMGT]?)(i?)B")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_SECONDS = 20.0


def container_usage(container: str) -> dict[str, object]:
    """The resource usage of a container, by `docker stats`; empty if it no longer runs."""
    argv = ["docker", "stats", "--no-stream", "--format", "{{json .}}", container]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
        return parse_stats(done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        return {}


def parse_stats(text: str) -> dict[str, object]:
    """One line of `docker stats --format '{{json .}}'`; empty if it is not one."""
    try:
        shown = json.loads(text)
        cpu = float(str(shown["CPUPerc"]).removesuffix("%"))
        used, (received, sent) = _sizes(shown["MemUsage"])[0], _sizes(shown["NetIO"])
    except (ValueError, KeyError, TypeError, IndexError):
        return {}
    return {
        "cpu_percent": cpu,
        "rss_bytes": used,
        "net_rx_bytes": received,
        "net_tx_bytes": sent,
    }


def _sizes(text: str) -> list[int]:
    """Bytes of `1.5MiB / 7.6GiB` and `1.2kB / 0B`."""
    return [
        int(float(number) * (1024 if binary else 1000) ** _POWERS[unit])
        for number, unit, binary in _SIZE.findall(text)
    ]
