"""Reads metrics from log lines: by the spec's regexes, from metric lines and from telemetry."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Optional, TypeVar

import msgspec

from rsctl.findings import Finding, warning
from rsctl.stream.cpu_limit import CpuLimit, TooSlow
from rsctl.stream.events import Event, LogEvent, MetricEvent

T = TypeVar("T")

STRUCTURED = '{"rsctl": "'
_MATCH_LIMIT = 4096  # characters of a line that a user's regex gets to see
_NOT_METRICS = frozenset({"rsctl", "step", "rank", "gpus"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./:=()@%+-]{0,99}")
_PARTS = ("transport", "reducer")
_RANKS = range(1 << 16)
_GPUS = range(1000)
_STEPS = 2.0**63  # what the store and JSON readers take as an integer


class MetricSpec(msgspec.Struct, frozen=True):
    """What is known of a metric beyond its values.

    `warmup` and `aggregate` say, as in the job file, how its values become a run's one figure.
    """

    regex: Optional[str] = None
    goal: Optional[str] = None
    unit: Optional[str] = None
    warmup: str = "auto"
    aggregate: str = "median"


def structured(text: str) -> dict[str, Any] | None:
    """The structured line that a log line is, or None. Its `rsctl`, a text, says which kind."""
    if not text.startswith(STRUCTURED):
        return None
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    is_ours = isinstance(record, dict) and isinstance(record["rsctl"], str)
    return record if is_ours else None


MACHINES = ("node.", "cloud.")
"""The prefixes of metrics of machines: those that nodes report themselves, and that clouds do."""


class _Pattern:
    """The regex of one metric, and the CPU time that is left to it."""

    def __init__(self, name: str, regex: str) -> None:
        self.name = name
        self.no_number: str | None = None
        self.limit = CpuLimit()
        self._compiled = re.compile(regex)
        self._group = _value_group(self._compiled)

    def is_in(self, texts: Sequence[str]) -> bool:
        """Whether any of these texts has a match."""
        return any(self._compiled.search(text) for text in texts)

    def read(self, line: LogEvent, text: str) -> Iterator[MetricEvent]:
        """The values in a line's text."""
        for match in self._compiled.finditer(text):
            value = _number(match[self._group])
            if value is not None:
                yield _event(line, self.name, value, _number(match.groupdict().get("step")))
            elif self.no_number is None:
                self.no_number = str(match[self._group])


def metric_findings(
    metrics: Mapping[str, MetricSpec], last: Mapping[str, Mapping[str, float]], is_success: bool
) -> list[Finding]:
    """What is wrong with the metrics of a run that has ended, by replica their last values.

    A metric that was never seen is reported only for a run that has succeeded.
    """
    found: list[Finding] = []
    for name, spec in metrics.items():
        values = {replica: of[name] for replica, of in last.items() if name in of}
        if not values and is_success:
            found += _unseen(name, spec)
        odd = [f"{value:g} on {replica}" for replica, value in values.items() if value - value != 0]
        if odd:
            message = f"the last {name} is {odd[0]}: the training may have diverged"
            remedy = "see where it begins: `rsctl metrics --plot`"
            found.append(warning("metric-nan", message, remedy, f"metrics.{name}"))
    return found


def _unseen(name: str, spec: MetricSpec) -> Iterator[Finding]:
    """A metric without a value; names with a dot are those that rsctl itself measures."""
    if spec.regex:
        message = f"metric {name} has no value: no line of the log has a number by its regex"
        remedy = "compare the regex with `rsctl logs`; --grep tries one"
        yield warning("metric-unseen", message, remedy, f"metrics.{name}.regex")
    elif "." not in name:
        message = f"metric {name} has no value: it has no regex, and the script has not logged it"
        line = f'{STRUCTURED}metrics", "{name}": 0.5}}'
        remedy = f"add metrics.{name}.regex, or have the script print {line}"
        yield warning("metric-unseen", message, remedy, f"metrics.{name}")


class MetricReader:
    """Reads the metrics of one job out of its log.

    A metric whose regex takes far too long on a log is switched off, with a finding.
    """

    def __init__(self, metrics: Mapping[str, MetricSpec]) -> None:
        self._patterns = [_Pattern(n, spec.regex) for n, spec in metrics.items() if spec.regex]
        self._findings: list[Finding] = []

    def take_findings(self) -> list[Finding]:
        """Findings about the reading itself; each is given once."""
        findings, self._findings = self._findings, []
        return findings

    def may_hold_metrics(self, text: str) -> bool:
        """A quick check of a whole block of lines, so that most need not be read line by line."""
        if STRUCTURED in text:
            return True
        if not self._patterns:
            return False
        texts = [line[:_MATCH_LIMIT] for line in text.split("\n")]
        patterns = [*self._patterns]
        return any(self._within_time(p, texts, partial(p.is_in, texts)) for p in patterns)

    def read(self, line: LogEvent) -> Iterator[MetricEvent]:
        """The metrics in one line."""
        return iter(self.read_all([line])[0])

    def read_all(self, lines: Sequence[LogEvent]) -> list[list[MetricEvent]]:
        """The metrics in each of these lines."""
        found: list[list[MetricEvent]] = [[] for _ in lines]
        plain: list[tuple[LogEvent, str, list[MetricEvent]]] = []
        for line, metrics in zip(lines, found, strict=True):
            if line.text.startswith(STRUCTURED) and (record := structured(line.text)):
                metrics += _structured_values(line, record)
            elif self._patterns:
                plain.append((line, line.text[:_MATCH_LIMIT], metrics))
        if plain:
            self._match(plain)
        return found

    def _match(self, lines: list[tuple[LogEvent, str, list[MetricEvent]]]) -> None:
        texts = [text for _, text, _ in lines]

        def match(pattern: _Pattern) -> None:
            known = pattern.no_number
            for line, text, metrics in lines:
                metrics += pattern.read(line, text)
            if known is None and pattern.no_number is not None:
                self._findings.append(_no_number(pattern.name, pattern.no_number))

        for pattern in [*self._patterns]:
            self._within_time(pattern, texts, partial(match, pattern))

    def _within_time(
        self, pattern: _Pattern, texts: list[str], function: Callable[[], T]
    ) -> T | None:
        """Run a pattern on texts within its time; None if it took too long, and is switched off."""
        try:
            return pattern.limit.run(sum(map(len, texts)), function)
        except TooSlow:
            self._patterns = [other for other in self._patterns if other is not pattern]
            message = f"metric {pattern.name} is not read any more: its regex takes too long"
            remedy = "write it without repetitions inside repetitions, such as (a+)+ or (a|aa)*"
            path = f"metrics.{pattern.name}.regex"
            self._findings.append(warning("metric-slow", message, remedy, path))
            return None


def _no_number(name: str, text: str) -> Finding:
    message = f"metric {name}: {text[:60]!r} is no number, and is left out"
    remedy = "let the group take the number alone: loss=([0-9.eE+-]+)"
    return warning("metric-value", message, remedy, f"metrics.{name}.regex")


def _structured_values(line: LogEvent, record: dict[str, Any]) -> Iterator[MetricEvent]:
    """The metrics of a structured line."""
    if record["rsctl"] == "metrics":
        yield from _named_values(line, record, "")
    elif record["rsctl"] == "telemetry":
        yield from _named_values(line, record, "node.")
        yield from _gpu_values(line, record.get("gpus"))
        for part in _PARTS:
            yield from _part_values(line, part, record.get(part))


def _value_group(pattern: re.Pattern[str]) -> int:
    """The group named `value`, else the first that is not the step."""
    names = pattern.groupindex
    others = [group for group in range(1, pattern.groups + 1) if group != names.get("step")]
    return names.get("value") or next(iter(others), 1)


def _named_values(line: LogEvent, record: dict[str, Any], prefix: str) -> Iterator[MetricEvent]:
    step = _number(record.get("step"))
    for name, raw in record.items():
        value = _number(raw)
        if name not in _NOT_METRICS and value is not None and _NAME.fullmatch(name):
            yield _event(line, prefix + name, value, step)


def _gpu_values(line: LogEvent, gpus: Any) -> Iterator[MetricEvent]:
    for gpu in gpus if isinstance(gpus, list) else []:
        if isinstance(gpu, dict) and type(gpu.get("index")) is int and gpu["index"] in _GPUS:
            named = {name: value for name, value in gpu.items() if name != "index"}
            yield from _named_values(line, named, f"node.gpu{gpu['index']}.")


def _part_values(line: LogEvent, part: str, fields: Any) -> Iterator[MetricEvent]:
    """What one part of a node reports; `late` has how long others wait for some ranks."""
    if not isinstance(fields, dict):
        return
    yield from _named_values(line, fields, f"node.{part}.")
    late = fields.get("late")
    for rank in late if isinstance(late, list) else []:
        if isinstance(rank, dict) and type(rank.get("rank")) is int and rank["rank"] in _RANKS:
            waited = {"mean_ms": rank.get("mean_ms")}
            yield from _named_values(line, waited, f"node.{part}.late.{rank['rank']}.")


def _number(raw: Any) -> float | None:
    """A number, or one written as text; nan and inf count, since a diverged loss is news."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return None


def _event(line: LogEvent, name: str, value: float, step: float | None) -> MetricEvent:
    whole = int(step) if step is not None and abs(step) < _STEPS else None
    return MetricEvent(time=line.time, replica=line.replica, name=name, value=value, step=whole)


class Tally:
    """Running figures of every metric, whatever their number of values.

    `recent` keeps the last values of each, for a sparkline.
    """

    def __init__(self, metrics: Mapping[str, MetricSpec], recent: int = 40) -> None:
        self._specs = metrics
        self._figures: dict[str, dict[str, Any]] = {}
        self.recent: dict[str, deque[float]] = {}
        self._keep = recent

    def add(self, name: str, value: float) -> None:
        """Count one value."""
        spec = self._specs.get(name)
        figures = self._figures.setdefault(name, {"last": value, "count": 0})
        figures["last"] = value
        figures["count"] += 1
        if spec and spec.goal and math.isfinite(value):
            better = min if spec.goal == "min" else max
            figures["best"] = better(figures.get("best", value), value)
        if spec and spec.unit:
            figures["unit"] = spec.unit
        self.recent.setdefault(name, deque(maxlen=self._keep)).append(value)

    def summary(self, nodes: bool = False) -> dict[str, dict[str, Any]]:
        """Of each metric its last value, its count, its best by the goal, and its unit.

        What describes machines, not the training, is left out unless `nodes`.
        """
        figures = self._figures.items()
        return {name: dict(f) for name, f in figures if nodes or not name.startswith(MACHINES)}


def with_metrics(events: list[Event], reader: MetricReader, tally: Tally) -> list[Event]:
    """The events, with those metrics that their log lines hold after each line; they are counted.

    Metrics that cannot be read are findings of the run's supervisor or collector.
    """
    found = iter(reader.read_all([event for event in events if isinstance(event, LogEvent)]))
    result: list[Event] = []
    for event in events:
        result.append(event)
        if isinstance(event, LogEvent):
            for metric in next(found):
                tally.add(metric.name, metric.value)
                result.append(metric)
    return result
