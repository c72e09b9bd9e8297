"""A gate and a comparison as Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rsctl.bench.checks import MetricCheck
from rsctl.bench.compare import Compared, Comparison, compare, effect_texts
from rsctl.bench.formats.text import check_row
from rsctl.bench.gate import Gate
from rsctl.bench.results import Results, cell_label
from rsctl.bench.verdict import Verdict
from rsctl.findings import counted
from rsctl.runs.stream.sanitize import sanitize_document

_SIGNS = {
    Verdict.PASS: "✅ pass",
    Verdict.REGRESSED: "❌ regressed",
    Verdict.INCONCLUSIVE: "⚠️ inconclusive",
    Verdict.NO_DATA: "⚠️ no data",
}
_NOT_IN_MARKERS = re.compile(r"[^A-Za-z0-9_.-]|(?<=-)-")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#@!&])")
_REFERENCE = re.compile(r"[@#$]|:[a-z+-][\w+-]*:|://|www\.|\bGH-\d", re.IGNORECASE)
_MOST_DIFFERENCES = 50
_LONGEST_TEXT = 300
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_CUT_TABLE = "\n\nThis text is cut: the results are too many to be shown here.\n"

MOST_COMMENT_BYTES = 65536
"""The limit of a comment on GitHub is 65,536 characters, of which none has less than one byte."""


def gate_comment(gate: Gate, name: str) -> str:
    """The gate of a job as the comment on a change: it begins with a hidden marker.

    A pipeline edits the comment with this marker and no other one. The text is cut at the limit of
    GitHub, and says so.
    """
    marker = _marker(name)
    return marker + gate_within(gate, MOST_COMMENT_BYTES - len(marker))


def ungated_comment(results: Results, names: Sequence[str], name: str) -> str:
    """The medians of some metrics of a job that was compared with nothing, as such a comment."""
    table = comparison_markdown(compare([results], names))
    text = f"{_marker(name)}### No verdict: compared with nothing\n\n{table}"
    if len(text.encode()) <= MOST_COMMENT_BYTES:
        return text
    room = MOST_COMMENT_BYTES - len(_CUT_TABLE)
    return text.encode()[:room].rpartition(b"\n")[0].decode() + _CUT_TABLE


def _marker(name: str) -> str:
    return f"<!-- rsctl gate {_NOT_IN_MARKERS.sub('_', name)} -->\n"


def gate_within(gate: Gate, room: int) -> str:
    """The gate in at most so many bytes: of many checks the worst; empty if there is no room."""
    low, high = 0, len(gate.checks)
    while low < high:
        middle = (low + high + 1) // 2
        if len(gate_markdown(gate, middle).encode()) <= room:
            low = middle
        else:
            high = middle - 1
    short = f"{_heading(gate)}\nThis text is cut: the checks are too large to be shown here.\n"
    texts = (gate_markdown(gate, low), short)
    return next((text for text in texts if len(text.encode()) <= room), "")


def gate_markdown(gate: Gate, most: int | None = None) -> str:
    """The gate, its checks the worst first, `most` of them at most."""
    checks = gate.worst_first
    shown = checks[:most]
    parts = [_heading(gate)]
    if gate.refused:
        parts.append(_differences("The baseline was measured under other conditions", gate.refused))
    parts.append(_table(_GATE_HEAD, [_gate_row(check) for check in shown]))
    if len(shown) < len(checks):
        left = counted(len(checks) - len(shown), "more check is", "more checks are")
        parts.append(f"\nThis text is cut: {left} not shown.\n")
    if gate.outdated:
        parts.append(
            _differences("Better than the baseline by more than it may be worse", gate.outdated)
        )
    if gate.moved:
        parts.append(_differences("Longer in each step", gate.moved))
    if gate.missing_steps:
        parts.append(f"\nWhat became longer is unknown: {gate.missing_steps}.\n")
    if gate.differences:
        parts.append(_differences("Differences between them", gate.differences))
    return "\n".join(parts)


def _heading(gate: Gate) -> str:
    sign, _, word = _SIGNS[gate.verdict].partition(" ")
    said = f"{word}: " if gate.verdict is Verdict.PASS else ""  # other headlines have the word
    if gate.is_too_good:
        sign, said = "❌", f"{said}the baseline is outdated; "
    return f"### {sign} {said}{_safe(gate.headline)}\n"


def comparison_markdown(comparison: Comparison) -> str:
    """The comparison: what differs, then one table."""
    labels = [f"{_safe(side.label)}, median" for side in comparison.sides]
    parts = []
    if comparison.differences:
        parts.append(_differences("Differences", comparison.differences))
    head = ["metric", "cell", *labels, *(["effect", "90 % interval", "p"] if labels[1:] else [])]
    parts.append(_table(head, [_row(metric, len(labels)) for metric in comparison.metrics]))
    remarks = [f"- {_safe(_name(m))}: {_safe(m.remark)}" for m in comparison.metrics if m.remark]
    return "\n".join([*parts, *([""] if remarks else []), *dict.fromkeys(remarks)]) + "\n"


_GATE_HEAD = (
    *("verdict", "metric", "baseline median", "median now", "effect, 90 % interval"),
    *("allowed", "p", "why"),
)


def _gate_row(check: MetricCheck) -> list[str]:
    columns = map(_safe, check_row(check)[1:])
    return [_SIGNS[check.verdict], *columns, _safe(check.reason or "")]


def _row(metric: Compared, sides: int) -> list[str]:
    values = [
        side.text if side.value is None else f"{side.text} (n={side.n})" for side in metric.sides
    ]
    row = [_safe(metric.name), _safe(_cell(metric)), *map(_safe, values)]
    if sides < 2:
        return row
    return [*row, *effect_texts(metric)]


def _name(metric: Compared) -> str:
    return f"{metric.name} ({_cell(metric)})" if _cell(metric) else metric.name


def _cell(metric: Compared) -> str:
    return "all cells" if metric.cell is None else cell_label(metric.cell)


def _differences(title: str, differences: Sequence[object]) -> str:
    lines = [f"- {_safe(str(difference))}" for difference in differences[:_MOST_DIFFERENCES]]
    if differences[_MOST_DIFFERENCES:]:
        lines.append(f"- and {len(differences) - _MOST_DIFFERENCES} more")
    return "\n".join([f"{title}:", "", *lines, ""])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _safe(text: str) -> str:
    """Text of unknown origin: no markup, no link, no mention, no new line.

    GitHub finds mentions, issues, addresses, formulas (`$x$`) and emoji (`:x:`) also behind a
    backslash, but not in code.
    """
    text = sanitize_document(text)
    text = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + _CUT
    return _code(text) if _REFERENCE.search(text) else _SPECIAL.sub(r"\\\1", text)


def _code(text: str) -> str:
    """A code span; a bar would end the cell of a table also there."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    inside = text.replace("|", "\N{BROKEN BAR}")
    return f"{fence} {inside} {fence}" if longest else f"{fence}{inside}{fence}"
