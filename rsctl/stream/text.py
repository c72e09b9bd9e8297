"""Events as lines of text: `worker-0 | line`, with a colour for each replica if asked."""

from __future__ import annotations

from typing import Any

from rsctl.stream.clean import clean_line
from rsctl.stream.events import LogEvent
from rsctl.stream.metrics import structured

_COLORS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_HIDDEN = frozenset({"telemetry", "exit", "finding"})  # shown in other ways


class LineFormat:
    """Formats log lines. Prefixes are as wide as the longest replica name so far."""

    def __init__(self, color: bool, replicas: list[str] | None = None) -> None:
        self._color = color
        self._prefixes: dict[str, str] = {}
        self._width = max((len(name) for name in replicas or ()), default=8)

    def lines(self, events: list[LogEvent]) -> str:
        """The text of a batch of lines, each ended; structured lines are put into words."""
        parts = []
        for event in events:
            text = event.text
            if text.startswith('{"rsctl'):
                shown = _in_words(text)
                if shown is None:
                    continue
                text = shown
            prefix = self._prefixes.get(event.replica) or self._prefix(event.replica)
            parts.append(f"{prefix}{clean_line(text)}\n")
        return "".join(parts)

    def _prefix(self, replica: str) -> str:
        name = f"{clean_line(replica):<{self._width}} | "
        if self._color:
            name = f"\x1b[{_COLORS[len(self._prefixes) % len(_COLORS)]}m{name}\x1b[0m"
        self._prefixes[replica] = name
        return name


def _in_words(text: str) -> str | None:
    """A metrics line as `step 10  loss=0.41`; None for lines that are shown in other ways."""
    record = structured(text)
    if record is None:
        return text
    if record["rsctl"] in _HIDDEN:
        return None
    return _metric_words(record) if record["rsctl"] == "metrics" else text


def _metric_words(record: dict[str, Any]) -> str:
    step = f"step {record['step']}  " if "step" in record else ""
    values = (f"{n}={v}" for n, v in record.items() if n not in ("rsctl", "step", "rank"))
    return step + " ".join(values)


def seconds_in_words(seconds: float) -> str:
    """`0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number_in_words(value: float) -> str:
    """Four significant digits; thousands in full."""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e12 else f"{value:.4g}"


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 20) -> str:
    """The last values as bars from the lowest to the highest; values that are not finite as `×`."""
    shown = values[-width:]
    finite = [v for v in shown if abs(v) != float("inf") and v == v]
    if not finite:
        return "×" * len(shown)
    low, span = min(finite), max(finite) - min(finite)
    bars = []
    for value in shown:
        if value != value or abs(value) == float("inf"):
            bars.append("×")
        else:
            bars.append(_BARS[round((value - low) / span * 7)] if span else _BARS[3])
    return "".join(bars)
