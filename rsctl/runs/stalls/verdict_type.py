"""Why a job does not progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rsctl.runs.stalls.job_view import JobView


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job does not progress.

    `kind` is `mismatch`, `missing`, `circle`, `silent`, `exit`, `reducer`, `network`, `idle` or
    `unknown`.
    `guilty` are ranks, `replicas` the nodes that they are on, or the nodes that are guilty
    themselves; both are empty where the evidence does not suffice. `lines` have each rank.
    """

    kind: str
    message: str
    guilty: tuple[int, ...] = ()
    replicas: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def names_someone(self) -> bool:
        """Whether it names a rank or a node."""
        return bool(self.guilty or self.replicas)


def blaming(
    job: JobView, kind: str, message: str, guilty: Sequence[int], waiting: Iterable[int] = ()
) -> Verdict:
    """A verdict on ranks, with the nodes that they are on."""
    return Verdict(
        kind=kind,
        message=message,
        guilty=tuple(guilty),
        replicas=job.replicas(guilty),
        waiting=tuple(waiting),
    )
