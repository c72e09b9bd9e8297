"""`python -m benchmarks.convergence [--quick]`: a table of time to the same loss; curves kept.

Each training is one line of `--keep`, written when it ends. A file that exists is continued: what
it has is not measured again, so that an interrupted measurement loses one training.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from benchmarks.convergence.cluster import Curve, Trial, train
from benchmarks.convergence.methods import METHODS
from benchmarks.convergence.table import table

_STEPS = {"digits": 400, "text": 800}


def main() -> int:
    """Run all trainings that were asked for and print the table; nothing is asserted."""
    options = _parse()
    kept = _kept(options.keep)
    for trial in _trials(options):
        if trial in kept or options.table:
            continue
        kept[trial] = train(trial)
        with options.keep.open("a") as file:
            file.write(json.dumps({**asdict(trial), "curve": kept[trial]}) + "\n")
        step, seconds, loss = kept[trial][-1]
        text = f"{trial}: {seconds:.1f} s for {step} steps, loss {loss:.4f}"
        print(text, file=sys.stderr, flush=True)
    print(table(kept))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence")
    parser.add_argument("--tasks", nargs="*", choices=list(_STEPS), default=list(_STEPS))
    parser.add_argument("--workers", nargs="*", type=int, default=[4, 8])
    parser.add_argument("--mbit", nargs="*", type=float, default=[20, 50, 200])
    installed = [name for name, m in METHODS.items() if m.needs is None or find_spec(m.needs)]
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=installed)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--steps", type=int, help=f"default: {_STEPS}")
    parser.add_argument("--keep", type=Path, default=Path("convergence.jsonl"), metavar="FILE")
    parser.add_argument("--table", action="store_true", help="measure nothing, print what is kept")
    parser.add_argument(
        "--quick", action="store_true", help="one training: the figures mean nothing"
    )
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.workers, options.mbit = ["digits"], [2], [200.0]
        options.methods, options.seeds, options.steps = ["int8"], 1, 3
        options.keep = Path("/dev/null")
    return options


def _trials(options: argparse.Namespace) -> list[Trial]:
    """Seeds last but for methods: what is compared is measured side by side."""
    chosen = itertools.product(
        options.tasks, options.workers, options.mbit, range(options.seeds), options.methods
    )
    return [
        Trial(task, workers, mbit, method, seed, options.steps or _STEPS[task])
        for task, workers, mbit, seed, method in chosen
    ]


def _kept(path: Path) -> dict[Trial, Curve]:
    lines = path.read_text().splitlines() if path.is_file() else []
    rows = [json.loads(line) for line in lines]
    return {
        Trial(**{k: v for k, v in row.items() if k != "curve"}): [tuple(p) for p in row["curve"]]
        for row in rows
    }


if __name__ == "__main__":
    sys.exit(main())
