"""Text of the checks of a gate, for people."""

from __future__ import annotations

from rsctl.bench.checks import MetricCheck
from rsctl.findings import counted
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.sanitize import sanitize_text

HEAD = ("VERDICT", "METRIC", "BASELINE MEDIAN", "MEDIAN NOW", "EFFECT [90 %]", "ALLOWED", "P")


def check_row(check: MetricCheck) -> list[str]:
    """A check as a row of the table with this head."""
    return [
        check.verdict.value,
        check.title,
        format_median(check, check.baseline),
        format_median(check, check.value),
        format_effect(check),
        format_amount(check, check.floor, signed=False),
        format_p(check),
    ]


def format_check(check: MetricCheck) -> str:
    """The result of a check in one line."""
    parts = [part for part in (_values(check), _effect(check), check.reason) if part]
    return sanitize_text("; ".join(parts) or check.verdict.value)


def format_effect(check: MetricCheck) -> str:
    """The effect with its interval: `-10.2 % [-12.0, -8.1]`; empty if there is none."""
    if check.effect is None:
        return ""
    return f"{format_amount(check, check.effect)}{_interval(check)}"


def format_amount(check: MetricCheck, value: float, signed: bool = True) -> str:
    """An effect or a floor, as it is measured: percent, or the metric's unit."""
    sign = "+" if signed else ""
    value += 0.0  # no minus before a zero
    if check.is_relative:
        return f"{100 * value:{sign}.3g} %"
    return f"{value:{sign}.4g}{_unit(check)}"


def format_median(check: MetricCheck, value: float | None) -> str:
    """A median with its unit; `-` where there is none."""
    return "-" if value is None else f"{format_number(value)}{_unit(check)}"


def format_p(check: MetricCheck) -> str:
    """The adjusted p, by which it is decided."""
    return "" if check.p_adjusted is None else f"{check.p_adjusted:.3g}"


def _values(check: MetricCheck) -> str:
    if check.baseline is None or check.value is None:
        return ""
    return f"median {format_median(check, check.baseline)} -> {format_median(check, check.value)}"


def _effect(check: MetricCheck) -> str:
    if check.effect is None:
        return ""
    p = f", p {format_p(check)}" if format_p(check) else ""
    allowed = format_amount(check, check.floor, signed=False)
    runs = "{}+{} runs".format(*check.runs)
    runs = runs if check.pairs is None else counted(check.pairs, "pair")
    return f"{format_effect(check)}{p}, {allowed} allowed, {runs}"


def _interval(check: MetricCheck) -> str:
    if check.interval is None:
        return ""
    factor = 100 if check.is_relative else 1
    low, high = (factor * bound + 0.0 for bound in check.interval)
    return f" [{low:+.3g}, {high:+.3g}]"


def _unit(check: MetricCheck) -> str:
    return f" {check.unit}" if check.unit else ""
