"""Answers the node's launcher what this rank is doing, on demand.

The launcher makes a folder that only its own user can read and names it in `RSCTL_DEBUG_DIR`. A
rank that imports torch adds to it

    PID.rank      JSON: its rank, the signal by which faulthandler writes its stacks, its thread
                  that answers, its parent, and whether its rank is only the node's number
    PID.pipe      a named pipe that a thread of the rank reads: one request a line, `KIND NUMBER`
    PID.stacks    what faulthandler writes, which works while the interpreter's lock is held

and answers each request with a file `PID.NUMBER.json`. A `probe` is answered with counters alone,
an `inspect` also with the stack and the last collectives, and so is `last`, in `PID.last.json`,
which an exception that ends the script writes too. PyTorch's Flight Recorder has those of
NCCL and, from torch 2.13 on, those of gloo; the reducers' are counted by rsctl.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import json
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

from rsctl.transport.pytorch import report
from rsctl.transport.pytorch.data_waits import report_waits

DEBUG_DIR = "RSCTL_DEBUG_DIR"
"""The variable with the folder in which the ranks of a node can be asked what they do."""

REDUCERS = "reducers"
"""The name under which an answer has what goes over reducers, beside the process groups."""

LOOK_SECONDS = 1.0
"""The pause between two looks at the steps of a script whose launcher has no sample yet."""

_END_SECONDS = 2.0
"""How long the end of the script waits until none of rsctl's threads is in a function of torch.
Such a function takes the interpreter's lock as it returns; if the interpreter has ended by then,
C++ aborts the process."""

_BEGAN = "forward_compute_time_start"
_FRAMES = 40
_ENTRIES = 40
_RECORDED = "2000"
_SIGNAL_OFFSET = 11  # of the real-time signals, which hardly a program uses
_NCCL, _GLOO = "_dump_nccl_trace_json", "_dump_fr_trace_json"

_armed: list[int] = []  # the process that is: a fork copies this list, and not the thread


def arm(environ: Mapping[str, str]) -> None:
    """Arm this process, once, if it is a rank whose launcher wants to ask it. Raises OSError."""
    folder = environ.get(DEBUG_DIR)
    rank = environ.get("RANK") or environ.get("NODE_RANK")  # the latter with launcher once
    if not folder or rank is None or os.getpid() in _armed or not os.path.isdir(folder):
        return
    _armed[:] = [os.getpid()]
    _have_recorder()
    path = os.path.join(folder, str(os.getpid()))
    number = signal.SIGRTMIN + _SIGNAL_OFFSET
    if signal.getsignal(number) is not signal.SIG_DFL:
        number = 0
    else:
        # Registered for good: faulthandler keeps the file's number, so the file stays open.
        stacks = open(f"{path}.stacks", "ab", buffering=0)  # noqa: SIM115
        faulthandler.register(number, stacks, all_threads=True, chain=False)
    os.mkfifo(f"{path}.pipe", 0o600)
    pipe = os.open(f"{path}.pipe", os.O_RDWR)  # it never ends, even if the other end is closed
    answering = threading.Lock()
    thread = threading.Thread(
        target=_serve, args=(pipe, path, answering), name="rsctl-debug", daemon=True
    )
    thread.start()
    atexit.register(answering.acquire, timeout=_END_SECONDS)
    _keep_last_words(path, answering)
    with suppress(Exception):  # of another version of torch
        _measure_steps()
    with suppress(Exception):
        from rsctl.transport.pytorch import checkpoints

        checkpoints.measure()
    who = {"rank": int(rank), "local_rank": int(environ.get("LOCAL_RANK", "0"))}
    who |= {"signal": int(number), "thread": thread.native_id or 0, "parent": os.getppid()}
    who |= {"of_node": not environ.get("RANK")}
    _write(f"{path}.rank", who)


def _have_recorder() -> None:
    """Let Flight Recorder keep the last collectives, unless the user has set another number.

    torch 2.9 renamed the variable and warns of the old name; before, the recorder was off unless
    the variable was set.
    """
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    if not any(name in os.environ for name in names):
        os.environ[names[torch_is_before(9)]] = _RECORDED


def torch_is_before(minor: int) -> bool:
    """Whether torch is imported, and older than this minor version of 2."""
    torch: Any = sys.modules.get("torch")
    version = str(getattr(torch, "__version__", "0")).split(".")
    return version[:1] == ["2"] and version[1].isdigit() and int(version[1]) < minor


def _serve(pipe: int, path: str, answering: threading.Lock) -> None:
    while True:
        for request in os.read(pipe, 4096).decode(errors="replace").splitlines():
            kind, _, number = request.partition(" ")
            file = f"{path}.{'last' if kind == 'last' else number}.json"
            if number.isdigit():
                with answering, suppress(Exception):  # better no answer than half an answer
                    if kind != "last" or not os.path.exists(file):
                        _write(file, _answer(kind))


def _answer(kind: str) -> dict[str, Any]:
    if kind in ("inspect", "last"):
        return inspect_rank()
    step, _Steps.last = _Steps.last, {}
    _Steps.answered |= bool(step)
    _Steps.wanted.set()
    return {"groups": counters(), **step}


def counters() -> dict[str, dict[str, int]]:
    """How many collectives have been called and how many have ended, by process group; the names
    of the groups are this process's own.
    """
    groups = {
        f"{number}{suffix}": _counts(status)
        for suffix, recorded in _recorded(False)
        for number, status in recorded.get("pg_status", {}).items()
    }
    return {**groups, **_reductions(with_entries=False)}


def inspect_rank() -> dict[str, Any]:
    """The counters of each process group, with its last collectives and its ranks; the stack.

    Groups have the names that all ranks share. The recorder has counters by a number that is this
    process's own, and in each collective that number and the name (torch 2.13,
    FlightRecorderDetail.hpp: pg_status, pg_id).
    """
    groups: dict[str, dict[str, Any]] = {}
    ranks = _ranks_of_groups()
    for suffix, recorded in _recorded(True):
        entries = recorded.get("entries", [])
        names = {str(entry.get("pg_id")): str(entry["process_group"][0]) for entry in entries}
        for number, status in recorded.get("pg_status", {}).items():
            if name := names.get(number):
                own = [e for e in entries if str(e.get("pg_id")) == number and not e.get("is_p2p")]
                groups[name + suffix] = {
                    **_counts(status),
                    "entries": [_entry(entry) for entry in own[-_ENTRIES:]],
                    "ranks": ranks.get(name, []),
                }
    groups |= _reductions(with_entries=True)
    return {"groups": groups, "stack": main_stack()}


def _counts(status: Mapping[str, Any]) -> dict[str, int]:
    return {
        "called": _whole(status.get("last_enqueued_collective")),
        "ended": _whole(status.get("last_completed_collective")),
    }


class _Steps:
    """The models whose steps DDP measures, and the last sample that was seen.

    DDP has a lock that a backward pass holds until the gradients have come. So a thread of its own
    asks DDP, when a probe has come: `last` has the sample for the next probe. `data` are the
    seconds that the script has waited for its DataLoader, `read` when they were last read and how
    many they were. A short script may end before a probe gets a sample: so the thread also looks by
    itself until one is `answered`, and otherwise the script's end prints the last.
    """

    models: weakref.WeakSet[Any] = weakref.WeakSet()
    iteration = 0
    began = 0
    data = 0.0
    read = (0.0, 0.0)
    wanted = threading.Event()
    last: dict[str, Any] = {}
    answered = False
    reader: threading.Thread | None = None
    reading = threading.Lock()


def _measure_steps() -> None:
    """Know the models that the script wraps; DDP itself times a step now and then.

    torch.nn.parallel has been imported by now, since `import torch` calls us at its end.
    """
    module: Any = sys.modules.get("torch.nn.parallel.distributed")
    model = getattr(module, "DistributedDataParallel", None)
    if model is None:
        return
    real = model.__init__

    @functools.wraps(real)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        _Steps.models.add(self)
        if _Steps.reader is None:
            report_waits(_waited_for_data)
            _Steps.reader = threading.Thread(target=_read_steps, name="rsctl-steps", daemon=True)
            _Steps.reader.start()
            atexit.register(_end_reading)

    model.__init__ = __init__


def _waited_for_data(seconds: float, _prefetches: bool) -> None:
    _Steps.data += seconds


def _read_steps() -> None:
    while True:
        _Steps.wanted.wait(None if _Steps.answered else LOOK_SECONDS)
        _Steps.wanted.clear()
        with _Steps.reading, suppress(Exception):  # of another version of torch
            _Steps.last = step_times() or _Steps.last


def _end_reading() -> None:
    """Keep the reader out of torch from now on, and print the last sample if no probe has come."""
    _Steps.reading.acquire(timeout=_END_SECONDS)
    if _Steps.last and not _Steps.answered and _armed == [os.getpid()]:
        report.emit("telemetry", {"ranks": [{"rank": report.rank(), **_Steps.last["step"]}]})


def step_times() -> dict[str, Any]:
    """The last step that DDP has timed: its length and its waits for gradients and for a
    DataLoader, in milliseconds, and the number of its gradient buckets.

    Empty if there is no new one. DDP times every hundredth step (torch 2.13, logger.cpp: kept in
    nanoseconds): what it exchanges after its backward pass has ended is a wait for other ranks and
    for the network. Its length is the mean since the step that was timed before, and the wait for
    data has the part of it that it has of the time since then.
    """
    for model in list(_Steps.models):
        data = model._get_ddp_logging_data()
        iteration, began = (int(data.get(name, 0)) for name in ("iteration", _BEGAN))
        before, began_before = _Steps.iteration, _Steps.began
        if iteration <= before or not began:
            continue
        now = (time.monotonic(), _Steps.data)
        (read, waited), _Steps.read = _Steps.read, now
        _Steps.iteration, _Steps.began = iteration, began
        wait = data["backward_comm_time"] - data["backward_compute_comm_overlap_time"]
        if before and began > began_before:
            step = (began - began_before) / (iteration - before) / 1e6
            times = {}
            if now[1]:  # it uses a DataLoader
                times["data_ms"] = step * min(1.0, (now[1] - waited) / (now[0] - read))
            if sizes := data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes"):
                times["buckets"] = len(str(sizes).split(","))
            times |= {"step_ms": step, "wait_ms": max(0, wait) / 1e6}
            return {"step": {name: round(value, 3) for name, value in times.items()}}
    return {}


def main_stack() -> list[str]:
    """The frames of the main thread, the innermost first: `FILE:LINE FUNCTION`. If it waits for
    another thread at the exit of the program, the frames of that thread follow.
    """
    frames = sys._current_frames()
    main = threading.main_thread()
    stack = list(_frames(frames.get(main.ident or 0)))[:_FRAMES]
    if stack and stack[-1].endswith(" _shutdown"):
        others = [each for each in threading.enumerate() if not each.daemon and each is not main]
        stack += [line for each in others[:1] for line in _frames(frames.get(each.ident or 0))]
    return stack[:_FRAMES]


def _frames(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back


def _recorded(with_entries: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The content of each Flight Recorder, and what tells the names of its groups from the other
    one's; nothing before torch.distributed has been imported.

    NCCL and gloo have recorders of their own, and a process group may use both.
    """
    module = sys.modules.get("torch._C._distributed_c10d")
    for name in (_NCCL, _GLOO):
        dump = getattr(module, name, None)
        if dump is None:
            continue
        try:
            content = json.loads(dump(with_entries))
        except (TypeError, ValueError):
            continue
        yield " of gloo" if name == _GLOO and hasattr(module, _NCCL) else "", content


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    is_over = bool(entry.get("retired")) or entry.get("state") == "completed"
    return {
        "number": _whole(entry.get("collective_seq_id")),
        "op": str(entry.get("profiling_name", "")).rpartition(":")[2],
        "sizes": entry.get("input_sizes", []),
        "dtypes": entry.get("input_dtypes", []),
        "ended": is_over,
    }


def _ranks_of_groups() -> dict[str, list[int]]:
    """The ranks of this rank's process groups, by the names that all ranks share."""
    module: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if module is None:
        return {}
    world = module._world
    return {
        str(world.pg_names.get(group)): sorted(ranks)
        for group, ranks in world.pg_group_ranks.items()
    }


def _reductions(with_entries: bool) -> dict[str, dict[str, Any]]:
    """The operations that this rank has sent over reducers, if it uses them."""
    module: Any = sys.modules.get("rsctl.transport.pytorch.session")
    session = None if module is None else module.current()
    if session is None:
        return {}
    pending = session.pipeline.pending
    counts: dict[str, Any] = {"called": pending.begun, "ended": pending.ended}
    if with_entries:
        counts["entries"] = [
            {
                "number": number,
                "op": "all_reduce",
                "sizes": [[elements]],
                "dtypes": [dtype],
                "ended": number <= pending.ended,
            }
            for number, elements, dtype in pending.recent()[-_ENTRIES:]
        ]
        counts["ranks"] = list(session.topology.lane_ranks)
    return {REDUCERS: counts}


def _whole(value: object) -> int:
    try:
        return max(0, int(str(value)))
    except ValueError:
        return 0


def _keep_last_words(path: str, answering: threading.Lock) -> None:
    """Have an exception that ends the script leave what this rank was doing, for its launcher."""
    real = sys.excepthook

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        # A fork has no thread that answers, but may have a copy of its held lock.
        if os.getpid() in _armed and answering.acquire(timeout=_END_SECONDS):
            with suppress(Exception):
                stack = [
                    f"{each.filename}:{each.lineno} {each.name}"
                    for each in reversed(traceback.extract_tb(trace))
                ]
                _write(f"{path}.last.json", {**inspect_rank(), "stack": stack[:_FRAMES]})
            answering.release()
        real(kind, error, trace)

    sys.excepthook = excepthook


def _write(path: str, content: Mapping[str, Any]) -> None:
    """Write a file that is whole as soon as it can be seen."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(f"{path}.part", path)
