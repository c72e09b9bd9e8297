"""A budget: a limit of the cost of several submissions together."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from rsctl.api.arguments import check_number
from rsctl.estimate.costs.billing import PlanCost
from rsctl.estimate.costs.limit import dollars
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.target_info import target_info
from rsctl.targets.base import Submission

_PRICES = (
    "fetch the clouds' prices: rsctl catalog --refresh; or add your own, see the guide on costs"
)


class Budget:
    """The most that submissions may cost together, in US dollars; without a `limit`, anything.

    A submission counts with the most that it can cost, from when it is reserved until it is
    released; its real cost, once known, changes nothing. Any thread may use it. Raises RsctlError
    if the limit is not a number of 0 or more.
    """

    def __init__(self, limit: float | None = None) -> None:
        if limit is not None:
            check_number("limit", limit, 0)
        self.limit = limit
        self._reserved = 0.0
        self._lock = Lock()

    @property
    def reserved(self) -> float:
        """The sum of the reserved amounts."""
        return self._reserved

    def amount(self, submissions: Iterable[Submission]) -> float:
        """The most that submissions can cost; 0 without a limit. Raises RsctlError if a price is
        unknown.
        """
        return 0.0 if self.limit is None else sum(map(most_of, submissions))

    def reserve(self, submissions: Iterable[Submission]) -> float:
        """Reserve the most that submissions can cost, all or none of it; returns the amount.

        Raises RsctlError if the limit does not allow it, or if a price is unknown.
        """
        amount = self.amount(submissions)
        if self.limit is None:
            return amount
        with self._lock:
            left = self.limit - self._reserved
            if amount > left:
                raise _refusal(
                    f"it can cost {dollars(amount)}, and {dollars(left)} of the budget of "
                    f"{dollars(self.limit)} is left",
                    "use fewer or smaller machines, set a shorter limits.timeout, or raise "
                    "--max-cost",
                )
            self._reserved += amount
        return amount

    def release(self, amount: float) -> None:
        """Give back the amount that was reserved for a submission that made no job."""
        with self._lock:
            self._reserved -= amount


def most_of(submission: Submission) -> float:
    """The most that a submission can cost at the dearest of its placements, in US dollars.

    A run on this machine costs nothing. Raises RsctlError if a price is unknown.
    """
    if not target_info(submission.plan.target).is_managed:
        return 0.0
    return max(map(_most, (submission, *submission.alternatives)))


def _most(submission: Submission) -> float:
    cost = submission.plan.cost
    if isinstance(cost, PlanCost) and cost.most is not None:
        return cost.most
    why, remedy = f"target {submission.plan.target} has no prices", "omit --max-cost"
    if isinstance(cost, PlanCost):
        why, remedy = cost.unknown or "its machines have no price", _PRICES
    raise _refusal(f"the cost is unknown, and --max-cost limits it: {why}", remedy)


def _refusal(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("cost", message, remedy))
