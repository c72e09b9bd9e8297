"""Planted hangs in real jobs of four ranks: who is named for them, and how soon.

Rank 2 of `tests/kit/scripts/faults.py`, a reducer or a node has a fault at the fourth step. Times
count from the last line that the job has printed. A stall is detected when the first node reports
one; the cause is the first finding that names a rank or node, or the first failure of a job that
ends by itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import ROOT, Failed
from benchmarks.report import Report
from rsctl.runs.stream.events import parse_time
from rsctl.targets.local.backend import processes_of
from tests.kit.fork_server import started

RUNS = 1
_LIMIT = 10.0
_PATIENCE = 90.0
_START_SECONDS = 240.0
_RSCTL = str(Path(sys.executable).with_name("rsctl"))
_LINE = re.compile(r"(step|rank) \d+( starts)?$")
_BASE = os.environ.get("RSCTL_BASE", "rsctl-test-base:1")


class _Late(Failed):
    """Something has not come."""


@dataclass(frozen=True)
class Plant:
    """A fault: the argument of the script, who is guilty, and how it is done from outside."""

    about: str
    kind: str = "none"
    guilty: str = "worker-1"
    nodes: int = 2
    reducers: int = 0
    target: str = "process"
    act: Callable[[str], None] | None = None


def _kill(number: int) -> Callable[[str], None]:
    def strike(run: str) -> None:
        for pid in processes_of(run, "reducer-0"):
            if b"rsctl.transport.reduce" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, number)

    return strike


def _disconnect(run: str) -> None:
    container = f"rsctl-{run}-worker-2"
    form = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
    inspect = ["docker", "inspect", "-f", form, container]
    for network in subprocess.run(inspect, capture_output=True, text=True).stdout.split():
        subprocess.run(["docker", "network", "disconnect", "-f", network, container], check=True)


_OF_RANKS = {
    "absent": "a rank never joins",
    "loop": "an endless Python loop",
    "data": "a deadlocked data loader",
    "exit": "a thread never ends at exit",
    "operation": "another collective",
    "shape": "another shape",
    "large": "another shape, and a rank aborts",
    "skip": "a skipped bucket",
    "stop": "SIGSTOP",
    "lock": "native code holds Python's lock and computes",
    "asleep": "native code holds Python's lock and sleeps",
}
_SAID = {"worker-1": "rank 2 ", "worker-2": "rank 2 ", "reducer-0": "reducer 0 "}
"""How a failure of another rank, which has lost its peer, names the guilty one."""
_PLANTS = [
    *(Plant(about, kind, reducers=n) for n in (0, 1) for kind, about in _OF_RANKS.items()),
    Plant("a stopped reducer", guilty="reducer-0", reducers=1, act=_kill(signal.SIGSTOP)),
    Plant("a killed reducer", guilty="reducer-0", reducers=1, act=_kill(signal.SIGKILL)),
    Plant("a network drops a node", "none", "worker-2", 4, target="compose", act=_disconnect),
    Plant("an endless Python loop", "loop", nodes=4),
    Plant("SIGSTOP", "stop", nodes=4, reducers=1),
]


def run(runs: int, kinds: tuple[str, ...] = ()) -> Report:
    """Each plant so often, or those of some kinds. Raises Failed if a job does not start."""
    plants = [p for p in _PLANTS if not kinds or p.kind in kinds or p.about in kinds]
    report = Report("hangs", f"{len(plants) * runs} planted hangs, limits.stall {_LIMIT:g} s")
    with ExitStack() as stack:
        if "TORCH_FORKS" not in os.environ:  # importing torch takes longest
            os.environ |= stack.enter_context(started(Path(os.environ["RSCTL_HOME"])))
        found = [(plant, _outcome(plant)) for plant in plants for _ in range(runs)]
    named = [outcome.named for _, outcome in found]
    report.add("guilty named", "jobs", [named.count("yes")])
    report.add("innocent named", "jobs", [named.count("INNOCENT")], "0")
    for what, budget in (("detected", "15"), ("cause", "20")):
        times = [value for _, each in found if (value := getattr(each, what)) is not None]
        report.add(f"{what}, seconds more", "s", times or [0.0], budget)
    report.notes += ["", "| fault | ranks | reducers | guilty named | detected | cause | said |"]
    report.notes += ["|---|---|---|---|---|---|---|"]
    report.notes += [_row(plant, outcome) for plant, outcome in found]
    return report


@dataclass
class _Outcome:
    named: str
    detected: float | None
    cause: float | None
    said: str


def _row(plant: Plant, found: _Outcome) -> str:
    ranks = plant.nodes * _processes(plant)
    times = ["" if value is None else f"{value:.1f} s" for value in (found.detected, found.cause)]
    cells = [plant.about, str(ranks), str(plant.reducers), found.named, *times, found.said]
    return f"| {' | '.join(cells)} |"


def _processes(plant: Plant) -> int:
    return 2 if plant.target == "process" else 1


def _outcome(plant: Plant) -> _Outcome:
    folder = Path(os.environ["RSCTL_HOME"]) / "hangs"
    (folder / "source").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tests/kit/scripts/faults.py", folder / "source" / "train.py")
    job: dict[str, Any] = {
        "name": "hang",
        "target": plant.target,
        "image": {"source": "source", "base": _BASE},
        "run": {"script": "train.py", "args": [plant.kind]},
        "workers": {"count": plant.nodes, "processes": _processes(plant)},
        "limits": {"stall": f"{_LIMIT:g}s", "grace": "2s"},
    }
    if plant.reducers:
        job["reducers"] = {"count": plant.reducers}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    run = _rsctl("submit", "--detach", str(folder / "job.yaml")).strip()
    if plant.act is not None:
        _wait(lambda: any(text.endswith("step 5") for _, text in _lines(run)), "the training")
        plant.act(run)
    found = _watched(run, plant)
    subprocess.run([_RSCTL, "cancel", run], capture_output=True)
    print(_row(plant, found), file=sys.stderr, flush=True)
    return found


def _watched(run: str, plant: Plant) -> _Outcome:
    """What is said about the hang until one is named, the job ends, or patience does."""
    first = None

    def is_over() -> bool:
        nonlocal first
        names = [name for _, name, _ in _findings(run)]
        first = first or (time.monotonic() if names else None)
        is_late = first is not None and time.monotonic() - first > _PATIENCE
        return any(names) or is_late or _ended(run) is not None

    with suppress(_Late):
        _wait(is_over, "a finding")
    findings, ended = _findings(run), _ended(run)
    last = max(_printed(run))
    stalls = [each for each in findings if each[1]] or findings
    if stalls:
        at, name, said = stalls[0]
        detected = min((each for each in _reported(run) if each > last), default=at)
        times = (detected - last - _LIMIT, at - detected)
    else:
        failure = (ended or {}).get("first_failure") or {}
        name, said = failure.get("replica"), _first_cause(failure, ended)
        since = parse_time(failure["time"]).timestamp() - last if failure else None
        times = (None, since)
    named = "yes" if name == plant.guilty else "INNOCENT" if name else "no"
    if not stalls and name != plant.guilty and said.split(": ")[-1].startswith(_SAID[plant.guilty]):
        named = "in the cause"
    return _Outcome(named, *times, said)


def _first_cause(failure: dict[str, Any], ended: dict[str, Any] | None) -> str:
    causes = [cause["message"] for cause in failure.get("causes", ())]
    return f"job ends: {causes[0] if causes else (ended or {}).get('reason')}"


def _findings(run: str) -> list[tuple[float, str | None, str]]:
    """The stalls: when, of which replica, why."""
    states = _folder(run) / "states.log"
    events = map(json.loads, states.read_text().splitlines() if states.exists() else ())
    return [
        (_seconds(each["time"]), each["replica"], each["finding"]["message"].partition(" s: ")[2])
        for each in events
        if each["type"] == "finding" and each["finding"]["code"] == "stall"
    ]


def _lines(run: str) -> list[tuple[float, str]]:
    """All lines of all nodes, with rsctl's own."""
    rows = [row for log in _folder(run).glob("*/log") for row in log.read_text().splitlines()]
    parts = [row.split(" ", 2) for row in rows]
    return [(_seconds(each[0]), each[2]) for each in parts if len(each) == 3]


def _printed(run: str) -> list[float]:
    """When ranks have printed a line of their own."""
    return [at for at, text in _lines(run) if _LINE.search(text)]


def _reported(run: str) -> list[float]:
    """When nodes have reported a stall without being asked."""
    return [at for at, text in _lines(run) if '"stall"' in text and '"asked": null' in text]


def _folder(run: str) -> Path:
    return Path(os.environ["RSCTL_HOME"]) / "runs" / run


def _ended(run: str) -> dict[str, Any] | None:
    status: dict[str, Any] = json.loads(_rsctl("status", run, "-o", "json"))
    return status if status["ended"] else None


def _seconds(time_text: str) -> float:
    return parse_time(time_text).timestamp()


def _wait(condition: Callable[[], Any], what: str) -> None:
    """Until it is true. Raises Failed after a time."""
    end = time.monotonic() + _START_SECONDS + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise _Late(f"{what} did not come")
        time.sleep(1.0)


def _rsctl(*arguments: str) -> str:
    done = subprocess.run([_RSCTL, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr)
    return done.stdout
