"""Stands in for training steps: multiplies small matrices without a library."""

import argparse
import time

from rsctl.node import log_metrics


def step(width: int) -> float:
    """Do the work of one step."""
    rows = [[float(i ^ j) for j in range(width)] for i in range(width // 8)]
    column = [1.0 / (1 + j) for j in range(width)]
    return sum(sum(a * b for a, b in zip(row, column, strict=True)) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    for number in range(1, args.steps + 1):
        started = time.perf_counter()
        for _ in range(20):
            step(args.width)
        log_metrics(step=number, throughput=20 / (time.perf_counter() - started))


if __name__ == "__main__":
    main()
