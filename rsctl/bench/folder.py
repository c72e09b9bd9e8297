"""The folder of a bench: the lock of the process that drives it, and what that one has to say."""

from __future__ import annotations

from rsctl.runs.home import home
from rsctl.runs.locks import is_locked, try_lock


class BenchFolder:
    """Paths and lock of one bench.

    driver.lock   held by the process that starts its runs
    driver.log    what a detached driver had to say
    gate.json     the last decision of a gate about it
    """

    def __init__(self, bench: str) -> None:
        self.path = home() / "benches" / bench
        self.log = self.path / "driver.log"
        self.decision = self.path / "gate.json"
        self._lock_path = self.path / "driver.lock"

    def lock(self) -> int | None:
        """Take the lock; its file descriptor, or None if another process drives the bench.

        The lock is released when its holder ends for any reason. Raises OSError.
        """
        self.path.mkdir(parents=True, mode=0o700, exist_ok=True)
        return try_lock(self._lock_path)

    def is_driven(self) -> bool:
        """Whether a process drives the bench."""
        return is_locked(self._lock_path)
