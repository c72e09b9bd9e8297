"""The jobs whose step times are predicted and measured, and those that the model is fitted to."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Case:
    """A training on a shaped network: `mbit` is every link's rate in each direction, `bytes` of
    gradient a step, `compute` seconds of forward and backward pass, `bucket_mb` as DDP has it.

    With `batch` the ranks compute instead of sleeping for `compute` seconds: a perceptron of so
    many rows. Each rank is then pinned to one of `cores` cores, in turn, and so is each reducer.
    """

    workers: int
    reducers: int
    mbit: int
    bytes: int
    compute: float
    bucket_mb: int
    batch: int = 0
    cores: int = 2

    @property
    def name(self) -> str:
        """All of it, short."""
        size = f"{self.bytes / MB:g}MB"
        if self.batch:
            work = f"{self.batch}rows-{self.cores}cores"
            return f"{self.workers}+{self.reducers}-{self.mbit}Mbit-{size}-{work}"
        return f"{self.workers}+{self.reducers}-{self.mbit}Mbit-{size}-{self.compute:g}s"


FITTED = (
    Case(2, 0, 100, 10 * MB, 0.3, 5),
    Case(4, 0, 200, 25 * MB, 0.5, 5),
    Case(3, 0, 50, 4 * MB, 0.4, 1),
    Case(4, 4, 200, 25 * MB, 0.5, 5),
    Case(4, 2, 100, 8 * MB, 0.2, 64),
    Case(3, 1, 150, 12 * MB, 0.1, 3),
    Case(6, 3, 300, 16 * MB, 0.2, 4),
    Case(2, 2, 50, 2 * MB, 0.05, 1),
)
"""What alpha, bandwidth, CPU and overlap are fitted to."""

PREDICTED = (
    Case(2, 0, 200, 16 * MB, 0.2, 5),
    Case(3, 0, 100, 6 * MB, 0.8, 1),
    Case(4, 0, 50, 5 * MB, 0.3, 2),
    Case(6, 0, 300, 20 * MB, 0.3, 10),
    Case(2, 1, 100, 12 * MB, 0.6, 4),
    Case(3, 3, 100, 6 * MB, 0.2, 2),
    Case(4, 1, 100, 10 * MB, 0.5, 64),
    Case(4, 3, 150, 20 * MB, 1.0, 5),
    Case(4, 4, 300, 32 * MB, 0.3, 8),
    Case(5, 2, 200, 12 * MB, 0.4, 3),
    Case(6, 6, 200, 20 * MB, 0.2, 64),
    Case(8, 4, 250, 16 * MB, 0.5, 4),
)
"""What is predicted; none of these was used to fit."""

COMPUTING = (
    Case(2, 0, 2000, 10 * MB, 0.0, 5, batch=1024),
    Case(2, 0, 200, 10 * MB, 0.0, 5, batch=1024),
    Case(2, 0, 200, 10 * MB, 0.0, 5, batch=256),
    Case(1, 1, 200, 10 * MB, 0.0, 5, batch=1024),
    Case(2, 1, 200, 10 * MB, 0.0, 5, batch=1024),
    Case(2, 0, 200, 10 * MB, 0.0, 5, batch=1024, cores=1),
    Case(4, 0, 200, 10 * MB, 0.0, 5, batch=512),
)
"""Jobs whose ranks compute, of which none was used to fit: on a core each, and sharing cores."""
