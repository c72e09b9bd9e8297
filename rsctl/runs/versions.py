"""Versions and machine of each replica of a run, as its runtime reports them."""

from __future__ import annotations

import msgspec

from rsctl.runs.records import replica_order
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import record_of

KNOWN = (
    *("rsctl", "python", "torch", "nccl", "driver", "gpu", "gpu_clock", "cpu", "cores", "clock"),
    "kernel",
)
"""The names that a `versions` line may have."""

_LONGEST = 200


def reported_versions(line: LogEvent) -> dict[str, str] | None:
    """The versions in a line of the runtime; None for other lines.

    Any program can print such a line: unknown names and values that are not texts are left out.
    """
    record = record_of(line.text, "versions")
    if not record:
        return None
    texts = {name: record.get(name) for name in KNOWN if name != "rsctl"}
    texts["rsctl"] = record.get("rsctl_version")
    return {n: sanitize_line(t)[:_LONGEST] for n, t in texts.items() if isinstance(t, str) and t}


def keep_versions(store: Store, run: str, replica: str, versions: dict[str, str]) -> None:
    """Record a replica's versions and machine; the last report counts. Raises StoreError."""
    text = msgspec.json.encode(versions).decode()
    statement = "INSERT OR REPLACE INTO versions (run, replica, versions) VALUES (?, ?, ?)"
    store.write(statement, run, replica, text)


def versions_of(store: Store, run: str) -> dict[str, dict[str, str]]:
    """The versions and machine of each replica, in the replicas' order. Raises StoreError."""
    rows = store.rows("SELECT replica, versions FROM versions WHERE run=?", run)
    ordered = sorted(rows, key=lambda row: replica_order(row[0]))
    return {replica: msgspec.json.decode(text, type=dict[str, str]) for replica, text in ordered}
