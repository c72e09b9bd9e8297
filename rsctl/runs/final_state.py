"""The final state of a run in a file whose space is reserved before it starts.

So a full disk cannot lose it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.atomic_file import UNREADABLE, open_regular
from rsctl.findings import JobState
from rsctl.runs.home import run_directory
from rsctl.runs.records import Replica, RunRecord, replica_order
from rsctl.runs.stream.events import StateEvent

_BYTES = 4096
_BYTES_OF_REPLICA = 128
_MOST_BYTES = 4 << 20
_LONGEST_REASON = 800  # characters; each takes at most four bytes


class _Outcome(StateEvent, tag="state", kw_only=True, frozen=True):
    """The final state of the job and of its replicas: state, exit code and time, by name."""

    replicas: dict[str, tuple[JobState, Optional[int], str]] = {}


def reserve(run: str, replicas: int = 0) -> None:
    """Reserve the space, unless it is reserved; on a full disk the state cannot be kept here."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    space = b" " * (_BYTES + _BYTES_OF_REPLICA * replicas)
    with suppress(OSError), open(os.open(_path(run), flags, 0o600), "wb", buffering=0) as file:
        file.write(space)


def write(run: str, event: StateEvent, replicas: Iterable[StateEvent] = ()) -> None:
    """Write the final state of the job, in place, and of its replicas if they fit."""
    reason = event.reason and event.reason[:_LONGEST_REASON]
    ended = {r.replica: (r.state, r.exit_code, r.time) for r in replicas if r.replica}
    fields = {**msgspec.structs.asdict(event), "reason": reason}
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    with suppress(OSError), open(os.open(_path(run), flags, 0o600), "wb", buffering=0) as file:
        size = max(_BYTES, os.fstat(file.fileno()).st_size)
        content = msgspec.json.encode(_Outcome(**fields, replicas=ended))
        if len(content) > size:
            content = msgspec.json.encode(_Outcome(**fields))
        file.write(content.ljust(size))


def final_state(run: str) -> StateEvent | None:
    """The final state; None if the run has not ended, or if its end was not kept."""
    events = final_states(run)
    return events[-1] if events else None


def final_states(run: str) -> list[StateEvent]:
    """The last states of the replicas, as far as they were kept, then the job's; empty if none."""
    ended = _read(run)
    if ended is None:
        return []
    job = {name: getattr(ended, name) for name in StateEvent.__struct_fields__}
    replicas = [
        StateEvent(time=time, state=state, replica=name, attempt=ended.attempt, exit_code=code)
        for name, (state, code, time) in ended.replicas.items()
    ]
    return [*replicas, StateEvent(**job)]


def with_final_state(run: RunRecord) -> RunRecord:
    """The run with final states that are missing in the store, for example after a full disk."""
    if run.state.is_final and all(replica.state.is_final for replica in run.replicas):
        return run
    events = final_states(run.run)
    if not events:
        return run
    *replicas, ended = events
    run = _with_replicas(run, replicas)
    if run.state.is_final:
        return run
    return replace(
        run, state=ended.state, reason=ended.reason, exit_code=ended.exit_code, ended=ended.time
    )


def _with_replicas(run: RunRecord, ended: list[StateEvent]) -> RunRecord:
    """The run with these states for replicas that have no final state in the store."""
    replicas = {replica.replica: replica for replica in run.replicas}
    for event in ended:
        name = event.replica or ""
        if name not in replicas or not replicas[name].state.is_final:
            replicas[name] = Replica(
                replica=name, state=event.state, since=event.time, exit_code=event.exit_code
            )
    return replace(run, replicas=[replicas[name] for name in sorted(replicas, key=replica_order)])


def _read(run: str) -> _Outcome | None:
    try:
        with open_regular(_path(run)) as file:
            ended = msgspec.json.decode(file.read(_MOST_BYTES), type=_Outcome)
    except UNREADABLE:
        return None
    return ended if ended.replica is None and ended.state.is_final else None


def _path(run: str) -> Path:
    return run_directory(run) / "outcome.json"
