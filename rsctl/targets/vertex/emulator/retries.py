"""Vertex AI's reaction to an exit, a lost machine or a stock-out, from its documentation."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

TRANSIENT = (6, 134, 11, 139)
"""Exit codes after SIGABRT and SIGSEGV: all others are the program's own and permanent."""

_IN_PLACE = 5
_WHOLE_JOB = 3
_INTERNAL = 2
"""Restarts after an error of the service's own, such as a lost machine: three attempts in all.

Source: "Understand the custom training service", Internal errors; a public log of them is
https://github.com/GoogleCloudPlatform/t5x-on-vertex-ai/issues/2.
"""

_STOCKOUTS = {"SPOT": 6}


class Retries:
    """Counts one job's retries by its `scheduling`."""

    def __init__(self, scheduling: dict[str, Any]) -> None:
        self.strategy = scheduling.get("strategy", "STANDARD")
        self._is_disabled = bool(scheduling.get("disableRetries"))
        self._with_all = bool(scheduling.get("restartJobOnWorkerRestart")) and not self._is_disabled
        self._of_replica: Counter[str] = Counter()
        self._of_job = self._lost = 0
        self._without_machines = 0

    def after_exit(self, task: str, code: int) -> Literal["replica", "job", "none"]:
        """The part of the job that restarts after a replica's non-zero exit."""
        if code not in TRANSIENT or self._is_disabled:
            return "none"
        self._of_replica[task] += 1
        if self._of_replica[task] <= _IN_PLACE:
            return "job" if self._with_all else "replica"
        return "job" if self._whole_job() else "none"

    def after_loss(self) -> bool:
        """Whether the job starts again after a machine was lost."""
        if self.strategy == "SPOT":
            return self.after_stockout()
        self._lost += 1
        self._of_replica.clear()
        return not self._is_disabled and self._lost <= _INTERNAL

    def after_stockout(self) -> bool:
        """Whether the job looks for machines again."""
        self._without_machines += 1
        return self._without_machines <= _STOCKOUTS.get(self.strategy, _WHOLE_JOB)

    def _whole_job(self) -> bool:
        self._of_job += 1
        self._of_replica.clear()
        return self._of_job <= _WHOLE_JOB
