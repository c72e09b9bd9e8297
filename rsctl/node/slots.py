"""A packed job: several runs of a bench, one after the other, on the same nodes. Each is a slot.

The slots travel in variables, compressed. All nodes begin a slot together (slot_meeting.py), and
each prints a line when its command begins and when it has ended:

    {"rsctl": "slot", "number": 3, "state": "began", "key": TEXT}
    {"rsctl": "slot", "number": 3, "state": "ended", "code": 1, "why": null, "key": TEXT}

`why` is `timeout` if the time limit of the slot ended it, `node` if the command of another node had
failed. A slot that is stopped from outside has no end. Each key is the SHA-256 of the next one, and
the line `slots`, which comes first, has the SHA-256 of the first key. So no program can print a
valid line out of lines that it has read.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count, takewhile
from typing import NamedTuple, Optional

from rsctl.node import exit_report, rank
from rsctl.node.cluster import REMEDY, Cluster
from rsctl.node.environment import SLOTS
from rsctl.node.errors import USAGE, LaunchError
from rsctl.node.options import Options
from rsctl.node.settings import number
from rsctl.node.slot_meeting import Meeting
from rsctl.node.soft_stop import GRACE, STOP_AFTER, SoftStop
from rsctl.node.structured_lines import emit, lock_of

NUMBER = "RSCTL_SLOT"
"""The variable that tells a command the number of its slot, from 0."""

FOLDERS = ("RSCTL_OUTPUT_DIR", "RSCTL_CHECKPOINT_DIR")
"""The variables with folders of which each slot has its own."""

_PIECE = 500  # SageMaker takes 512 characters in a value
_GRACE_SECONDS = 30.0


class Cell(NamedTuple):
    """The program of a cell's slots: a command, or a script with its arguments if `is_python`.

    The last `fill` arguments may have placeholders. `environ` are its own variables; None removes
    one of the job's. `folder` is its working directory, in the job's.
    """

    command: list[str]
    is_python: bool
    fill: int
    environ: dict[str, Optional[str]]
    folder: Optional[str] = None


class Slots(NamedTuple):
    """The slots of a job in their order, each by the number of its cell. `seconds` is the time
    limit of each.
    """

    cells: list[Cell]
    order: list[int]
    seconds: Optional[float] = None


Run = Callable[[Cluster, Options, Mapping[str, str], SoftStop], int]
"""Runs the command of a slot on this node, and returns its exit code."""


def folder_of_slot(folder: str, slot: int) -> str:
    """Where a slot writes, below a folder of the job."""
    return f"{folder.rstrip('/')}/slot-{slot}"


def encode(slots: Slots) -> dict[str, str]:
    """The variables that carry slots, in letters and digits, which cannot look like a secret."""
    text = zlib.compress(json.dumps(slots).encode(), 9)
    packed = base64.b32encode(text).decode().rstrip("=")
    pieces = range(0, len(packed), _PIECE)
    return {f"{SLOTS}{n}": packed[at : at + _PIECE] for n, at in enumerate(pieces)}


def decode(environ: Mapping[str, str]) -> Slots:
    """The slots of a packed job. Raises LaunchError for damaged ones."""
    names = list(takewhile(environ.__contains__, (f"{SLOTS}{n}" for n in count())))
    packed = "".join(environ[name] for name in names)
    try:
        text = zlib.decompress(base64.b32decode(packed + "=" * (-len(packed) % 8)))
        cells, order, seconds = json.loads(text)
        return Slots([Cell(*cell) for cell in cells], order, seconds)
    except (ValueError, TypeError, zlib.error) as error:
        message = f"the variables {SLOTS}0 to {names[-1]} do not have slots: {error}"
        raise LaunchError(USAGE, "slots-invalid", message, REMEDY) from error


def run_slots(
    slots: Slots,
    cluster: Cluster,
    options: Options,
    environ: Mapping[str, str],
    run: Run,
) -> int:
    """Run all slots, with any exit codes. Returns 0, or the code of a stop signal.

    Raises LaunchError if another node is lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*rank.STOP_SIGNALS, signal.SIGCHLD))
    keys, home = _keys(2 * len(slots.order)), os.getcwd()
    emit("slots", {"lock": lock_of(keys[-1])})
    meeting = Meeting(cluster, environ)
    for slot, cell in enumerate(slots.order):
        start = meeting.enter(slot)
        if start is None:
            return 128 + signal.SIGTERM
        _mark(keys, slot, "began")
        chosen = slots.cells[cell]
        _enter(os.path.join(home, chosen.folder or ""))
        own = _environ_of(chosen, slot, environ, options.launcher, start.epoch)
        stop = SlotStop(own, options.stop_signal, slots.seconds, lambda: meeting.must_end)
        code = run(cluster._replace(port=start.port), _options_of(chosen, options), own, stop)
        exit_report.remove_failure(environ)
        if stop.is_from_outside:
            return 128 + signal.SIGTERM
        meeting.require_all()
        _mark(keys, slot, "ended", code=code, why=stop.why)
        meeting.ended(slot, code)
    return 0 if meeting.enter(len(slots.order)) else 128 + signal.SIGTERM


def _enter(folder: str) -> None:
    """Work in the folder of a slot's source. Raises LaunchError."""
    try:
        os.chdir(folder)
    except OSError as error:
        message = f"the source of a slot cannot be entered: {error}"
        raise LaunchError(USAGE, "slots-source", message, "Restore it, and run again.") from error


def _keys(marks: int) -> list[str]:
    """A chain of keys: the last is the first to be shown."""
    keys = [os.urandom(16).hex()]
    while len(keys) < marks:
        keys.append(lock_of(keys[-1]))
    return keys


def _mark(keys: list[str], slot: int, state: str, **more: object) -> None:
    emit("slot", {"number": slot, "state": state, **more, "key": keys.pop()})


def _options_of(cell: Cell, options: Options) -> Options:
    head = [sys.executable, "-u"] if cell.is_python else []
    return options._replace(command=[*head, *cell.command], fill=cell.fill)


def _environ_of(
    cell: Cell, slot: int, environ: Mapping[str, str], launcher: str, epoch: int
) -> dict[str, str]:
    """The variables of a slot. Its launcher announces a key of its own, as that of any run."""
    own = {n: v for n, v in environ.items() if not n.startswith(SLOTS) and n != STOP_AFTER}
    own |= {n: v for n, v in cell.environ.items() if v is not None}
    own = {n: v for n, v in own.items() if cell.environ.get(n, "") is not None}
    own[NUMBER], own[rank.EXIT_KEY] = str(slot), os.urandom(16).hex()
    for name in FOLDERS:
        if own.get(name):
            own[name] = folder_of_slot(own[name], slot)
            with suppress(OSError):  # a script that writes there fails with a better message
                os.makedirs(own[name], exist_ok=True)
    if launcher != "torchrun":  # whose ranks agree on one, also for restarts in place
        own["RSCTL_EPOCH"] = str(epoch)
    emit("exits", {"lock": lock_of(own[rank.EXIT_KEY])})
    return own


class SlotStop(SoftStop):
    """Ends the command of one slot: at its time limit, when another node's command has failed, or
    when this node is stopped.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        stop_signal: str,
        seconds: float | None,
        must_end: Callable[[], bool],
    ) -> None:
        """`seconds` is the time limit. `must_end` says whether another node wants its end."""
        super().__init__(environ, None, signal.Signals[f"SIG{stop_signal}"])
        self.why: str | None = None
        self.is_from_outside = False
        self._must_end = must_end
        self._kill_after = number(environ, GRACE, _GRACE_SECONDS)
        limit = (seconds or float("inf")) - number(environ, GRACE, 0.0)
        self._ends_at = time.monotonic() + limit
        self._kill_at = float("inf")

    def ask(self) -> bool:
        """See SoftStop; the request comes from outside."""
        self.is_from_outside = True
        return super().ask()

    def wait_seconds(self) -> float | None:
        """See SoftStop."""
        until = min(self._ends_at, self._kill_at) - time.monotonic()
        waits = [wait for wait in (super().wait_seconds(), until) if wait is not None]
        return max(0.0, min(waits))

    def due_signal(self) -> int | None:
        """See SoftStop; SIGKILL when the grace is over."""
        now = time.monotonic()
        if now >= self._kill_at:
            self._kill_at = float("inf")
            return signal.SIGKILL
        if self.why is None and (self._must_end() or now >= self._ends_at):
            self.why = "node" if self._must_end() else "timeout"
            self._ends_at, self._kill_at = float("inf"), now + self._kill_after
            return None if super().ask() else self._signal()
        return super().due_signal()
