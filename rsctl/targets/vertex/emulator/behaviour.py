"""How an emulated project behaves, good days and bad ones; all of it can be changed at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour


@dataclass
class Behaviour(EmulatorBehaviour):
    """Simulated waits are in seconds and times `pace`, which also scales the minutes of rates.

    Stages of a job: `queue` is how long it is QUEUED, `provision` until its first machine is there,
    `stagger` until each next one is, `restart` until a container runs again, `error_delay` from the
    end until `error` is filled in: users' failed jobs have it at once. Containers have `grace` real
    seconds to end after SIGTERM; how long the service gives is not documented, nor is
    `timeout_state`, what a job is after its timeout.

    What can go wrong: `quotas` are limits by metric (`custom_model_training_cpus`), and a job
    beyond them is left QUEUED (`over_quota` "queue") or not created ("refuse"). The next
    `stockouts` attempts at getting machines find none; -1 is for ever. `stockouts_in` and
    `no_quota_in` are places, such as us-central1, n1-standard-8 or us-central1/n1-standard-8, where
    there are never machines, and where the quota is zero. Of the next
    `preemptions` times that a job is RUNNING, each loses its last machine after `preempt_after`, -1
    is for ever: on SPOT machines that is a preemption, on others a machine that fails.
    `persistent_resources` are there, all other ids are not.

    Rates are requests a minute: `log_reads` of the project's log, `submissions` of creates and
    deletes, `calls` of all calls to jobs.

    Measurements can be read `measure` after they were taken.

    Logs: an entry can be read `ingest` after it was written; of all entries each `late_every`-th
    only `late_by` later, and each `twice_every`-th comes twice; 0 is none. `shuffle` puts a page's
    entries into another order, each `empty_every`-th page is empty and leads on to the next. Plain
    lines are `textPayload`, or with `payload` "json" the message of a `jsonPayload`.
    """

    pace: float = 1.0
    queue: float = 5.0
    provision: float = 60.0
    stagger: float = 10.0
    restart: float = 10.0
    error_delay: float = 0.0
    grace: float = 30.0
    timeout_state: Literal["JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"] = (
        "JOB_STATE_FAILED"
    )
    quotas: dict[str, int] = field(default_factory=dict)
    over_quota: Literal["queue", "refuse"] = "queue"
    stockouts: int = 0
    stockouts_in: list[str] = field(default_factory=list)
    no_quota_in: list[str] = field(default_factory=list)
    preemptions: int = 0
    preempt_after: float = 20.0
    persistent_resources: list[str] = field(default_factory=list)
    log_reads: int = 60
    submissions: int = 60
    calls: int = 600
    measure: float = 120.0
    ingest: float = 3.0
    late_every: int = 0
    late_by: float = 20.0
    twice_every: int = 0
    shuffle: bool = False
    empty_every: int = 0
    payload: Literal["text", "json"] = "text"
