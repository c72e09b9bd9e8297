"""The state of one job as the API shows it; written by the job's thread, read by requests."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rsctl.runs.stream.events import now
from rsctl.targets.vertex.emulator.reduction_server import Kind

ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")


@dataclass
class JobRecord:
    """One job. `shown` is the CustomJob, `demand` its use of quotas once it is admitted."""

    job_id: str
    region: str
    shown: dict[str, Any]
    demand: Counter[str]
    stand_in: Kind = "none"
    is_admitted: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def state(self) -> str:
        """The state, by name."""
        return str(self.shown["state"])

    @property
    def machines(self) -> set[str]:
        """The machine types of its pools."""
        pools = filter(None, self.shown["jobSpec"]["workerPoolSpecs"])
        return {pool.get("machineSpec", {}).get("machineType", "") for pool in pools}

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED

    def copy(self) -> dict[str, Any]:
        """All of it as it is now."""
        with self._lock:
            return dict(self.shown)

    def change(self, **fields: Any) -> None:
        """Set fields."""
        with self._lock:
            self.shown = {**self.shown, **fields, "updateTime": now()}

    def enter(self, state: str) -> None:
        """Change the state; the first RUNNING sets the start time."""
        more = {}
        if state == "JOB_STATE_RUNNING" and "startTime" not in self.shown:
            more = {"startTime": now(), **self._web_access()}
        self.change(state=state, **more)

    def end(self, state: str, **fields: Any) -> None:
        """Change to a final state and set other fields at once with it."""
        self.change(state=state, endTime=now(), **fields)

    def _web_access(self) -> dict[str, Any]:
        """URIs of web shells in the containers; nothing answers there."""
        spec = self.shown["jobSpec"]
        if not spec.get("enableWebAccess"):
            return {}
        tasks = [
            f"workerpool{number}-{index}"
            for number, pool in enumerate(spec["workerPoolSpecs"])
            for index in range(int(pool.get("replicaCount", "1")) if pool else 0)
        ]
        base = f"https://web-access.invalid/{self.job_id}"
        return {"webAccessUris": {task: f"{base}/{task}" for task in tasks}}
