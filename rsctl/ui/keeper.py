"""Brings unfinished runs up to date in the background, as every command does that reads them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from time import monotonic

from rsctl.api import Finding, RsctlError, Store
from rsctl.api.reconcile import reconcile_all
from rsctl.runs.records import RunSummary

_POLL_SECONDS = 1.0
_CLOUD_SECONDS = 20.0
"""The time between two questions about a run in a cloud, which limits requests."""

_LOCAL = frozenset({"process", "compose"})


class Keeper:
    """A thread that reconciles runs until it is closed; `outdated` is why a run may be stale."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.outdated: dict[str, Sequence[Finding]] = {}
        self._due: dict[str, float] = {}
        self._thread = threading.Thread(target=self._work, name="rsctl-ui-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End, after what is in progress, which may be a request to a cloud."""
        self.stop.set()
        self._thread.join(timeout)

    def _work(self) -> None:
        while not self.stop.wait(_POLL_SECONDS):
            try:
                self._keep()
            except RsctlError:  # of the store; the pages show it
                continue

    def _keep(self) -> None:
        with closing(Store()) as store:
            due = {run.run for run in store.index() if run.ended is None and self._is_due(run)}
            for run in store.unfinished() if due else ():
                if run.run in due and not self.stop.is_set():
                    self.outdated.pop(run.run, None)
                    reconcile_all([run], self.outdated.__setitem__)

    def _is_due(self, run: RunSummary) -> bool:
        pause = _POLL_SECONDS if run.target in _LOCAL else _CLOUD_SECONDS
        if monotonic() < self._due.get(run.run, 0.0):
            return False
        self._due[run.run] = monotonic() + pause
        return True
