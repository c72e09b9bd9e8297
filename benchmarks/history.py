"""Steps in histories: how often planted steps are found, and steps where there are none.

`python -m benchmarks.history --trials 200 --runs 3` prints a table of docs/explanation/history.md:
for each noise and each set of steps the part of the steps that were found within two commits, and
after the slash the part of series in which a step was found elsewhere. It takes some ten minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from rsctl.bench.steps import find_steps

COMMITS = 60
NEAR = 2
"""Commits by which a found step may be off."""

Noise = Callable[[Random, int, int], list[list[float]]]
"""Runs by commit, as factors of the level."""


def _independent(one: Callable[[Random], float]) -> Noise:
    return lambda random, commits, runs: [
        [one(random) for _ in range(runs)] for _ in range(commits)
    ]


def _outliers(random: Random) -> float:
    slow = 1 / 3 if random.random() < 0.2 else 1.0
    return slow * random.gauss(1.0, 0.02)


def _autocorrelated(phi: float, spread: float) -> Noise:
    def noise(random: Random, commits: int, runs: int) -> list[list[float]]:
        """Each run continues the one before, across commits."""
        state, found = random.gauss(0.0, spread), []
        for _ in range(commits):
            values = []
            for _ in range(runs):
                state = phi * state + random.gauss(0.0, spread * math.sqrt(1 - phi * phi))
                values.append(1.0 + state)
            found.append(values)
        return found

    return noise


def _by_commit(phi: float, spread: float) -> Noise:
    def noise(random: Random, commits: int, runs: int) -> list[list[float]]:
        """The commits' own level is autocorrelated, their runs differ little."""
        levels = _autocorrelated(phi, spread)(random, commits, 1)
        return [[level[0] * random.gauss(1.0, 0.005) for _ in range(runs)] for level in levels]

    return noise


def _bimodal_commits(random: Random, commits: int, runs: int) -> list[list[float]]:
    levels = [random.choice((0.96, 1.04)) for _ in range(commits)]
    return [[level * random.gauss(1.0, 0.01) for _ in range(runs)] for level in levels]


NOISES: dict[str, Noise] = {
    "normal 3 %": _independent(lambda r: r.gauss(1.0, 0.03)),
    "lognormal 5 %": _independent(lambda r: r.lognormvariate(0.0, 0.05)),
    "lognormal 15 %": _independent(lambda r: r.lognormvariate(0.0, 0.15)),
    "1 run in 5 three times slow, 2 %": _independent(_outliers),
    "AR(1) 0.8, 3 %, run by run": _autocorrelated(0.8, 0.03),
    "AR(1) 0.8, 3 %, commit by commit": _by_commit(0.8, 0.03),
    "bimodal (8 % apart), run by run": _independent(
        lambda r: r.choice((0.96, 1.04)) * r.gauss(1.0, 0.01)
    ),
    "bimodal (8 % apart), commit by commit": _bimodal_commits,
    "Student's t with 2 degrees, 2 %": _independent(
        lambda r: 1 + 0.02 * r.gauss(0, 1) / math.sqrt(r.expovariate(1.0))
    ),
    "integers with ties": _independent(lambda r: round(r.gauss(100, 3)) / 100),
    "zero variance": _independent(lambda r: 1.0),
}
STEPS: dict[str, Sequence[tuple[int, float]]] = {
    "none": (),
    "-10 % at 30": ((30, 0.9),),
    "-10 % at 50": ((50, 0.9),),
    "-5 % at 30": ((30, 0.95),),
    "-10 % at 20, back at 40": ((20, 0.9), (40, 1.0)),
    "-10 % at 15, -10 % at 30, back at 45": ((15, 0.9), (30, 0.81), (45, 1.0)),
}


def planted(
    noise: Noise, steps: Sequence[tuple[int, float]], random: Random, runs: int
) -> list[float]:
    """The median of the runs of each commit, with steps planted."""
    found = []
    for index, values in enumerate(noise(random, COMMITS, runs)):
        level = next((level for at, level in reversed(steps) if index >= at), 1.0)
        found.append(median(value * level for value in values))
    return found


def judged(values: Sequence[float], steps: Sequence[tuple[int, float]]) -> tuple[int, int, int]:
    """How many planted steps were found near their commits, how many others, and how many of the
    planted steps are in the reported range.
    """
    found = find_steps(values)
    at = [step for step, _ in steps]
    hit = sum(any(abs(step.position - where) <= NEAR for step in found) for where in at)
    false = sum(all(abs(step.position - where) > NEAR for where in at) for step in found)
    covered = sum(any(step.first <= where <= step.last for step in found) for where in at)
    return hit, false, covered


def rates(
    noise: Noise, steps: Sequence[tuple[int, float]], runs: int, trials: int, seed: int
) -> str:
    """`found / series with a step elsewhere`, in percent."""
    random = Random(seed)
    hits = others = 0
    for _ in range(trials):
        hit, false, _ = judged(planted(noise, steps, random, runs), steps)
        hits, others = hits + hit, others + (false > 0)
    rest = f"{100 * others / trials:.1f}"
    return f"{100 * hits / (trials * len(steps)):.0f} / {rest}" if steps else rest


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    print(f"{COMMITS} commits, {asked.runs} runs each, {asked.trials} trials")
    print("| noise | " + " | ".join(STEPS) + " |\n" + "|---" * (len(STEPS) + 1) + "|")
    for name, noise in NOISES.items():
        cells = [
            rates(noise, steps, asked.runs, asked.trials, asked.seed) for steps in STEPS.values()
        ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
