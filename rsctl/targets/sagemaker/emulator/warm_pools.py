"""Warm pools: machines that are kept after a job, and taken by the next one that is like it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.hosts import groups_of
from rsctl.targets.sagemaker.emulator.job_record import JobRecord

_KEEP = "KeepAlivePeriodInSeconds"
_OF_JOB = (
    *("RoleArn", "VpcConfig", "EnableNetworkIsolation"),
    "EnableInterContainerTrafficEncryption",
)
_OF_MACHINES = ("VolumeKmsKeyId", "VolumeSizeInGB")


@dataclass
class _WarmPool:
    """Kept from `since` to `until`, times of the monotonic clock, for what is like `likeness`."""

    likeness: tuple[Any, ...]
    since: float
    until: float
    reused_by: str = ""


class WarmPools:
    """The pools of an account, by the job that has left them."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._pools: dict[str, _WarmPool] = {}
        self._lock = threading.Lock()

    def keep(self, record: JobRecord) -> None:
        """Keep the machines of a job that has ended, if it has asked for that and within the
        quota.
        """
        resources = record["ResourceConfig"]
        seconds = resources.get(_KEEP, 0)
        machines = groups_of(resources)[0]  # instance groups have no warm pool
        quota = f"{machines.machine} for training warm pool usage"
        if seconds and self._behaviour.quotas.get(quota, math.inf) >= machines.size:
            now = time.monotonic()
            until = now + seconds * self._behaviour.pace
            with self._lock:
                self._pools[record.name] = _WarmPool(_likeness(record.copy()), now, until)

    def take(self, body: Mapping[str, Any]) -> bool:
        """Let a new job have machines that are kept; whether there were any for it."""
        with self._lock:
            for name, pool in self._pools.items():
                if pool.likeness == _likeness(body) and self._is_available(name):
                    pool.until = time.monotonic()
                    pool.reused_by = str(body["TrainingJobName"])
                    return True
        return False

    def change(self, name: str, seconds: int) -> None:
        """Keep a job's machines for so long from its end on."""
        with self._lock:
            if self._is_available(name):
                pool = self._pools[name]
                pool.until = pool.since + seconds * self._behaviour.pace

    def status(self, record: JobRecord) -> dict[str, Any]:
        """DescribeTrainingJob's fields on a job's kept machines, {} if none are kept."""
        with self._lock:
            pool = self._pools.get(record.name)
            if pool is None:
                is_kept = record["ResourceConfig"].get(_KEEP) and not record.has_ended
                return {"WarmPoolStatus": {"Status": "InUse"}} if is_kept else {}
            kept = min(pool.until, time.monotonic()) - pool.since
            shown: dict[str, Any] = {"Status": "Terminated"}
            if self._is_available(record.name):
                shown = {"Status": "Available"}
            elif pool.reused_by:
                shown = {"Status": "Reused", "ReusedByJob": pool.reused_by}
            shown["ResourceRetainedBillableTimeInSeconds"] = max(0, int(kept))
            return {"WarmPoolStatus": shown}

    def _is_available(self, name: str) -> bool:
        pool = self._pools.get(name)
        return pool is not None and not pool.reused_by and time.monotonic() < pool.until


def _likeness(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """The properties that must be equal for machines to be reused."""
    resources = body["ResourceConfig"]
    of_job = [body.get(name) or None for name in _OF_JOB]
    return (*of_job, *groups_of(resources), *(resources.get(name) for name in _OF_MACHINES))
