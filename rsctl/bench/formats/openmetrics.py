"""GitLab's metrics report: OpenMetrics text 1.0. `labels_text` is for `rsctl ui` too.

One gauge a metric, one sample a cell: the median over its runs, as in other outputs. GitLab
compares the values as texts, so that they are short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rsctl.bench.results import Results, Series
from rsctl.bench.samples import quantile
from rsctl.job.matrix import format_value
from rsctl.runs.stream.sanitize import escape_control

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_RESERVED = ("total", "created", "bucket", "count", "sum", "info", "gsum", "gcount")


def openmetrics(results: Results, names: Sequence[str] = ()) -> str:
    """The samples of all metrics, or of those named; a metric without data is left out."""
    lines: list[str] = []
    used: dict[str, str] = {}
    for name in dict.fromkeys(series.name for series in results.series):
        known = [s for s in results.series if s.name == name and s.known]
        if not known or (names and name not in names):
            continue
        family = _family(name, used)
        lines.append(f"# TYPE {family} gauge")
        lines.append(f"# HELP {family} {_escaped(_help(name, known[0]))}")
        lines += [
            f"{family}{_labels(series)} {quantile(series.known, 0.5):.6g}" for series in known
        ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family(name: str, used: dict[str, str]) -> str:
    """A name of OpenMetrics for a metric; those that would be alike get a number."""
    text = "rsctl_" + _NOT_IN_NAMES.sub("_", name)
    if text.rpartition("_")[2] in _RESERVED:
        text += "_value"
    family, number = text, 2
    while used.setdefault(family, name) != name:
        family, number = f"{text}_{number}", number + 1
    return family


def _help(name: str, series: Series) -> str:
    unit = f" in {series.unit}" if series.unit else ""
    better = {"max": ", more is better", "min": ", less is better"}.get(series.goal or "", "")
    return f"{name}{unit}{better}"


def _labels(series: Series) -> str:
    """The cell; keys that differ only in what a label's name cannot have are joined."""
    labels: dict[str, str] = {}
    for key, value in series.cell.items():
        name, text = _NOT_IN_NAMES.sub("_", key), format_value(value)
        labels[name] = f"{labels[name]},{text}" if name in labels else text
    return labels_text(labels)


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as text, `{run="a-7f3k2a"}`; their values may be any text. Empty without labels."""
    text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""


def _escaped(value: str) -> str:
    """An escaped value; line ends stay line ends, and other control characters are visible."""
    lines = [escape_control(line) for line in value.split("\n")]
    return "\n".join(lines).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
