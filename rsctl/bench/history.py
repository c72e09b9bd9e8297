"""A history: the samples of one job over commits, in a file that only grows.

The file has one JSON object a line: what one bench measured at one commit. `history_files` has its
bytes, `history_series` the series of single metrics and cells. Lines come from anywhere that may
write the file, so each is checked as it is read.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, Optional

import msgspec

from rsctl.bench.fingerprint import Cell
from rsctl.bench.results import Results
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import CURVE
from rsctl.runs.stream.events import now

VERSION = 1
"""The version of a line."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST_NAME = 400
_MOST_VALUES = 10_000
_KEPT = ("run.time", "run.step", "run.cost", "run.goodput")


class RecordedMetric(msgspec.Struct, kw_only=True):
    """One metric of one cell: one value per run, and how the value comes about."""

    name: str
    unit: Optional[str] = None
    goal: Optional[Literal["min", "max"]] = None
    definition: dict[str, Any] = {}
    values: list[float]


class RecordedCell(msgspec.Struct, kw_only=True):
    """One cell of the job's matrix; `fixed` is what must be equal for values to be compared."""

    cell: Cell = {}
    fixed: dict[str, Any] = {}
    metrics: list[RecordedMetric]


class HistoryRecord(msgspec.Struct, kw_only=True):
    """One line: what `of`, a bench, measured of `job` at a commit.

    `committed` is the committer's time of the commit and `recorded` that of the line, both in UTC.
    `shown` is what may differ between commits, such as versions of packages.
    """

    version: int = VERSION
    commit: str
    committed: str
    recorded: str
    job: str
    of: str
    cells: list[RecordedCell]
    shown: dict[str, Any] = {}


class History(msgspec.Struct, kw_only=True):
    """The records of a file by the time of their commits, each bench once."""

    label: str
    records: list[HistoryRecord] = []


def make_record(results: Results, job: str, commit: str, seconds: int) -> HistoryRecord:
    """The record of a bench at a commit, whose committer's time is in seconds since 1970.

    Raises RsctlError if there is nothing to record.
    """
    cells = []
    for runs in results.cells:
        metrics = [
            RecordedMetric(
                name=series.name,
                unit=series.unit,
                goal="min" if series.goal == "min" else "max" if series.goal == "max" else None,
                definition=results.fingerprint.metrics.get(series.name, {}),
                values=series.known,
            )
            for series in results.series
            if series.cell == runs.cell and series.known and _is_kept(series.name)
        ]
        if metrics:
            fixed = results.fingerprint.of_cell(runs.cell) or {}
            cells.append(RecordedCell(cell=runs.cell, fixed=fixed, metrics=metrics))
    if not cells:
        reasons = list(dict.fromkeys(why for runs in results.cells for why in runs.lost))
        why = f": {'; '.join(reasons[:3])}" if reasons else ""
        finding = error("history", f"{results.label} has no data to record{why}")
        raise RsctlError(ExitCode.INCONCLUSIVE, finding)
    return HistoryRecord(
        commit=commit,
        committed=_utc(seconds),
        recorded=now()[:19] + "Z",
        job=job,
        of=results.label,
        cells=cells,
        shown=results.fingerprint.shown,
    )


def encode_record(record: HistoryRecord) -> bytes:
    """The line, with its newline."""
    return msgspec.json.encode(record, order="deterministic") + b"\n"


def decode_history(data: bytes, label: str) -> History:
    """The history in a file's bytes. Raises RsctlError, which names the line that is invalid.

    A last line without a newline is one that a killed writer has left: it does not count unless it
    is whole. Of a bench that was recorded twice the later line counts.
    """
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    by_bench: dict[tuple[str, str, str], HistoryRecord] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = _decode(line)
        except ValueError as problem:
            if number == len(lines):
                break
            raise _invalid(label, number, str(problem)) from None
        key = record.job, record.commit, record.of
        by_bench.pop(key, None)
        by_bench[key] = record
    records = sorted(by_bench.values(), key=lambda record: record.committed)
    return History(label=label, records=records)


def without(
    history: History, job: str, benches: Collection[str], commit: Optional[str] = None
) -> History:
    """The history without the state that some benches of a job measure: their records, and all of
    the commits that they were recorded at, or that `commit` names.
    """
    mine = {r.commit for r in history.records if r.job == job and r.of in benches} | {commit}
    kept = [r for r in history.records if r.job != job or r.commit not in mine]
    return History(label=history.label, records=kept)


def short_commit(commit: str) -> str:
    """A commit as people see it."""
    return commit[:10]


def _decode(line: bytes) -> HistoryRecord:
    """A valid record. Raises ValueError."""
    try:
        version = msgspec.json.decode(line, type=_Head).version
        if version != VERSION:
            raise ValueError(f"its version is {version}, but this rsctl reads {VERSION}")
        record = msgspec.json.decode(line, type=HistoryRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise ValueError(str(problem)) from None
    if not _COMMIT.fullmatch(record.commit):
        raise ValueError(f"{record.commit[:80]!r} is not a full commit ID")
    record.committed = _time(record.committed)
    _require_short([record.job, record.of, record.recorded])
    seen = []
    for cell in record.cells:
        key = msgspec.json.encode(cell.cell, order="sorted")
        for metric in cell.metrics:
            _require_short([metric.name, metric.unit or ""])
            if (key, metric.name) in seen:
                raise ValueError(f"it has two entries of {metric.name} for one cell")
            seen.append((key, metric.name))
            if len(metric.values) > _MOST_VALUES:
                raise ValueError(f"{metric.name} has more than {_MOST_VALUES} values")
            if not all(map(math.isfinite, metric.values)):
                raise ValueError(f"{metric.name} has a value that is not finite")
    return record


class _Head(msgspec.Struct):
    version: int


def _time(text: str) -> str:
    """A time in UTC in one form, so that texts compare as times do. Raises ValueError."""
    parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return _utc(int(parsed.timestamp()))
    except (OverflowError, OSError) as problem:
        raise ValueError(f"{text!r}: {problem}") from None


def _utc(seconds: int) -> str:
    from datetime import timezone

    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _require_short(texts: Iterable[str]) -> None:
    for text in texts:
        if len(text) > _LONGEST_NAME:
            raise ValueError(f"a text is longer than {_LONGEST_NAME} characters: {text[:40]!r}…")


def require_recordable(metrics: Iterable[str], known: Collection[str], label: str) -> None:
    """Raise RsctlError for a metric that is not `known` and that no record of a history has."""
    for name in metrics:
        if name not in known and (name.startswith(CURVE) or not _is_kept(name)):
            remedy = "give a file or a bench as --baseline, or remove its allowed regression"
            message = f"{label}: histories do not record {name}"
            raise RsctlError(ExitCode.USAGE, error("gate", message, remedy))


def _is_kept(name: str) -> bool:
    return name in _KEPT or not name.startswith("run.")


def _invalid(label: str, number: int, why: str) -> RsctlError:
    message = f"{label}:{number} is not a valid line of a history: {why}"
    remedy = "remove the line or restore the file; only `gate --record` and `history add` write it"
    return RsctlError(ExitCode.USAGE, error("history", message, remedy))


def known_metrics(records: Sequence[HistoryRecord]) -> list[str]:
    """The names of all metrics, in the order of their first records."""
    return list(
        dict.fromkeys(m.name for record in records for cell in record.cells for m in cell.metrics)
    )
