"""`python -m benchmarks.transport [CASE...] [--runs N] [--tls]`: JSON lines, as root."""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.transport.cases import CASES, Case
from benchmarks.transport.runner import measure


def main() -> int:
    """Run the cases that were asked for; nothing is asserted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transport")
    parser.add_argument("cases", metavar="CASE", nargs="*", help=f"default: all of {len(CASES)}")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--engine", choices=("core", "python"), help="default: each case's own")
    parser.add_argument("--tls", action="store_true", help="between workers and reducers")
    parser.add_argument("--no-gloo", action="store_true", help="leave out gloo's ring")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    for name in options.cases or CASES:
        case = CASES[name]
        engine = options.engine or case.engine
        row = _row(case, engine, options.runs, options.tls, not options.no_gloo)
        print(json.dumps(row), flush=True)
    return 0


def _row(case: Case, engine: str, runs: int, tls: bool, with_gloo: bool) -> dict[str, object]:
    took, wires = measure(case, engine, runs, tls), case.wire_seconds()
    row: dict[str, object] = {
        "case": case.name,
        "engine": engine,
        "tls": tls,
        "seconds": round(took, 5),
        "wire_seconds": round(wires, 5),
        "of_limit": round(took / wires, 3),
        "allowed": case.limit,
    }
    if with_gloo:
        gloo = measure(case, "gloo", runs)
        row |= {
            "gloo_seconds": round(gloo, 5),
            "faster": round(gloo / took, 2),
            "expected": case.faster,
        }
    return row


if __name__ == "__main__":
    sys.exit(main())
