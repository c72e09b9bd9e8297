"""The summaries of profiles of a run's ranks, in the store."""

from __future__ import annotations

import msgspec

from rsctl.runs.store import Store
from rsctl.runs.stream.profiles import RankProfile


def keep_profile(store: Store, run: str, profile: RankProfile) -> None:
    """Record the summary of a rank; the last report counts. Raises StoreError."""
    text = msgspec.json.encode(profile).decode()
    statement = "INSERT OR REPLACE INTO profiles (run, rank, record) VALUES (?, ?, ?)"
    store.write(statement, run, profile.rank, text)


def profiles_of(store: Store, run: str) -> list[RankProfile]:
    """The summaries of a run by rank. Raises StoreError."""
    rows = store.rows("SELECT record FROM profiles WHERE run=? ORDER BY rank", run)
    return [msgspec.json.decode(text, type=RankProfile) for (text,) in rows]
