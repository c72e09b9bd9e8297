"""Recognizes files that rsctl writes: baselines, histories, and reports for CI systems.

They are outputs of benches, so that none of them is an input, whichever command wrote it.
"""

from __future__ import annotations

import re
from typing import IO, Any

import msgspec

_LARGEST = 64 << 20
_OPENMETRICS = re.compile(rb"# TYPE rsctl_.*\n# EOF\n", re.DOTALL)
_RUNS = re.compile(r"[\d,]+ runs? of ")
_BENCHER = {"value", "lower_value", "upper_value"}


def is_own_file(file: IO[bytes]) -> bool:
    """Whether rsctl wrote a file, judged by its content. Raises OSError."""
    data = file.read(1)
    if data not in (b"{", b"[", b"#"):
        return False
    data += file.read(_LARGEST)
    if data[:1] == b"#":
        return _OPENMETRICS.fullmatch(data) is not None
    first_line = data.partition(b"\n")[0]
    return _is_record(_decoded(first_line)) or _is_document(_decoded(data), data)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _is_record(value: Any) -> bool:
    from rsctl.bench.history import HistoryRecord

    return isinstance(value, dict) and value.keys() == set(HistoryRecord.__struct_fields__)


def _is_document(value: Any, data: bytes) -> bool:
    """Whether it is a baseline, or a report with exactly the layout of `as_file`."""
    from rsctl.bench.baseline import Baseline  # few submissions have a file to compare
    from rsctl.bench.formats.trackers import as_file

    if isinstance(value, dict) and value.keys() == set(Baseline.__struct_fields__):
        return True
    if not value or as_file(value) != data:
        return False
    if isinstance(value, list):
        return all(isinstance(v, dict) and _RUNS.match(str(v.get("extra"))) for v in value)
    return isinstance(value, dict) and all(map(_is_benchmark, value.values()))


def _is_benchmark(value: Any) -> bool:
    """Whether it is a benchmark of a report for Bencher: its metrics by name."""
    return isinstance(value, dict) and all(
        isinstance(metric, dict) and "value" in metric and metric.keys() <= _BENCHER
        for metric in value.values()
    )
