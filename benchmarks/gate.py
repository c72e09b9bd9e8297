"""The operating curve of `rsctl gate`: which verdicts planted effects get, by its own functions.

    python -m benchmarks.gate [--trials N] [--seed N]

Prints the tables of docs/reference/operating-curve.md. The same seed gives the same tables, on
every machine.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from rsctl.bench.paired import PairedCell, block_numbers
from rsctl.bench.paired_gate import weigh_pairs
from rsctl.bench.schedule import paired_slots
from rsctl.bench.stats import CellSides, Fresh, detectable, excludable, interval, smallest_p
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


def _student(random: Random, size: float) -> float:
    """Scaled to a standard deviation of `size`: the distribution's own is the square root of 3."""
    squares = sum(random.gauss(0, 1) ** 2 for _ in range(3))
    return 1 + size * random.gauss(0, 1) / squares**0.5


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
    "uniform": independent(lambda random, size: 1 + size * random.uniform(-1, 1) * 3**0.5),
    "Student's t, 3 degrees": independent(_student),
    "exponential delays": independent(lambda random, size: 1 / (1 + size * random.expovariate(1))),
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


class Timeline(NamedTuple):
    """An experiment whose runs follow each other in time, `runs` a side.

    `in_turn`: the order of `rsctl gate --against`, and its test. Otherwise the baseline runs first,
    and then the candidate. `confirm`: what is suspected is run as often again, in turn both sides,
    otherwise the candidate. `is_single`: only
    the two runs of a pair are exchanged, not those of a block.
    """

    draw: str
    change: float
    runs: int
    in_turn: bool
    floor: Floor = FLOOR
    confirm: bool = False
    is_single: bool = False


def _drifting(random: Random, runs: int) -> list[float]:
    return [1 - 0.005 * number + random.gauss(0, 0.01) for number in range(runs)]


def _two_machines(random: Random, runs: int) -> list[float]:
    levels = [1 - (0.08 if random.random() < 0.5 else 0) for _ in range(2)]
    return [levels[2 * number // runs] + random.gauss(0, 0.01) for number in range(runs)]


def _machine_for_each_run(random: Random, runs: int) -> list[float]:
    drifting = _drifting(random, runs)
    return [value - (0.08 if random.random() < 0.5 else 0) for value in drifting]


def _one_machine(random: Random, runs: int) -> list[float]:
    level = 0.08 if random.random() < 0.5 else 0
    return [value - level for value in _drifting(random, runs)]


PACKED, A_JOB_EACH = "one job", "a job for each run"
TIMELINES: dict[str, Noise] = {
    "normal, 3 %": NOISES["normal"](0.03),
    "AR(1) 0.8, 3 %": _autoregressive(0.03),
    "-0.5 % a run, 1 %": _drifting,
    "another machine half-way, 8 %": _two_machines,
    PACKED: _one_machine,
    A_JOB_EACH: _machine_for_each_run,
    "bimodal, 8 %": NOISES["bimodal"](0.08),
    "one run in five three times slow, 2 %": NOISES["one run in five three times slow"](0.02),
}


def timeline_trial(design: Timeline, random: Random) -> Verdict:
    """The verdict of one experiment."""
    if design.in_turn:
        return _trial_in_turn(design, random)
    values = TIMELINES[design.draw](random, 2 * design.runs + (design.runs * design.confirm))
    changed = [(1 + design.change) * value for value in values[design.runs :]]
    first = CellSides(values[: design.runs], changed[: design.runs])
    evidence = weigh([first], design.floor)
    if not design.confirm or not evidence.is_beyond(design.floor):
        return decide(evidence, evidence.p, design.floor)
    fresh = weigh([CellSides(first.baseline, changed[design.runs :])], design.floor)
    pooled = weigh([CellSides(first.baseline, changed)], design.floor)
    return decide_confirmed(fresh, pooled, pooled.p, design.floor)


def _trial_in_turn(design: Timeline, random: Random) -> Verdict:
    first = _pairs(design, random)
    evidence = weigh_pairs([first], design.floor)
    if not design.confirm or not evidence.is_beyond(design.floor):
        return decide(evidence, evidence.p, design.floor)
    again = _pairs(design, random)
    both = PairedCell(
        [*first.baseline, *again.baseline],
        [*first.candidate, *again.candidate],
        [(part, block) for part in range(2) for block in block_numbers(design.runs)],
    )
    fresh, pooled = weigh_pairs([again], design.floor), weigh_pairs([both], design.floor)
    return decide_confirmed(fresh, pooled, pooled.p, design.floor)


def _pairs(design: Timeline, random: Random) -> PairedCell:
    """The runs of a bench in turn, by their repetition."""
    values = TIMELINES[design.draw](random, 2 * design.runs)
    sides = [[0.0] * design.runs, [0.0] * design.runs]
    for value, (side, number) in zip(values, paired_slots(2, design.runs), strict=True):
        sides[side][number] = value * (1 + design.change if side else 1)
    blocks = range(design.runs) if design.is_single else block_numbers(design.runs)
    return PairedCell(sides[0], sides[1], blocks)


def timeline_rates(design: Timeline, trials: int, seed: int) -> dict[Verdict, float]:
    """How often each verdict comes out, as parts of 1."""
    random = Random(f"{seed} {design.draw} {design.change} {design.runs} {design.floor}")
    counts = Counter(timeline_trial(design, random) for _ in range(trials))
    return {verdict: counts[verdict] / trials for verdict in Verdict}


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


_NOISE_SIZES = {
    **{"lognormal": 0.15, "bimodal": 0.08, "bimodal, a whole side": 0.08},
    "one run in five three times slow": 0.02,
}


def _noises() -> Iterator[Design]:
    for draw in NOISES:
        for runs in (3, 5, 10):
            for change in (0.0, -0.10):
                yield Design(_NOISE_SIZES.get(draw, 0.03), change, runs=runs, draw=draw)


SIZES = (-0.06, -0.08, -0.10, -0.15, -0.20, -0.30, -0.40, -0.50, -0.60)


def _power(trials: int, seed: int, runs_of_a_side: Sequence[int] = (3, 5, 10)) -> None:
    """Regressions found by their size, goal and number of runs.

    All sizes have the same draws.
    """
    print("| noise | goal | runs | " + " | ".join(f"{100 * size:.0f} %" for size in SIZES) + " |")
    print("|---" * (3 + len(SIZES)) + "|")
    for draw in NOISES:
        noise = NOISES[draw](_NOISE_SIZES.get(draw, 0.03))
        for goal in ("max", "min"):
            for runs in runs_of_a_side:
                found = [
                    f"{100 * power(noise, size, runs, goal, trials, f'{seed} {draw}'):.0f} %"
                    for size in SIZES
                ]
                print(f"| {draw} | {goal} | {runs}+{runs} | {' | '.join(found)} |", flush=True)


def power(
    noise: Noise, change: float, runs: int, goal: str, trials: int, seed: str, floor: Floor = FLOOR
) -> float:
    """How often a regression of that size is found. With goal `min` the values are times."""
    random, found = Random(seed), 0
    for _ in range(trials):
        before, after = (noise(random, runs) for _ in range(2))
        after = [(1 + change) * value for value in after]
        if goal == "min":
            before, after = ([-1 / value for value in side] for side in (before, after))
        evidence = weigh([CellSides(before, after)], floor)
        found += decide(evidence, evidence.p, floor) is Verdict.REGRESSED
    return found / trials


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
    print(
        "| noise | runs | detectable | found at that | with `confirm` | found at that "
        "| floor that passes | passed at that |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for noise in (0.01, 0.02, 0.03, 0.05):
        for runs in (3, 5, 10):
            row = [f"{100 * noise:.0f} %", f"{runs}+{runs}"]
            for confirm in (False, True):
                fresh, alpha = (Fresh(0, runs), ALPHA * CONFIRMED) if confirm else (None, ALPHA)
                size = detectable(noise, (runs, runs), FLOOR.amount, alpha, fresh)
                if size is None:
                    row += ["-", "-"]
                    continue
                design = Design(noise, -size, runs=runs, confirm=confirm)
                found = rates(design, trials, seed)[Verdict.REGRESSED]
                row += [f"{100 * size:.1f} %", f"{100 * found:.0f} %"]
            floor = excludable(noise, (runs, runs), ALPHA)
            own = Design(noise, 0.0, runs=runs, floor=Floor(floor))
            passed = rates(own, trials, seed)[Verdict.PASS]
            row += [f"{100 * floor:.1f} %", f"{100 * passed:.0f} %"]
            print(f"| {' | '.join(row)} |", flush=True)


def _in_turn(trials: int, seed: int) -> None:
    """Sides that run apart, beside the same in turn: regressed and pass."""
    print(
        "| noise | floor | true change | runs | confirm | apart: regressed | apart: pass "
        "| in turn: regressed | in turn: pass |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    draws = [draw for draw in TIMELINES if draw not in (PACKED, A_JOB_EACH)]
    rows = [(d, c, n, FLOOR, False) for d in draws for n in (5, 10) for c in (0.0, -0.1)]
    strict = ("normal, 3 %", "AR(1) 0.8, 3 %", "-0.5 % a run, 1 %", "another machine half-way, 8 %")
    rows += [(d, 0.0, 10, Floor(0.01), confirm) for d in strict for confirm in (False, True)]
    for draw, change, runs, floor, confirm in rows:
        cells = []
        for in_turn in (False, True):
            design = Timeline(draw, change, runs, in_turn, floor, confirm)
            found = timeline_rates(design, trials, seed)
            cells += [f"{100 * found[v]:.1f} %" for v in (Verdict.REGRESSED, Verdict.PASS)]
        what = [draw, str(floor), f"{100 * change:+.0f} %" if change else "none"]
        what += [f"{runs}+{runs}", "yes" if confirm else "no", *cells]
        print(f"| {' | '.join(what)} |", flush=True)


def _packed(trials: int, seed: int) -> None:
    """Half of all machines 8 % slower, a drift of 0.5 % a run, and a noise of 1 %: the regressions
    found by pairs in one job on one machine, and with a machine for each run.
    """
    changes, runs = (0.0, -0.03, -0.05, -0.08), 5
    heads = [f"{100 * change:.0f} %" if change else "no change" for change in changes]
    print(
        "| jobs | floor | runs | confirm | " + " | ".join(f"{h}: regressed" for h in heads) + " |"
    )
    print("|---" * (4 + len(changes)) + "|")
    for draw in (PACKED, A_JOB_EACH):
        for floor in (Floor(0.01), Floor(0.02), Floor(0.03), FLOOR):
            for confirm in (False, True):
                designs = [Timeline(draw, c, runs, True, floor, confirm) for c in changes]
                found = [timeline_rates(d, trials, seed)[Verdict.REGRESSED] for d in designs]
                what = [draw, str(floor), f"{runs}+{runs}", "yes" if confirm else "no"]
                print(
                    f"| {' | '.join([*what, *(f'{100 * part:.1f} %' for part in found)])} |",
                    flush=True,
                )


def _single_pairs(trials: int, seed: int) -> None:
    """The exchange of blocks beside the exchange of single pairs: changes found."""
    print("| noise | true change | runs | single pairs: regressed | blocks: regressed |")
    print("|---|---|---|---|---|")
    for draw in ("normal, 3 %", "bimodal, 8 %", "one run in five three times slow, 2 %"):
        for runs in (4, 5, 6, 10):
            cells = []
            for is_single in (True, False):
                design = Timeline(draw, -0.1, runs, True, is_single=is_single)
                found = timeline_rates(design, trials, seed)[Verdict.REGRESSED]
                cells.append(f"{100 * found:.1f} %")
            print(f"| {draw} | -10 % | {runs}+{runs} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--in-turn", action="store_true", help="only the table of runs in turn")
    parser.add_argument("--runs", type=int, nargs="+", default=[3, 5, 10], help="of --sizes")
    parser.add_argument("--sizes", action="store_true", help="only the table of power by size")
    parser.add_argument("--forecast", action="store_true", help="only the table of predictions")
    parser.add_argument("--packed", action="store_true", help="only the table of packed jobs")
    options = parser.parse_args()
    if options.forecast:
        _detection(options.trials, options.seed)
        return
    if options.packed:
        _packed(options.trials, options.seed)
        return
    if options.sizes:
        _power(options.trials, options.seed, options.runs)
        return
    if options.in_turn:
        _in_turn(options.trials, options.seed)
        print()
        _single_pairs(options.trials, options.seed)
        return
    print(f"{options.trials} trials a row, seed {options.seed}, floor 5 %, alpha {ALPHA:g}.\n")
    _table(_curve(), options.trials, options.seed)
    print()
    _table(_noises(), options.trials, options.seed)
    print()
    _power(options.trials, options.seed)
    print()
    _table(_matrices(), options.trials, options.seed)
    rare = Design(0.05, -0.10)
    wrong = rates(rare, 20 * options.trials, options.seed)[Verdict.PASS]
    print(
        f"\nOf {20 * options.trials} regressions of 10 % in noise of 5 %, {100 * wrong:.2f} % pass."
    )
    print()
    _in_turn(options.trials, options.seed)
    print()
    _single_pairs(options.trials, options.seed)
    print()
    _packed(options.trials, options.seed)
    print()
    _detection(options.trials, options.seed)
    print("\n| noise | runs | intervals of 90 % that have the true effect |\n|---|---|---|")
    for runs in (3, 4, 5, 10):
        part = coverage(Design(0.03, -0.05, runs=runs), max(1, options.trials // 2), options.seed)
        print(f"| normal, 3 % | {runs}+{runs} | {100 * part:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
