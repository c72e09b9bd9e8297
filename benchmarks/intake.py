"""How fast a supervisor takes in what its replicas print, and in how much memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from time import sleep
from typing import NamedTuple

from benchmarks.measure import Failed, rsctl
from benchmarks.report import Report
from rsctl.findings import JobState
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import TIME_LENGTH, seconds_between

RUNS = 3
BYTES = 250_000_000
_REPLICAS = 4
_LINE = "2026-01-31 12:00:00,123 INFO train: batch 41 of 100, lr=3.1e-04 samples/s=8123.4"
_STAMP = TIME_LENGTH + len(" o ")
_POLL_SECONDS = 0.02
_TICK = os.sysconf("SC_CLK_TCK")
_KINDS = {
    "no metrics": {},
    "a metric, never found": {"loss": {"regex": "loss=([0-9.]+)"}},
}


class _Taken(NamedTuple):
    seconds: float
    cpu: float
    peak: int


def run(runs: int, size: int = BYTES) -> Report:
    """Jobs without and with a metric to look for in every line, in turn."""
    about = f"{_REPLICAS} replicas print {size / 1e6:g} MB each, median of {runs} runs"
    report = Report("intake", about)
    taken: dict[str, list[_Taken]] = {kind: [] for kind in _KINDS}
    for _ in range(runs):
        for kind in _KINDS:
            taken[kind].append(_take(kind, size))
    for kind, all_taken in taken.items():
        report.add(kind, "MB/s", [_REPLICAS * size / 1e6 / t.seconds for t in all_taken])
        report.add(kind, "supervisor CPU s", [t.cpu for t in all_taken])
        report.add(kind, "supervisor peak MB", [t.peak / 1e6 for t in all_taken])
    report.notes.append("the journals have every byte")
    return report


def _take(kind: str, size: int) -> _Taken:
    """Submit a job, watch its supervisor to its end, and check what it has written."""
    script = f"yes '{_LINE}' | head -c {size}"
    job = {
        "name": "intake",
        "target": "process",
        "run": {"command": ["bash", "-c", script], "launcher": "none"},
        "workers": {"count": _REPLICAS},
        "metrics": _KINDS[kind],
    }
    path = Path(os.environ["RSCTL_HOME"]) / "intake.json"
    path.write_text(json.dumps(job))  # JSON is YAML
    command = rsctl("submit", str(path), "--detach", "--quiet")
    name = subprocess.run(command.argv, check=True, capture_output=True, text=True).stdout.strip()
    folder = RunFolder(name)
    cpu, peak = _watch(folder)
    store = Store()
    ended = store.get(name)
    store.close()
    if not ended or ended.state is not JobState.SUCCEEDED or not ended.started or not ended.ended:
        raise Failed(f"{name}: {ended}")
    _check_and_remove(folder, size)
    return _Taken(seconds_between(ended.started, ended.ended), cpu, peak)


def _watch(folder: RunFolder) -> tuple[float, int]:
    """CPU seconds and peak bytes of a run's supervisor, as seen last before its end."""
    cpu, peak = 0.0, 0
    while folder.is_supervised():
        pid = folder.supervisor()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "VmHWM:" in status:  # not in a process that is about to be gone
            cpu = (int(fields[11]) + int(fields[12])) / _TICK
            peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        sleep(_POLL_SECONDS)
    return cpu, peak


def _check_and_remove(folder: RunFolder, size: int) -> None:
    lines = -(-size // (len(_LINE) + 1))
    expected = size + lines * _STAMP + (size % (len(_LINE) + 1) > 0)  # the last line gets an end
    for index in range(_REPLICAS):
        log = folder.log(f"worker-{index}")
        if log.stat().st_size != expected:
            raise Failed(f"{log} has {log.stat().st_size} bytes, not {expected}")
        log.unlink()
