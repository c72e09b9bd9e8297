"""The behaviour of an emulated account; every field can be changed while it serves."""

from __future__ import annotations

from dataclasses import dataclass

from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour

_LEAST_GRACE = 2.0


@dataclass
class Behaviour(EmulatorBehaviour):
    """The settings of SageMaker's emulator beyond `EmulatorBehaviour`.

    Stages of a job: machines come after `launch`, are ready after `prepare` and have the image
    after `image`; `upload` is the time to store the results. After SIGTERM a container has `grace`,
    but at least two real seconds. Checkpoints are stored every `sync` seconds. A job that was
    interrupted waits `interrupted` until it starts again. With `spot_notice` its containers get
    SIGTERM first; without it they are killed. `spot_billed` is the part of the time on spot
    machines that is billed.

    Quotas have names such as `ml.c5n.9xlarge for training job usage`; a type that is not listed has
    no limit. A job that has waited `give_up` for machines fails, unless it sets its own limit. A
    job on spot machines ends then as at its own limit, which may be days away. A preemption
    interrupts managed spot training; any other job has an internal error.

    A log token is valid for `token_life`. Rates are requests a second: `log_reads` of
    FilterLogEvents and of GetLogEvents, `stream_reads` of DescribeLogStreams.
    """

    launch: float = 90.0
    prepare: float = 60.0
    image: float = 30.0
    upload: float = 10.0
    grace: float = 120.0
    sync: float = 10.0
    interrupted: float = 120.0
    spot_notice: bool = True
    spot_billed: float = 0.3
    give_up: float = 3600.0
    ingest: float = 5.0
    token_life: float = 86400.0
    log_reads: int = 5
    stream_reads: int = 25
    measure: float = 60.0

    @property
    def real_grace(self) -> float:
        """How long a container has after SIGTERM, in real seconds."""
        return max(self.grace * self.pace, _LEAST_GRACE)
