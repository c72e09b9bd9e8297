"""The series of a history: one metric of one cell over commits, measured under one condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Optional

import msgspec
from msgspec.structs import replace

from rsctl.bench.fingerprint import Cell
from rsctl.bench.history import History, HistoryRecord, known_metrics, short_commit
from rsctl.bench.results import cell_label, describe_cell
from rsctl.bench.steps import SHORTEST, find_steps, middle
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.matrix import format_value
from rsctl.job.suggestions import close_match
from rsctl.runs.stream.formatting import format_change

_CERTAIN = 0.999


class CommitPoint(msgspec.Struct, kw_only=True):
    """The values of one commit: one per run, from all `benches` of the commit."""

    commit: str
    committed: str
    values: list[float]
    benches: list[str] = []

    @property
    def value(self) -> float:
        """The median of the runs, by which steps are found."""
        return middle(self.values)


class FoundStep(msgspec.Struct, kw_only=True):
    """A change of level, most likely at `commit`; `position` is its index in the series.

    The change is after the commit `after` and not after the commit `until`. `size` is relative to
    the level before it, None if that is zero; `level_before` and `level` are medians over commits.
    `confidence` is the probability that a series without a step does not look like this.
    """

    position: int
    commit: str
    after: str
    until: str
    first: int
    last: int
    level_before: float
    level: float
    size: Optional[float]
    confidence: float
    is_worse: Optional[bool] = None

    @property
    def range(self) -> str:
        """The commits between which it is, as git takes them."""
        return f"{short_commit(self.after)}..{short_commit(self.until)}"

    @property
    def size_text(self) -> str:
        """`+12.3 %`, or the two levels if there is no percentage."""
        if self.size is None:
            return f"{self.level_before:.4g} -> {self.level:.4g}"
        return format_change(self.size)

    @property
    def confidence_text(self) -> str:
        """`99.4 %`, at most `> 99.9 %`."""
        return "> 99.9 %" if self.confidence > _CERTAIN else f"{100 * self.confidence:.1f} %"


class HistorySeries(msgspec.Struct, kw_only=True):
    """One metric of one cell over commits, in the order of the commits' times.

    `fixed` and `definition` are how all of it was measured, `shown` what may differ, of the latest
    commit; `condition` says what distinguishes it from the other series of the metric and cell,
    empty if there are none.
    """

    job: str
    metric: str
    cell: Cell
    unit: Optional[str] = None
    goal: Optional[str] = None
    fixed: dict[str, Any] = {}
    definition: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    condition: str = ""
    points: list[CommitPoint] = []
    steps: list[FoundStep] = []

    @property
    def title(self) -> str:
        """The metric, its cell and its condition, for people."""
        text = describe_cell(self.cell, self.metric)
        return f"{text}: {self.condition}" if self.condition else text

    @property
    def where(self) -> str:
        """The cell, for people; empty for the one cell of a job without a matrix."""
        return cell_label(self.cell)

    @property
    def found(self) -> str:
        """Whether steps were found, in a few words."""
        if self.is_short:
            return f"unknown, at least {SHORTEST} commits are necessary"
        return str(len(self.steps)) if self.steps else "none"

    @property
    def is_short(self) -> bool:
        """Whether there are too few commits to find a step."""
        return len(self.points) < SHORTEST

    def levels(self) -> list[tuple[int, int, float]]:
        """The index of the first and last commit of each level, and its median."""
        ends = [0, *(step.position for step in self.steps), len(self.points)]
        return [
            (start, end - 1, middle([point.value for point in self.points[start:end]]))
            for start, end in pairwise(ends)
        ]

    def window(self, most: int) -> list[CommitPoint]:
        """The last commits since the last step, at most so many.

        Of commits with the same bench, such as one and the revert to it, the last.
        """
        found: list[CommitPoint] = []
        seen: set[str] = set()
        since = self.steps[-1].position if self.steps else 0
        for point in reversed(self.points[since:]):
            if seen.isdisjoint(point.benches):
                found.insert(0, point)
                seen.update(point.benches)
        return found[-most:]


def make_series(history: History, most: int | None = None) -> list[HistorySeries]:
    """All series of a history with their steps, those of one metric and cell after one another.

    With `most` only that many commits at the end of each. Successive commits that one bench stands
    for are the first of them.
    """
    found: dict[tuple[str, str, bytes, bytes, bytes], HistorySeries] = {}
    points: dict[tuple[int, str], CommitPoint] = {}
    for record in _measured(history.records):
        for cell in record.cells:
            for metric in cell.metrics:
                if not metric.values:
                    continue
                where, how = _key(cell.cell), _key(cell.fixed)
                key = (record.job, metric.name, where, how, _key(metric.definition))
                series = found.setdefault(
                    key,
                    HistorySeries(
                        job=record.job,
                        metric=metric.name,
                        cell=cell.cell,
                        fixed=cell.fixed,
                        definition=metric.definition,
                    ),
                )
                series.shown = record.shown
                series.unit, series.goal = metric.unit or series.unit, metric.goal or series.goal
                point = points.get((id(series), record.commit))
                if point is None:
                    point = CommitPoint(commit=record.commit, committed=record.committed, values=[])
                    points[id(series), record.commit] = point
                    series.points.append(point)
                point.values += metric.values
                point.benches.append(record.of)
    groups: dict[tuple[str, str, bytes], list[HistorySeries]] = {}
    for (job, name, cell_key, _, _), series in found.items():
        groups.setdefault((job, name, cell_key), []).append(series)
    for group in groups.values():
        _distinguish(group)
    ordered = [series for group in groups.values() for series in group]
    for series in ordered:
        series.points = series.points[-most:] if most else series.points
        series.steps = _steps(series)
    return ordered


def _measured(records: Iterable[HistoryRecord]) -> list[HistoryRecord]:
    """The records, of a bench at successive commits one: the first, with the data of the last.

    A commit that changes nothing of a job has the runs of the commit before. Counted again, they
    look like commits without noise, between which each change is a step.
    """
    kept: list[HistoryRecord] = []
    commits: dict[str, str] = {}
    latest: dict[str, dict[str, int]] = {}
    before: dict[str, dict[str, int]] = {}
    for record in records:
        job, of = record.job, record.of
        if commits.get(job) != record.commit:
            commits[job], before[job], latest[job] = record.commit, latest.get(job, {}), {}
        index = latest[job][of] = before[job].get(of, len(kept))
        if index < len(kept):
            kept[index] = replace(kept[index], cells=record.cells, shown=record.shown)
        else:
            kept.append(record)
    return kept


def select(
    series: Sequence[HistorySeries], history: History, metrics: Sequence[str], cells: Sequence[str]
) -> list[HistorySeries]:
    """The series of some metrics, and of cells with all of the given `KEY=VALUE`.

    By default those of the jobs' own metrics, and `run.*` if there are no others. Raises
    RsctlError if there is no such metric or cell.
    """
    names = known_metrics(history.records)
    for name in metrics:
        if name not in names:
            near = close_match(name, names)
            remedy = f"did you mean {near}?" if near else f"metrics: {', '.join(names) or 'none'}"
            finding = error("history", f"{history.label} has no metric {name!r}", remedy)
            raise RsctlError(ExitCode.USAGE, finding)
    own = [name for name in names if not name.startswith("run.")]
    chosen = set(metrics or own or names)
    wanted = [_pair(text) for text in cells]
    kept = [s for s in series if s.metric in chosen and _has(s.cell, wanted)]
    if series and not kept and wanted:
        labels = dict.fromkeys(describe_cell(s.cell, "").strip(" ()") or "-" for s in series)
        message = f"{history.label} has no cell with {', '.join(cells)}"
        remedy = f"cells: {'; '.join(list(labels)[:10])}"
        raise RsctlError(ExitCode.USAGE, error("history", message, remedy))
    return kept


def _pair(text: str) -> tuple[str, str]:
    key, is_pair, value = text.partition("=")
    if not is_pair or not key:
        finding = error(
            "history", f"--cell {text!r} is not KEY=VALUE", "for example workers.count=4"
        )
        raise RsctlError(ExitCode.USAGE, finding)
    return key, value


def _has(cell: Mapping[str, Any], wanted: Iterable[tuple[str, str]]) -> bool:
    return all(key in cell and format_value(cell[key]) == value for key, value in wanted)


def _steps(series: HistorySeries) -> list[FoundStep]:
    points = series.points
    found = []
    for step in find_steps([point.value for point in points]):
        worse = {"max": step.after < step.before, "min": step.after > step.before}
        found.append(
            FoundStep(
                position=step.position,
                commit=points[step.position].commit,
                after=points[step.first - 1].commit,
                until=points[step.last].commit,
                first=step.first,
                last=step.last,
                level_before=step.before,
                level=step.after,
                size=step.size,
                confidence=step.confidence,
                is_worse=worse.get(series.goal or ""),
            )
        )
    return found


def _distinguish(group: Sequence[HistorySeries]) -> None:
    """Say of each of several series of one metric and cell in what it differs."""
    if len(group) < 2:
        return
    about = [{**series.fixed, **_definition(series)} for series in group]
    names = dict.fromkeys(name for one in about for name in one)
    differing = [n for n in names if len({_key(one.get(n)) for one in about}) > 1]
    for series, one in zip(group, about, strict=True):
        series.condition = ", ".join(f"{n} {one[n]}" if n in one else f"no {n}" for n in differing)


def _definition(series: HistorySeries) -> dict[str, Any]:
    return {f"metrics.{series.metric}.{key}": value for key, value in series.definition.items()}


def _key(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
