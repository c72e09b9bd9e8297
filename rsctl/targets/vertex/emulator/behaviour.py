"""The behaviour of an emulated project; every field can be changed while it serves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour


@dataclass
class Behaviour(EmulatorBehaviour):
    """The settings of Vertex AI's emulator beyond `EmulatorBehaviour`.

    Stages of a job: it is QUEUED for `queue`; its first machine comes after `provision` and each
    further one after `stagger`; a container that restarts is down for `restart`. `error` is filled
    in `error_delay` after the end; failed jobs of users had it at once. Containers have `grace`
    real seconds to end after SIGTERM. Google documents neither that time nor `timeout_state`, the
    state of a job after its timeout.

    Quotas have the name of their metric, such as `custom_model_training_cpus`. A job beyond them
    stays QUEUED (`over_quota` "queue") or is not created ("refuse"); where the quota is zero
    (`no_quota_in`), it is never created. On SPOT machines a
    preemption is one; on other machines the machine fails. Only `persistent_resources` exist.

    Rates are requests a minute: `log_reads` of the project's log, `submissions` of creates and
    deletes, `calls` of all calls to jobs. Plain lines are `textPayload`, or with `payload` "json"
    the message of a `jsonPayload`.
    """

    queue: float = 5.0
    provision: float = 60.0
    stagger: float = 10.0
    restart: float = 10.0
    error_delay: float = 0.0
    grace: float = 30.0
    timeout_state: Literal["JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"] = (
        "JOB_STATE_FAILED"
    )
    over_quota: Literal["queue", "refuse"] = "queue"
    persistent_resources: list[str] = field(default_factory=list)
    log_reads: int = 60
    submissions: int = 60
    calls: int = 600
    payload: Literal["text", "json"] = "text"
