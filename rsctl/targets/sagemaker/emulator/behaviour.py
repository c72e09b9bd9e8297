"""How an emulated account behaves, good days and bad ones; all of it can be changed at any time."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour

_LEAST_GRACE = 2.0


@dataclass
class Behaviour(EmulatorBehaviour):
    """Simulated waits are in seconds and times `pace`, which also scales the seconds of rates.

    Stages of a job: `launch` is how long machines take to come, `prepare` until they are ready,
    `image` until they have the image, `upload` what storing the results takes besides. After
    SIGTERM a container has `grace`, never less than two real seconds. Checkpoints are stored each
    `sync` seconds. A job that was interrupted waits `interrupted` until it starts again;
    `spot_notice` says whether its containers get SIGTERM first, or die at once. Of the time on spot
    machines the part `spot_billed` is billed.

    What can go wrong: `quotas` are limits by name (`ml.c5n.9xlarge for training job usage`; what is
    not there has none). The next `stockouts` attempts at launching machines find none, -1 is for
    ever; a job that has waited `give_up` for them fails, unless it says itself how long it waits.
    `stockouts_in` and `no_quota_in` are places, such as us-east-1, ml.c5.xlarge or
    us-east-1/ml.c5.xlarge, where there are never machines, and where the quota is zero.
    The next `preemptions` times that a job is Training, it loses a machine after `preempt_after`,
    -1 is for ever: managed spot training is Interrupted by that, any other job has an internal
    error.

    Logs: an event can be read `ingest` after it was written; of all events each `late_every`-th
    only `late_by` later, and each `twice_every`-th comes twice; 0 is none. `shuffle` puts a page's
    events into another order, each `empty_every`-th page is empty and leads on to the next. A token
    is good for `token_life`. Requests a second: `log_reads` of FilterLogEvents and of GetLogEvents,
    `stream_reads` of DescribeLogStreams.

    Measurements can be read `measure` after they were taken; a minute of them is scaled too.
    """

    pace: float = 1.0
    launch: float = 90.0
    prepare: float = 60.0
    image: float = 30.0
    upload: float = 10.0
    grace: float = 120.0
    sync: float = 10.0
    interrupted: float = 120.0
    spot_notice: bool = True
    spot_billed: float = 0.3
    quotas: dict[str, int] = field(default_factory=dict)
    stockouts: int = 0
    stockouts_in: list[str] = field(default_factory=list)
    no_quota_in: list[str] = field(default_factory=list)
    preemptions: int = 0
    preempt_after: float = 20.0
    give_up: float = 3600.0
    ingest: float = 5.0
    late_every: int = 0
    late_by: float = 20.0
    twice_every: int = 0
    shuffle: bool = False
    empty_every: int = 0
    token_life: float = 86400.0
    log_reads: int = 5
    stream_reads: int = 25
    measure: float = 60.0

    @property
    def real_grace(self) -> float:
        """How long a container has after SIGTERM, in real seconds."""
        return max(self.grace * self.pace, _LEAST_GRACE)
