"""JSON that trackers of benchmarks read: github-action-benchmark and Bencher.

The value of a cell is the median over its runs, as in other outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rsctl.bench.results import Results, Series, cell_label
from rsctl.bench.samples import quantile
from rsctl.bench.stats import LEVEL, mean, stdev, student_t
from rsctl.findings import counted
from rsctl.runs.stream.formatting import distinct_name
from rsctl.runs.stream.sanitize import sanitize_document

_LONGEST_BENCHMARK = 1024
_LONGEST_MEASURE = 64
_IGNORED = "-bencher-ignore"


def github_benchmark(results: Results, goal: str, names: Sequence[str] = ()) -> bytes | None:
    """The input of github-action-benchmark's `customSmallerIsBetter` (goal `min`) or
    `customBiggerIsBetter` (`max`); None if no metric has this goal: it fails on an empty list.
    """
    entries = [
        {
            "name": sanitize_document(s.title),
            "unit": sanitize_document(s.unit or ""),
            "value": quantile(s.known, 0.5),
            **({"range": f"± {stdev(s.known):.4g}"} if s.known[1:] else {}),
            "extra": f"{counted(len(s.known), 'run')} of {sanitize_document(results.label)}: "
            + ", ".join(f"{value:.6g}" for value in s.known),
        }
        for s in _wanted(results, names)
        if s.goal == goal
    ]
    return as_file(entries) if entries else None


def bencher(results: Results, names: Sequence[str] = ()) -> bytes:
    """Bencher Metric Format: a benchmark a cell, a measure a metric, with a 90 % interval of its
    mean, which includes the median.
    """
    benchmarks: dict[str, dict[str, Any]] = {}
    for series in _wanted(results, names):
        label = sanitize_document(cell_label(series.cell) or "job")
        name = distinct_name(label, label.removesuffix(_IGNORED), _LONGEST_BENCHMARK)
        measure = {"value": quantile(series.known, 0.5)}
        if series.known[1:]:
            wide = student_t(1 - (1 - LEVEL) / 2, len(series.known) - 1)
            error = wide * stdev(series.known) / len(series.known) ** 0.5
            middle = mean(series.known)
            measure |= {
                "lower_value": min(middle - error, measure["value"]),
                "upper_value": max(middle + error, measure["value"]),
            }
        benchmarks.setdefault(name, {})[_measure(series)] = measure
    return as_file(benchmarks)


def as_file(value: Any) -> bytes:
    """The bytes of a report."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _wanted(results: Results, names: Sequence[str]) -> Iterator[Series]:
    for series in results.series:
        if series.known and (not names or series.name in names):
            yield series


def _measure(series: Series) -> str:
    return distinct_name(series.name, sanitize_document(series.name), _LONGEST_MEASURE)
