"""The settings of a gate: a baseline, and the regressions that a job's own noise allows."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import NamedTuple

from rsctl.api.arguments import MOST_REPETITIONS, check_count, check_path, checked_names
from rsctl.api.comparison import Measured, results_of
from rsctl.api.gate_candidate import REPEAT
from rsctl.bench.baseline import make_baseline
from rsctl.bench.baseline import write_baseline as write_file
from rsctl.bench.baseline_files import is_location
from rsctl.bench.calibrate import MetricNoise, judgeable
from rsctl.bench.calibrate import calibrate as calibrate_results
from rsctl.bench.history_gate import WINDOW as WINDOW
from rsctl.findings import ExitCode, RsctlError, error


class WrittenBaseline(NamedTuple):
    """Where a baseline was written, and how many runs its values have at least in each cell."""

    location: str
    runs: int


def require_writable(location: str | None) -> str:
    """The location if a baseline can be written there by its name. Raises RsctlError."""
    if location is None or not (is_location(location) or location.endswith(".json")):
        remedy = "give --baseline FILE.json, gs://… or s3://…"
        raise RsctlError(
            ExitCode.USAGE,
            error("baseline", "--update-baseline has no location to write to", remedy),
        )
    return location


def write_baseline(
    source: Measured,
    location: str | PathLike[str],
    *,
    required: Iterable[str] = (),
    folder: str = ".",
) -> WrittenBaseline:
    """Write the measurements to a file, gs:// or s3://, as the baseline of later gates.

    For git:REF:PATH it writes PATH in the working tree; review and commit that file. Paths are
    relative to `folder`. Raises RsctlError, also if a run has no data for a `required` metric:
    later gates could not check that metric.
    """
    place = require_writable(check_path("location", location))
    made = make_baseline(results_of(source), checked_names("required", required))
    written = write_file(made, place, folder)
    runs = min(sum(value is not None for value in m.values) for m in made.metrics)
    return WrittenBaseline(written, runs)


def calibrate(
    source: Measured, *, metrics: Iterable[str] = (), repeat: int = REPEAT
) -> list[MetricNoise]:
    """The noise of identical runs, and the least floor by which an unchanged program passes.

    The floor is for gates of `repeat` runs a side, in 90 % of cases; `metrics` are by default the
    job's own that have a goal. Raises RsctlError.
    """
    check_count("repeat", repeat, 3, MOST_REPETITIONS)
    results = results_of(source)
    names = checked_names("metrics", metrics)
    return calibrate_results(results, names or judgeable(results), repeat)
