"""Which of a job's replicas end it, and which are ended with the workers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rsctl.runs.folder import Ending

WAKE_SECONDS = 5.0
"""How long the workers may take to end after a replica that ends with them has failed.

Its failure is the job's unless they all end in that time: a worker's connections close before its
process has ended, and a parameter server that loses them may end by an error.
"""


class Endings:
    """The rules of one attempt, by the replicas' names and how each role of the job's own ends."""

    def __init__(self, replicas: Iterable[str], roles: Mapping[str, Ending]) -> None:
        self._workers = [name for name in replicas if role_of(name) == "worker"]
        self._roles = roles
        self._judged_at: dict[str, float] = {}

    def workers_ended(self, ended: Collection[str]) -> bool:
        """Whether all workers are among those that have ended."""
        return all(name in ended for name in self._workers)

    def goes_on(self, replica: str) -> bool:
        """Whether it continues when the workers have ended."""
        return self._roles.get(role_of(replica)) == "by-itself"

    def is_needed(self, replica: str) -> bool:
        """Whether workers may need it until they have ended."""
        return replica not in self._workers and not self.goes_on(replica)

    def may_be_in_the_wake(self, replica: str) -> bool:
        """Whether it may have failed because the workers were ending."""
        return self._roles.get(role_of(replica)) == "with-workers"

    def wait_for_workers(self, replica: str, now: float) -> None:
        """Judge the failure of a replica only once the workers have had time to end."""
        self._judged_at[replica] = now + WAKE_SECONDS

    def judged(self, workers_ended: bool, has_failed: bool, now: float) -> dict[str, bool]:
        """The failures that can be judged now, and whether each was a result of the workers'
        end.
        """
        due = {
            name: workers_ended and not has_failed
            for name, at in self._judged_at.items()
            if workers_ended or has_failed or now >= at
        }
        for name in due:
            del self._judged_at[name]
        return due


def role_of(replica: str) -> str:
    """The role in a replica's name."""
    return replica.rpartition("-")[0]
