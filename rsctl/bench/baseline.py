"""Baselines: small JSON files of samples with the fingerprint of how they were measured.

They are read from a file, gs://, s3://, or git:REF:PATH, where the change under test cannot edit
them; `baseline_files` has the bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any, Literal, Optional, Union

import msgspec

from rsctl.bench.baseline_files import LARGEST, read_bytes, write_bytes
from rsctl.bench.curves import Curve
from rsctl.bench.fingerprint import Cell, Fingerprint
from rsctl.bench.results import CellRuns, Results, Series, cell_label
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import CURVE
from rsctl.runs.stream.events import now

VERSION = 1
_KEPT = ("run.time", "run.cost")


class BaselineMetric(msgspec.Struct, kw_only=True):
    """One metric of one cell, one value per repetition, None if its run has no data.

    `logged` is the least number of values that a run logged. The `curves` are there where a gate
    compares them.
    """

    name: str
    unit: Optional[str] = None
    goal: Optional[Literal["min", "max"]] = None
    cell: Cell = {}
    values: list[Optional[float]]
    logged: Union[int, msgspec.UnsetType] = msgspec.UNSET
    curves: Union[list[Optional[Curve]], msgspec.UnsetType] = msgspec.UNSET


class Baseline(msgspec.Struct, kw_only=True):
    """The file. `made` is when its values were measured, and of what."""

    version: int
    fingerprint: Fingerprint = msgspec.field(default_factory=Fingerprint)
    made: dict[str, Any] = {}
    metrics: list[BaselineMetric]


def read_baseline(location: str, folder: str = ".") -> Results:
    """The results in a baseline. Paths and git's repository are relative to `folder`.

    Raises RsctlError if it does not exist or is invalid.
    """
    return decode_baseline(read_bytes(location, folder), location)


def decode_baseline(data: bytes, location: str) -> Results:
    """The results of a baseline file's bytes. Raises RsctlError."""
    if len(data) > LARGEST:
        raise _broken(location, f"it is larger than {LARGEST >> 20} MiB")
    data = data.removeprefix(codecs.BOM_UTF8)  # editors and shells of Windows write it
    try:
        version = msgspec.json.decode(data, type=_Head).version
        if version != VERSION:
            raise _broken(location, f"its version is {version}, but this rsctl reads {VERSION}")
        kept = msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise _broken(location, str(problem)) from None
    series = [
        Series(
            name=m.name,
            unit=m.unit,
            goal=m.goal,
            cell=m.cell,
            values=m.values,
            logged=None if m.logged is msgspec.UNSET else m.logged,
            curves=[] if m.curves is msgspec.UNSET else m.curves,
        )
        for m in kept.metrics
    ]
    keys = [(s.name, msgspec.json.encode(s.cell, order="sorted")) for s in series]
    twice = next((name for name, cell in keys if keys.count((name, cell)) > 1), None)
    if twice is not None:
        raise _broken(location, f"it has two entries of {twice} for one cell")
    cells = {msgspec.json.encode(s.cell, order="sorted"): s.cell for s in series}
    made, of = (kept.made.get(name) for name in ("time", "of"))
    return Results(
        label=location,
        of=of if isinstance(of, str) else "",
        kind="baseline",
        fingerprint=kept.fingerprint,
        series=series,
        cells=[CellRuns(cell=cell) for cell in cells.values()],
        made=made if isinstance(made, str) else "",
    )


def make_baseline(results: Results, required: Sequence[str] = ()) -> Baseline:
    """A baseline of what was measured: the job's metrics, the time and money of its runs, and the
    `required` metrics.

    Raises RsctlError where a run has no data for one of the `required`, or a cell for any metric:
    later gates could not check it.
    """
    require_measured(results)
    for name in required:
        for runs in results.cells:
            _require(results, name, runs)
    kept = (*_KEPT, *required)
    metrics = [
        BaselineMetric(
            name=series.name,
            unit=series.unit,
            goal=_goal(series.goal),
            cell=series.cell,
            values=series.finite,
            logged=msgspec.UNSET if series.logged is None else series.logged,
            curves=series.curves if CURVE + series.name in required else msgspec.UNSET,
        )
        for series in results.series
        if series.known and (series.name in kept or not series.name.startswith("run."))
    ]
    for runs in results.cells:
        if all(metric.cell != runs.cell for metric in metrics):
            raise _incomplete(results, "any metric", runs.cell, runs.lost)
    made = {"time": results.made or now(), "of": results.label}
    return Baseline(version=VERSION, fingerprint=results.fingerprint, made=made, metrics=metrics)


def encode_baseline(baseline: Baseline) -> bytes:
    """The file's bytes: a line each value, sorted keys, so that a review sees what changed."""
    text = msgspec.json.format(msgspec.json.encode(baseline, order="deterministic"), indent=2)
    return text + b"\n"


def write_baseline(baseline: Baseline, location: str, folder: str = ".") -> str:
    """Write a baseline to a file, gs:// or s3://; returns where. Raises RsctlError.

    Of git:REF:PATH it writes PATH in the working tree, to be reviewed and committed.
    """
    return write_bytes(encode_baseline(baseline), location, folder)


def require_measured(results: Results) -> None:
    """Raise RsctlError for results of a rehearsal, by which nothing can be judged."""
    if results.is_rehearsed:
        message = f"{results.label} is a rehearsal: its times are measured on this machine"
        remedy = "run the job without --rehearse, and use that bench"
        raise RsctlError(ExitCode.USAGE, error("rehearsed", message, remedy))


class _Head(msgspec.Struct):
    version: int


def _broken(location: str, why: str) -> RsctlError:
    message = f"{location} is not a valid baseline: {why}"
    remedy = "write a baseline with `rsctl gate BENCH --baseline FILE --update-baseline`"
    return RsctlError(ExitCode.USAGE, error("baseline", message, remedy))


def _require(results: Results, name: str, runs: CellRuns) -> None:
    series = results.find(name, runs.cell)
    if series is None or not series.known or len(series.known) < len(series.values):
        reasons = series.reasons if series else runs.lost
        raise _incomplete(results, name, runs.cell, reasons)


def _incomplete(results: Results, name: str, cell: Cell, reasons: Sequence[str]) -> RsctlError:
    of = f" of {cell_label(cell)}" if cell else ""
    why = f": {'; '.join(reasons[:3])}" if reasons else ""
    message = f"{results.label} has no data for {name}{of}{why}"
    remedy = "run the missing runs, or measure again with --new, then write the baseline"
    return RsctlError(ExitCode.INCONCLUSIVE, error("baseline", message, remedy))


def _goal(goal: str | None) -> Literal["min", "max"] | None:
    return "min" if goal == "min" else "max" if goal == "max" else None
