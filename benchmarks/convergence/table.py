"""What the curves say: the median time to the loss that plain training reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.convergence.cluster import Curve, Trial
from benchmarks.convergence.methods import METHODS, REFERENCE

_PART = 0.9
_TOLERANCE = 0.01
"""Sums of another order change the last digits, so that equal curves miss each other's minimum."""
_HEADER = (
    "| task | workers | Mbit/s | method | seeds | s to the loss | faster | final loss | step, s |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def table(kept: Mapping[Trial, Curve]) -> str:
    """A table of all trainings that have the reference beside them.

    The loss to be reached is 1 % above the least of the reference in nine tenths of its steps, the
    same seed's.
    `faster` is by the medians; a method of which more than half never reach the loss has none.
    """
    rows = [_HEADER]
    for case in dict.fromkeys((t.task, t.workers, t.mbit, t.steps) for t in kept):
        curves = {
            method: {
                t.seed: curve
                for t, curve in kept.items()
                if (*_case(t), t.method) == (*case, method)
            }
            for method in METHODS
        }
        reference = curves[REFERENCE]
        goals = {
            seed: (1 + _TOLERANCE) * _least_loss(curve, _PART * case[3])
            for seed, curve in reference.items()
        }
        base = _median_seconds(reference, goals)
        for method, by_seed in curves.items():
            if by_seed:
                rows.append(_row(case, method, by_seed, goals, base))
    return "\n".join(rows)


def _case(trial: Trial) -> tuple[str, int, float, int]:
    return trial.task, trial.workers, trial.mbit, trial.steps


def _row(
    case: tuple[str, int, float, int],
    method: str,
    by_seed: Mapping[int, Curve],
    goals: Mapping[int, float],
    base: float | None,
) -> str:
    seconds = _median_seconds(by_seed, goals)
    task, workers, mbit, _ = case
    ends = [curve[-1] for curve in by_seed.values()]
    cells = [
        *(task, str(workers), f"{mbit:g}", method, str(len(by_seed))),
        "not reached" if seconds is None else f"{seconds:.1f}",
        "" if seconds is None or base is None else f"{base / seconds:.2f} x",
        f"{median(end[2] for end in ends):.4f}",
        f"{median(end[1] / end[0] for end in ends):.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def _median_seconds(by_seed: Mapping[int, Curve], goals: Mapping[int, float]) -> float | None:
    both = [(curve, goals[seed]) for seed, curve in by_seed.items() if seed in goals]
    taken = [_seconds_to(curve, goal) for curve, goal in both]
    middle = median(taken) if taken else float("inf")
    return None if middle == float("inf") else middle


def _seconds_to(curve: Sequence[tuple[int, float, float]], goal: float) -> float:
    """The seconds to a loss at or below the goal, between two validations by their line."""
    before = (0.0, float("inf"))
    for _, seconds, loss in curve:
        if loss <= goal:
            if before[1] == float("inf") or before[1] == loss:
                return seconds
            part = (before[1] - goal) / (before[1] - loss)
            return before[0] + part * (seconds - before[0])
        before = seconds, loss
    return float("inf")


def _least_loss(curve: Curve, step: float) -> float:
    return min(loss for at, _, loss in curve if at <= step)
