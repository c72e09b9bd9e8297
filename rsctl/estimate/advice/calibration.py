"""The measured constants of the cost model: latency, bandwidth, CPU, overlap.

Units: seconds; CPU seconds for each GB (10^9 bytes) of a gradient; parts of 1.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of the model for one target.

    `alpha_seconds` is the latency of one message between two nodes. `bandwidth_fraction` is the
    fraction of a link's net rate that an exchange gets; that is the rate without the packets'
    headers. `worker_cpu_seconds_per_gb` is for a GB that a worker sends to reducers and gets back,
    `reducer_cpu_seconds_per_gb` for one that a reducer takes in, adds and sends back,
    `ring_cpu_seconds_per_gb` for a GB of gradient that a worker reduces in a ring over TCP.
    `overlap` is the part of the communication that overlaps with the backward pass if DDP starts it
    there; the rest comes after it. `fitted_from` are the runs these were fitted to; by none they
    are the defaults. `median_error` is the median of |predicted / measured - 1| of step times, None
    if there is none yet.
    """

    alpha_seconds: float
    bandwidth_fraction: float
    worker_cpu_seconds_per_gb: float
    reducer_cpu_seconds_per_gb: float
    ring_cpu_seconds_per_gb: float
    overlap: float
    fitted_from: tuple[str, ...] = ()
    median_error: float | None = None

    @property
    def error(self) -> float:
        """The part of a step's time that a prediction may be off by."""
        return UNCALIBRATED_ERROR if self.median_error is None else self.median_error


UNCALIBRATED = Calibration(
    alpha_seconds=100e-6,
    bandwidth_fraction=0.98,
    worker_cpu_seconds_per_gb=0.77,
    reducer_cpu_seconds_per_gb=0.56,
    ring_cpu_seconds_per_gb=0.7,
    overlap=1.0,
)
"""The constants where nothing was measured.

`bandwidth_fraction`: exchanges of 25 MB on shaped links took 1.01 to 1.03 times the minimum of the
wires (docs/explanation/transport-measurements.md). CPU of worker and reducer: the middle of the C++
core's ranges, 0.63 to 0.90 and 0.48 to 0.64 on loopback (the same page, "CPU cost"); real networks
cost more. CPU of a ring: gloo took 67 to 71 ms for 100 MB between two processes on two cores.
`alpha_seconds`: half a round trip of 0.2 ms, the transport's own assumption
(rsctl/transport/schedule.py). `overlap`: DDP's design, all of it.
"""

UNCALIBRATED_BRIDGE = replace(
    UNCALIBRATED,
    worker_cpu_seconds_per_gb=2.5,
    reducer_cpu_seconds_per_gb=1.8,
    ring_cpu_seconds_per_gb=1.6,
)
"""The same for containers on a bridge of this machine, whose packets of 1500 bytes are all handled
by its cores. On 2 cores and without a limit on the network 4 workers took 0.216 s for 25 MB over 4
reducers and 0.081 s in a ring (docs/explanation/transport-measurements.md); a reducer took 1.77 CPU
seconds for a GB over such links."""

UNCALIBRATED_ERROR = 0.15
"""The assumed error without measurements: published models of whole steps are 5 to 15 % off on
networks to which they were not fitted.
"""


def uncalibrated(target: str) -> Calibration:
    """The constants for a target where nothing was measured."""
    return UNCALIBRATED_BRIDGE if target == "compose" else UNCALIBRATED
