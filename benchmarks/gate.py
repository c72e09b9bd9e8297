"""The operating curve of `rsctl gate`: which verdicts planted effects get, by its own functions.

    python -m benchmarks.gate [--trials N] [--seed N]

Prints the tables of docs/reference/operating-curve.md. The same seed gives the same tables, on
every machine.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from rsctl.bench.stats import CellSides, detectable, excludable, interval, smallest_p
from rsctl.bench.verdict import (
    ALPHA,
    CONFIRMED,
    NO_EVIDENCE,
    Evidence,
    Floor,
    Verdict,
    adjusted,
    decide,
    decide_confirmed,
    weigh,
    worst,
)

FLOOR = Floor(0.05)
Noise = Callable[[Random, int], list[float]]
"""Factors of so many consecutive runs of one side: 1 without noise."""


class Design(NamedTuple):
    """An experiment: `runs` a side and cell with a noise of that size, with the last cell changed.

    `confirm`: what is suspected is run as often again, against the same baseline. `shared` is the
    standard deviation of a disturbance that all cells of a repetition share.
    """

    noise: float
    change: float
    runs: int = 5
    cells: int = 1
    confirm: bool = False
    draw: str = "normal"
    floor: Floor = FLOOR
    shared: float = 0.0


def independent(draw: Callable[[Random, float], float]) -> Callable[[float], Noise]:
    """A noise by the factor of each run."""
    return lambda size: lambda random, runs: [draw(random, size) for _ in range(runs)]


def _heavy(random: Random, size: float) -> float:
    return 1 + size * random.gauss(0, 4 if random.random() < 0.1 else 1) / 2.5**0.5


def _stragglers(random: Random, size: float) -> float:
    return 1 + size * (random.gauss(0, 1) - (5 if random.random() < 0.1 else 0))


def _bimodal(random: Random, size: float) -> float:
    return 1 + random.gauss(0, 0.01) - (size if random.random() < 0.5 else 0)


def _outliers(random: Random, size: float) -> float:
    return (1 + random.gauss(0, size)) / (3 if random.random() < 0.2 else 1)


def _bimodal_side(size: float) -> Noise:
    def draw(random: Random, runs: int) -> list[float]:
        level = 1 - (size if random.random() < 0.5 else 0)
        return [level + random.gauss(0, 0.01) for _ in range(runs)]

    return draw


def _autoregressive(size: float) -> Noise:
    def draw(random: Random, runs: int) -> list[float]:
        level, values = random.gauss(0, size), []
        for _ in range(runs):
            values.append(1 + level)
            level = 0.8 * level + random.gauss(0, 0.6 * size)
        return values

    return draw


NOISES: dict[str, Callable[[float], Noise]] = {
    "normal": independent(lambda random, size: 1 + random.gauss(0, size)),
    "lognormal": independent(lambda random, size: math.exp(random.gauss(0, size))),
    "heavy tails": independent(_heavy),
    "stragglers": independent(_stragglers),
    "bimodal": independent(_bimodal),
    "one run in five three times slow": independent(_outliers),
    "integers": independent(lambda random, size: round(20 * (1 + random.gauss(0, size))) / 20),
    "AR(1) 0.8 within a side": _autoregressive,
    "bimodal, a whole side": _bimodal_side,
}


def trial(design: Design, random: Random) -> Verdict:
    """The verdict of one experiment."""
    first = _cells(design, random)
    groups = _groups(first)
    evidence = [weigh(group, design.floor) for group in groups]
    if not design.confirm:
        levels = _levels(evidence, design, design.runs, ALPHA)
        return worst([decide(e, p, design.floor) for e, p in zip(evidence, levels, strict=True)])
    return _confirmed(design, first, evidence, random)


def _confirmed(
    design: Design, first: list[CellSides], evidence: list[Evidence], random: Random
) -> Verdict:
    suspected = [e.is_beyond(design.floor) for e in evidence]
    pairs = list(zip(first, _cells(design, random), strict=True))
    again = [CellSides(a.baseline, b.candidate) for a, b in pairs]
    pooled = [CellSides(a.baseline, [*a.candidate, *b.candidate]) for a, b in pairs]
    fresh = [weigh(group, design.floor) for group in _groups(again)]
    both = [
        weigh(group, design.floor) if is_suspected else NO_EVIDENCE
        for group, is_suspected in zip(_groups(pooled), suspected, strict=True)
    ]
    levels = _levels(both, design, 2 * design.runs, ALPHA * CONFIRMED)
    return worst(
        [
            decide_confirmed(fresh[i], both[i], levels[i], design.floor)
            if suspected[i]
            else decide(evidence[i], 1.0, design.floor)
            for i in range(len(suspected))
        ]
    )


def _groups(cells: list[CellSides]) -> list[list[CellSides]]:
    """Each cell alone, then all of them."""
    return [[cell] for cell in cells] + ([cells] if cells[1:] else [])


def _levels(evidence: list[Evidence], design: Design, runs: int, alpha: float) -> list[float]:
    values, cells = [e.p for e in evidence], design.cells
    smallest = smallest_p((design.runs, runs))
    single, across = adjusted(values[:cells], values[cells:], smallest, alpha)
    return [*single, *across]


def _cells(design: Design, random: Random) -> list[CellSides]:
    noise = NOISES[design.draw](design.noise)
    hours = [[random.gauss(0, design.shared) for _ in range(design.runs)] for _ in range(2)]
    cells = []
    for index in range(design.cells):
        change = 1 + (design.change if index == design.cells - 1 else 0)
        sides = [noise(random, design.runs) for _ in range(2)]
        before, after = (
            [value + hour for value, hour in zip(side, of_side, strict=True)]
            for side, of_side in zip(sides, hours, strict=True)
        )
        cells.append(CellSides(before, [change * value for value in after]))
    return cells


def rates(design: Design, trials: int, seed: int) -> dict[Verdict, float]:
    """How often each verdict comes out, as parts of 1."""
    random = Random(f"{seed} {design}")
    counts = Counter(trial(design, random) for _ in range(trials))
    return {verdict: counts[verdict] / trials for verdict in Verdict}


def coverage(design: Design, trials: int, seed: int) -> float:
    """How often the interval contains the true effect."""
    random = Random(f"{seed} {design}")
    hits = 0
    for _ in range(trials):
        ends = interval(_cells(design, random))
        hits += ends is not None and ends[0] <= design.change <= ends[1]
    return hits / trials


def _curve() -> Iterator[Design]:
    for noise in (0.02, 0.05):
        for change in (0.0, -0.05, -0.10, -0.15):
            for confirm in (False, True):
                yield Design(noise, change, confirm=confirm)


def _noises() -> Iterator[Design]:
    sizes = {"normal": 0.03, "lognormal": 0.15, "bimodal": 0.08, "bimodal, a whole side": 0.08}
    sizes["one run in five three times slow"] = 0.02
    for draw in NOISES:
        for runs in (3, 5, 10):
            for change in (0.0, -0.10):
                yield Design(sizes.get(draw, 0.03), change, runs=runs, draw=draw)


def _matrices() -> Iterator[Design]:
    for change in (0.0, -0.10):
        yield Design(0.02, change, cells=6)
    for confirm in (False, True):
        yield Design(0.01, 0.0, cells=6, confirm=confirm, floor=Floor(0.01), shared=0.03)


def _row(design: Design, trials: int, seed: int) -> str:
    found = rates(design, trials, seed)
    told = [f"{100 * found[v]:.1f} %" for v in (Verdict.REGRESSED, Verdict.INCONCLUSIVE)]
    passed = f"{100 * found[Verdict.PASS]:.1f} %"
    change = f"{100 * design.change:+.0f} %" if design.change else "none"
    what = f"{design.draw}, {100 * design.noise:.0f} %"
    if design.shared:
        what += f"; {100 * design.shared:.0f} % shared; floor {design.floor}"
    size = f"{design.runs}+{design.runs}" + (f" x {design.cells}" if design.cells > 1 else "")
    return (
        f"| {what} | {change} | {size} | {'yes' if design.confirm else 'no'} | "
        + " | ".join([*told, passed])
        + " |"
    )


def _table(designs: Iterator[Design], trials: int, seed: int) -> None:
    print("| noise | true change | runs | confirm | regressed | inconclusive | pass |")
    print("|---|---|---|---|---|---|---|")
    for design in designs:
        print(_row(design, trials, seed), flush=True)


def _detection(trials: int, seed: int) -> None:
    """What `gate` says beforehand, and what comes of it."""
    print("| noise | runs | detectable | found at that | floor that passes | passed at that |")
    print("|---|---|---|---|---|---|")
    for noise in (0.01, 0.02, 0.05):
        for runs in (3, 5, 10):
            size = detectable(noise, (runs, runs), FLOOR.amount, ALPHA) or 0.0
            floor = excludable(noise, (runs, runs), ALPHA)
            found = rates(Design(noise, -size, runs=runs), trials, seed)[Verdict.REGRESSED]
            own = Design(noise, 0.0, runs=runs, floor=Floor(floor))
            passed = rates(own, trials, seed)[Verdict.PASS]
            print(
                f"| {100 * noise:.0f} % | {runs}+{runs} | {100 * size:.1f} % | {100 * found:.0f} % "
                f"| {100 * floor:.1f} % | {100 * passed:.0f} % |",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.trials} trials a row, seed {options.seed}, floor 5 %, alpha {ALPHA:g}.\n")
    _table(_curve(), options.trials, options.seed)
    print()
    _table(_noises(), options.trials, options.seed)
    print()
    _table(_matrices(), options.trials, options.seed)
    rare = Design(0.05, -0.10)
    wrong = rates(rare, 20 * options.trials, options.seed)[Verdict.PASS]
    print(
        f"\nOf {20 * options.trials} regressions of 10 % in noise of 5 %, {100 * wrong:.2f} % pass."
    )
    print()
    _detection(options.trials, options.seed)
    print("\n| noise | runs | intervals of 90 % that have the true effect |\n|---|---|---|")
    for runs in (3, 4, 5, 10):
        part = coverage(Design(0.03, -0.05, runs=runs), max(1, options.trials // 2), options.seed)
        print(f"| normal, 3 % | {runs}+{runs} | {100 * part:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
