"""Formats log lines, durations, sizes and numbers as text for people."""

from __future__ import annotations

import math
from typing import Any

from rsctl.runs.stream.events import LogEvent, seconds_between
from rsctl.runs.stream.profiles import profile_of
from rsctl.runs.stream.redraws import is_bar_state
from rsctl.runs.stream.sanitize import sanitize_line
from rsctl.runs.stream.structured import is_structured, structured
from rsctl.transport import LANGUAGES

_COLORS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_BAR_SECONDS = 5.0
_HIDDEN = frozenset(
    {
        *("node", "telemetry", "redraws", "exit", "ending", "left", "lost", "exits"),
        *("kept", "slots", "slot", "finding", "versions", "steps", "stall", "rank"),
    }
)


class LineFormat:
    """Formats log lines. Prefixes are as wide as the longest of the replica names given first, and
    these get their colours in that order. Of a progress bar it shows a state every five seconds
    and the last one; with `shows_bars` false, only the last one.
    """

    def __init__(self, color: bool, replicas: list[str], shows_bars: bool = True) -> None:
        self._color, self._shows_bars = color, shows_bars
        self._bars: dict[str, str] = {}  # when a state of each was shown
        self._width = max((len(name) for name in replicas), default=8)
        self._prefixes: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        for replica in replicas:
            self._prefix(replica)

    def lines(self, events: list[LogEvent]) -> str:
        """The text of a batch of lines, each ended; structured lines are formatted for people."""
        parts = []
        for event in events:
            text = format_line(event.text)
            name = event.rank or event.replica
            if text is not None and (not is_bar_state(text) or self._is_due(name, event.time)):
                prefix = self._prefixes.get(name) or self._prefix(name)
                parts.append(f"{prefix}{sanitize_line(text)}\n")
        return "".join(parts)

    def _is_due(self, name: str, time: str) -> bool:
        """Whether a progress bar's state is shown, which is neither its last nor a measurement."""
        shown = self._bars.get(name)
        is_due = self._shows_bars and (
            shown is None or seconds_between(shown, time) >= _BAR_SECONDS
        )
        if is_due:
            self._bars[name] = time
        return is_due

    def _prefix(self, name: str) -> str:
        """The prefix of a replica or of a rank; a rank has its replica's colour."""
        if len(name) > self._width:
            self._width = len(name)
            self._prefixes.clear()
        prefix = f"{sanitize_line(name):<{self._width}} | "
        if self._color:
            number = self._numbers.setdefault(name.partition("/")[0], len(self._numbers))
            prefix = f"\x1b[{_COLORS[number % len(_COLORS)]}m{prefix}\x1b[0m"
        self._prefixes[name] = prefix
        return prefix


def format_line(text: str) -> str | None:
    """A metrics line as `step 10  loss=0.41`, a reducer's first as a sentence, None for lines that
    are shown in other ways or are for rsctl alone, any other line as it is.
    """
    record = structured(text) if is_structured(text) else None
    if record is None:
        return text
    if record["rsctl"] in _HIDDEN:
        return None
    form = _FORMATS.get(record["rsctl"])
    return form(record) if form else text


def is_shown(line: LogEvent) -> bool:
    """Whether a line is shown to people: not those that are for rsctl alone."""
    return format_line(line.text) is not None


def _format_metrics(record: dict[str, Any]) -> str:
    step = f"step {record['step']}  " if "step" in record else ""
    values = (f"{n}={v}" for n, v in record.items() if n not in ("rsctl", "step", "rank"))
    return step + " ".join(values)


def _format_reducer(record: dict[str, Any]) -> str:
    engine = str(record.get("engine"))
    return f"rsctl: a reducer at {record.get('address')} ({LANGUAGES.get(engine, engine)} engine)"


def _format_profile(record: dict[str, Any]) -> str | None:
    found = profile_of(record)
    return f"rsctl: {found.describe()}" if found else None


_FORMATS = {"metrics": _format_metrics, "reducer": _format_reducer, "profile": _format_profile}


def format_duration(seconds: float) -> str:
    """`0:07`, `12:30`, `1:02:03`; no time where a clock was set back."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(count: int) -> str:
    """`1.2 GB`, in powers of ten, as docker and disks are measured."""
    value, power = float(count), 0
    while abs(value) >= 999.5 and power < len(_UNITS) - 1:  # which three digits show as 1e+03
        value, power = value / 1000, power + 1
    return f"{value:.3g} {_UNITS[power]}"


def format_number(value: float) -> str:
    """Four significant digits; thousands in full."""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e12 else f"{value:.4g}"


def format_change(part: float) -> str:
    """A relative change as a percentage with its sign, of three digits; thousands in full."""
    percent = 100 * part
    return f"{percent:+,.0f} %" if 999.5 <= abs(percent) < 1e12 else f"{percent:+.3g} %"


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 20) -> str:
    """The last values as bars from the lowest to the highest; values that are not finite as `x`."""
    shown = [value / 2 for value in values[-width:]]  # so that no difference is infinite
    finite = [value for value in shown if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_bar(value - low, high - low) for value in shown)


def _bar(value: float, highest: float) -> str:
    if not math.isfinite(value):
        return "x"
    return _BARS[round(value / highest * 7)] if highest else _BARS[3]


def distinct_name(original: str, name: str, longest: int) -> str:
    """The name that stands for an original, of at most `longest` characters. One that differs from
    its original ends with a hash of it, so that no two originals get one name.
    """
    if name == original and len(name) <= longest:
        return name
    import hashlib  # supervisors, which format lines, do without

    mark = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: longest - len(mark) - 1]}-{mark}"
