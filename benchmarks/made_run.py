"""A run that never ran, as a supervisor leaves it on the disk and in the store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from benchmarks.measure import Failed
from rsctl.findings import JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent

_START = datetime(2026, 1, 31, 12)
_LONG = "config: " + " ".join(f"layer{i}.weight=(4096, 4096)" for i in range(60))
MIXED = [  # of equal likelihood; each says its number within the replica
    *["2026-01-31 12:00:00,123 INFO train: step %d loss=0.4213 lr=3.1e-04 samples/s=8123.4"] * 8,
    *["step %d"] * 4,
    *["worker:71:93 [0] NCCL INFO Channel 00/02 : 0[0] -> 1[1] via SHM/direct step %d"] * 3,
    *['{"rsctl": "metrics", "step": %d, "loss": 0.4213, "samples_per_second": 8123.4}'] * 2,
    "\x1b[32mINFO\x1b[0m \x1b[1mtrain\x1b[0m: step %d done",
    " 10%%|#         |\r 20%%|##        | step %d",
    f"{_LONG} → step %d",
]
SHORT = ["step %d"]
_NUMBER = re.compile(rb'step(?:":)? (\d+)')


class _Line(msgspec.Struct):
    time: str
    replica: str
    text: str


def make_run(run: str, replicas: int, lines: int, kinds: Sequence[str] = MIXED) -> None:
    """Write a run that has succeeded, with so many lines from so many replicas, below RSCTL_HOME.

    Replicas print in bursts, the chief four times as much as another; the same every time.
    """
    names = [f"worker-{index}" for index in range(replicas)]
    folder = RunFolder(run)
    folder.create(RunDescription(run=run, target="process", request={}, replicas=names))
    end = _write_logs([folder.log(name) for name in names], lines, kinds)
    store = Store()
    store.add(
        RunRecord(
            run=run,
            name=run,
            target="process",
            url=f"process://{run}",
            state=JobState.QUEUED,
            created=_stamp(0),
            plan={"run": run, "pools": [{"role": "worker", "count": replicas}]},
        )
    )
    event = StateEvent(time=end, state=JobState.SUCCEEDED, exit_code=0)
    store.record(run, event)
    store.close()
    folder.states.write_bytes(msgspec.json.encode(event) + b"\n")


def _write_logs(paths: list[Path], lines: int, kinds: Sequence[str]) -> str:
    """Write the journals; returns the time of the last line."""
    random = Random(1)
    files = [path.open("w") for path in paths]
    numbers = [0] * len(files)
    turns = [0, 0, 0, *range(len(files))]
    left, moment = lines, 0
    while left:
        index = random.choice(turns)
        moment += random.randrange(1, 300)
        head = f"{_stamp(moment)} {random.choice('oooe')} "
        burst = min(left, random.randrange(1, 6))
        for _ in range(burst):
            numbers[index] += 1
            files[index].write(f"{head}{random.choice(kinds) % numbers[index]}\n")
        left -= burst
    for file in files:
        file.close()
    return _stamp(moment)


def _stamp(microseconds: int) -> str:
    moment = _START + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="microseconds") + "Z"


def check(output: Path, is_json: bool, lines: int) -> None:
    """Whether all lines of a made run are there, in order. Raises Failed if not."""
    seen: dict[str, int] = {}
    for replica, text in _json_lines(output) if is_json else _text_lines(output):
        found = _NUMBER.search(text)
        if not found or int(found[1]) != seen.get(replica, 0) + 1:
            raise Failed(f"{replica}: after line {seen.get(replica, 0)} came {text!r}")
        seen[replica] = int(found[1])
    if sum(seen.values()) != lines:
        raise Failed(f"{sum(seen.values())} of {lines} lines came")


def _text_lines(output: Path) -> Iterator[tuple[str, bytes]]:
    with output.open("rb") as file:
        for line in file:
            replica, _, text = line.partition(b" | ")
            yield replica.decode().rstrip(), text


def _json_lines(output: Path) -> Iterator[tuple[str, bytes]]:
    decoder, last = msgspec.json.Decoder(_Line), ""
    with output.open("rb") as file:
        for line in file:
            event = decoder.decode(line)
            if event.time < last:
                raise Failed(f"{event.replica}: {event.time} came after {last}")
            last = event.time
            yield event.replica, event.text.encode()
