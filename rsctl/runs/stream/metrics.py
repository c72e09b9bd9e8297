"""Reads metrics from log lines: by the spec's regexes, from metric lines and from telemetry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Optional, TypeVar

import msgspec

from rsctl.findings import Finding, warning
from rsctl.runs.stream.cpu_limit import TooSlow
from rsctl.runs.stream.events import LogEvent, MetricEvent
from rsctl.runs.stream.metric_misreadings import pattern_findings
from rsctl.runs.stream.metric_pattern import WINDOW, MatchedNumber, Pattern, number
from rsctl.runs.stream.sanitize import without_escapes
from rsctl.runs.stream.structured import EXAMPLE, is_structured, may_be_structured, unread_line
from rsctl.runs.stream.structured import STRUCTURED as STRUCTURED
from rsctl.runs.stream.structured import structured as structured

T = TypeVar("T")

_BEHIND_BAR = re.compile(r'(?<=.)(?=\{ ?"rsctl" ?: ?"metrics")')
_REDRAWN = re.compile(r"[\n\r]")
_NOT_METRICS = frozenset({"rsctl", "step", "rank", "gpus", "ranks"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./:=()@%+-]{0,99}")
_PARTS = ("transport", "reducer", "checkpoint", "check")
_RANKS = range(1 << 16)
_GPUS = range(1000)
_MOST_FINDINGS = 20
_STEPS = 2.0**63  # the limits of an integer in the store and for JSON readers


class MetricSpec(msgspec.Struct, frozen=True):
    """The properties of a metric besides its values.

    `warmup` and `aggregate` define, as in the job file, how its values become a run's one figure.
    """

    regex: Optional[str] = None
    goal: Optional[str] = None
    unit: Optional[str] = None
    warmup: str = "auto"
    aggregate: str = "median"


MACHINES = ("node.", "cloud.")
"""The prefixes of metrics of machines, as reported by nodes and by clouds."""


def metric_findings(
    metrics: Mapping[str, MetricSpec],
    last: Mapping[str, Mapping[str, float]],
    is_success: bool,
    read_lines: Callable[[], Iterable[str]] = tuple,
) -> list[Finding]:
    """The findings on metrics of a run that has ended; `last` has the last values by replica.

    A metric that was never seen is reported only if the run has succeeded, with a line of the log
    that may have been meant. Undeclared metrics may diverge, too.
    """
    findings: list[Finding] = []
    logged = [name for of in last.values() for name in of if not name.startswith(MACHINES)]
    for name in dict.fromkeys([*metrics, *logged]):
        values = {replica: of[name] for replica, of in last.items() if name in of}
        if not values and is_success:
            findings += _unseen(name, metrics[name], read_lines, bool(logged))
        odd = [f"{value:g} on {replica}" for replica, value in values.items() if value - value != 0]
        if odd:
            message = f"the last {name} is {odd[0]}: the training may have diverged"
            remedy = "to see where it starts: `rsctl metrics --plot`"
            findings.append(warning("metric-nan", message, remedy, f"metrics.{name}"))
    return findings


def _unseen(
    name: str, spec: MetricSpec, read_lines: Callable[[], Iterable[str]], has_logged: bool
) -> Iterator[Finding]:
    """A metric without a value; rsctl itself measures the names with a dot."""
    if not spec.regex and "." in name:
        return
    from rsctl.runs.stream.near_lines import near_line  # only for such a metric

    lines = list(read_lines())
    if not lines and not has_logged:
        message = f"metric {name} has no value: the log is empty"
        remedy = (
            "let the script print it; in a cloud, `rsctl doctor JOB` checks who may write the log"
        )
    elif spec.regex:
        message = f"metric {name} has no value: its regex matches no number in the log"
        remedy = "compare the regex with `rsctl logs`; --grep tests one"
    else:
        message = f"metric {name} has no value: it has no regex, and the script has not logged it"
        line = f'{STRUCTURED}metrics", "{name}": 0.5}}'
        remedy = f"add metrics.{name}.regex, or let the script print {line}"
    if near := near_line(name, spec.regex or "", lines):
        message += f"; the log has: {near.text}"
        in_yaml = near.regex.replace("'", "''")
        remedy = f"regex: '{in_yaml}' reads that number; otherwise {remedy}"
    path = f"metrics.{name}.regex" if spec.regex else f"metrics.{name}"
    yield warning("metric-unseen", message, remedy, path)


CHECKED = "node.check."
"""How the names of the readings of `checks` begin."""

SLOT_MARK = "node.slot"
"""The metric that is stored where a slot of a packed job begins or ends: see `rsctl.runs.slots`."""


def mark_value(key: object) -> float | None:
    """The value of SLOT_MARK for the key of a mark; None for what is not a key."""
    try:
        return float(int(str(key)[:12], 16))
    except ValueError:
        return None


class MetricReader:
    """Reads the metrics of one job out of its log.

    A metric whose regex takes far too long on a log is switched off, with a finding.
    """

    def __init__(self, metrics: Mapping[str, MetricSpec]) -> None:
        self._patterns = [
            Pattern(name, spec.regex, spec.goal, spec.unit)
            for name, spec in metrics.items()
            if spec.regex
        ]
        self._findings: list[Finding] = []
        self._reported: set[str] = set()

    def take_findings(self) -> list[Finding]:
        """Findings about the reading itself; each is given once."""
        findings, self._findings = self._findings, []
        return findings

    def may_hold_metrics(self, text: str) -> bool:
        """A quick check of a whole block of lines, so that most need not be read line by line."""
        if may_be_structured(text):
            return True
        if not self._patterns:
            return False
        texts = _REDRAWN.split(text)
        if any(len(line) > WINDOW for line in texts):
            return True
        texts += [without_escapes(line) for line in texts if "\x1b" in line]
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
            text = line.text
            is_bar = "\r" in text[:-1]
            for part in _BEHIND_BAR.split(text, maxsplit=1) if is_bar else [text]:
                if is_structured(part) and (record := structured(part)):
                    metrics += self._structured_values(line, record)
                elif self._patterns:
                    plain += [(line, state, metrics) for state in part.split("\r")]
            if not metrics and may_be_structured(text) and (unread := unread_line(text)):
                self._report(unread)
        if plain:
            self._match(plain)
        return found

    def _report(self, finding: Finding) -> None:
        """Each problem once, up to a limit."""
        if finding.message not in self._reported and len(self._reported) < _MOST_FINDINGS:
            self._reported.add(finding.message)
            self._findings.append(finding)

    def _structured_values(self, line: LogEvent, record: dict[str, Any]) -> Iterator[MetricEvent]:
        """The metrics of a structured line."""
        if record["rsctl"] == "metrics":
            yield from _named_values(_of_rank(line, record), record, "")
            for finding in _not_metrics(record):
                self._report(finding)
        elif record["rsctl"] == "telemetry":
            yield from _named_values(line, record, "node.")
            yield from _numbered_values(line, record.get("gpus"), "index", _GPUS, "node.gpu")
            yield from _numbered_values(line, record.get("ranks"), "rank", _RANKS, "node.rank")
            for part in _PARTS:
                yield from _part_values(line, part, record.get(part))
        elif record["rsctl"] == "slot" and (value := mark_value(record.get("key"))) is not None:
            yield _event(line, SLOT_MARK, value, None)

    def _match(self, lines: list[tuple[LogEvent, str, list[MetricEvent]]]) -> None:
        texts = [text[:WINDOW] for _, text, _ in lines]
        long = [(line, text, metrics) for line, text, metrics in lines if len(text) > WINDOW]

        def match(pattern: Pattern) -> None:
            for line, text, metrics in lines:
                metrics += _events(line, pattern, pattern.read(text))
            for finding in pattern_findings(pattern):
                self._report(finding)

        for pattern in [*self._patterns]:
            self._within_time(pattern, texts, partial(match, pattern))
            if long and pattern.reads_rest and pattern in self._patterns:
                self._match_rest(pattern, long)

    def _match_rest(
        self, pattern: Pattern, lines: list[tuple[LogEvent, str, list[MetricEvent]]]
    ) -> None:
        """Read the rest of long lines, as long as the regex is fast enough for them."""

        def match() -> None:
            for line, text, metrics in lines:
                metrics += _events(line, pattern, pattern.read_rest(text))

        try:
            pattern.rest_limit.run(sum(len(text) for _, text, _ in lines), match)
        except TooSlow:
            pattern.reads_rest = False
            self._report(_unread_rest(pattern.name))

    def _within_time(
        self, pattern: Pattern, texts: list[str], function: Callable[[], T]
    ) -> T | None:
        """Run a pattern on texts within its time; None if it took too long and was switched off."""
        try:
            return pattern.limit.run(sum(map(len, texts)), function)
        except TooSlow:
            self._patterns = [other for other in self._patterns if other is not pattern]
            message = f"metric {pattern.name} is no longer read: its regex takes too long"
            remedy = "write it without repetitions inside repetitions, such as (a+)+ or (a|aa)*"
            path = f"metrics.{pattern.name}.regex"
            self._findings.append(warning("metric-slow", message, remedy, path))
            return None


def _events(
    line: LogEvent, pattern: Pattern, numbers: Iterator[MatchedNumber]
) -> Iterator[MetricEvent]:
    return (_event(line, pattern.name, value, step) for value, step in numbers)


def _unread_rest(name: str) -> Finding:
    message = (
        f"metric {name} is read in the first {WINDOW} characters of a long line only: its regex "
        "takes too long for the rest"
    )
    remedy = "begin it with the text before the number, not with .*"
    return warning("metric-slow", message, remedy, f"metrics.{name}.regex")


def _not_metrics(record: Mapping[str, Any]) -> Iterator[Finding]:
    """The invalid entries in a line of metrics."""
    for name, raw in record.items():
        if name in _NOT_METRICS:
            continue
        if not _NAME.fullmatch(name):
            message = f"metric name {name[:60]!r} does not match {_NAME.pattern}, and is ignored"
            yield warning("metric-value", message, f"rename it: {EXAMPLE}")
        elif number(raw) is None:
            message = f"metric {name}: {_shown(raw)} is not a number, and is ignored"
            remedy = f"print a number for each key: {EXAMPLE}"
            yield warning("metric-value", message, remedy, f"metrics.{name}")


def _shown(raw: object) -> str:
    return msgspec.json.encode(raw).decode()[:60]


def _named_values(line: LogEvent, record: dict[str, Any], prefix: str) -> Iterator[MetricEvent]:
    step = number(record.get("step"))
    for name, raw in record.items():
        value = number(raw)
        if name not in _NOT_METRICS and value is not None and _NAME.fullmatch(name):
            yield _event(line, prefix + name, value, step)


def _of_rank(line: LogEvent, record: Mapping[str, Any]) -> LogEvent:
    """The line with the rank that `log_metrics` names, for ranks of the chief's node whose lines
    have no mark, such as those of a torchrun that the job's own command starts.
    """
    rank = record.get("rank")
    is_named = type(rank) is int and rank in _RANKS and rank > 0
    if not is_named or line.rank is not None or line.replica != "worker-0":
        return line
    return msgspec.structs.replace(line, rank=f"{line.replica}/{rank}")


def _numbered_values(
    line: LogEvent, entries: Any, key: str, numbers: range, prefix: str
) -> Iterator[MetricEvent]:
    """The values of GPUs, or of ranks, of which each entry has the number."""
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and type(entry.get(key)) is int and entry[key] in numbers:
            named = {name: value for name, value in entry.items() if name != key}
            yield from _named_values(line, named, f"{prefix}{entry[key]}.")


def _part_values(line: LogEvent, part: str, fields: Any) -> Iterator[MetricEvent]:
    """The report of one part of a node; `late` is how long others wait for some ranks."""
    if not isinstance(fields, dict):
        return
    yield from _named_values(line, fields, f"node.{part}.")
    late = fields.get("late")
    ranks = [rank for rank in late if isinstance(rank, dict)] if isinstance(late, list) else []
    waits = [{"rank": rank.get("rank"), "mean_ms": rank.get("mean_ms")} for rank in ranks]
    yield from _numbered_values(line, waits, "rank", _RANKS, f"node.{part}.late.")


def _event(line: LogEvent, name: str, value: float, step: float | None) -> MetricEvent:
    whole = int(step) if step is not None and abs(step) < _STEPS else None
    replica = line.rank or line.replica
    return MetricEvent(time=line.time, replica=replica, name=name, value=value, step=whole)
