"""Asks the ranks of this node what they do, by the files that `inspection.py` describes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from rsctl.node.small_files import fields, listed

_POLL_SECONDS = 0.02
_MOST_BYTES = 16 << 20


class ArmedRank(NamedTuple):
    """A process that answers: its rank, the signal on which it writes its stacks, 0 if none, and
    its thread that answers.
    """

    pid: int
    rank: int
    local_rank: int
    signal: int
    thread: int = 0


class Answer(NamedTuple):
    """The answer of a rank, and its size in bytes."""

    content: Mapping[str, Any]
    size: int


def armed_ranks(folder: str) -> list[ArmedRank]:
    """The ranks that can be asked and are alive, in their order.

    A script's own children may import torch, too, also where their numbers are lower because the
    numbers of processes have begun again: a child is not the rank. A program without a rank of its
    own that has started ranks, such as `accelerate launch`, is not one.
    """
    found: dict[int, ArmedRank] = {}
    for rank in _armed(folder, lambda pid: os.path.exists(f"/proc/{pid}")):
        found.setdefault(rank.rank, rank)
    return [found[rank] for rank in sorted(found)]


def _armed(folder: str, counts: Callable[[str], bool]) -> list[ArmedRank]:
    """The processes of ranks, of those that count, by their numbers."""
    armed: dict[int, tuple[ArmedRank, int]] = {}
    of_node: set[int] = set()
    for name in sorted(listed(folder), key=lambda name: (len(name), name)):
        pid, _, kind = name.partition(".")
        content = _read(os.path.join(folder, name)) if kind == "rank" and pid.isdigit() else None
        if content is None or not counts(pid):
            continue
        with suppress(KeyError, TypeError, ValueError):
            numbers = [int(content[name]) for name in ("rank", "local_rank", "signal", "thread")]
            armed[int(pid)] = ArmedRank(int(pid), *numbers), int(content["parent"])
            of_node |= {int(pid)} if content.get("of_node") else set()
    if len(of_node) < len(armed):
        armed = {pid: each for pid, each in armed.items() if pid not in of_node}
    return [
        rank
        for rank, parent in armed.values()
        if parent not in armed or armed[parent][0].rank != rank.rank
    ]


def ask(
    folder: str, ranks: Iterable[ArmedRank], kind: str, number: int, seconds: float
) -> dict[int, Answer]:
    """The answers of ranks by their number; a rank that has not answered in time is left out."""
    waiting = {each.rank: os.path.join(folder, str(each.pid)) for each in ranks}
    for path in waiting.values():
        _send(f"{path}.pipe", f"{kind} {number}\n")
    answers: dict[int, Answer] = {}
    until = time.monotonic() + seconds
    while True:
        for rank, path in list(waiting.items()):
            file = f"{path}.{number}.json"
            with suppress(OSError):
                size = os.path.getsize(file)
                content = _read(file)
                os.remove(file)
                del waiting[rank]
                if content is not None and isinstance(content.get("groups"), dict):
                    answers[rank] = Answer(content, size)
        if not waiting or time.monotonic() > until:
            return answers
        time.sleep(_POLL_SECONDS)


def last_words(folder: str) -> dict[int, tuple[ArmedRank, Mapping[str, Any]]]:
    """The last activity of ranks that an exception has ended, or that were asked for it because
    another one of the node had failed, by their number.

    Of a rank that has started several times, the process that began last counts.
    """
    latest = {each.rank: each for each in sorted(_armed(folder, bool), key=_began(folder))}
    words = {rank: (each, _read(f"{folder}/{each.pid}.last.json")) for rank, each in latest.items()}
    return {rank: (each, content) for rank, (each, content) in words.items() if content}


def _began(folder: str) -> Callable[[ArmedRank], float]:
    return lambda rank: os.stat(f"{folder}/{rank.pid}.rank").st_mtime


def write_stacks(folder: str, ranks: Iterable[ArmedRank], seconds: float) -> dict[int, str]:
    """Have faulthandler write the stacks of all threads of ranks; by rank, those that have come.

    It writes from a signal handler and needs no lock of the interpreter, but a process that has
    stopped handles no signal.
    """
    before: dict[int, tuple[str, int]] = {}
    for rank in ranks:
        path = os.path.join(folder, f"{rank.pid}.stacks")
        if rank.signal and _catches(rank.pid, rank.signal):
            with suppress(OSError):
                before[rank.rank] = path, os.path.getsize(path)
                os.kill(rank.pid, rank.signal)
    sizes, until = {rank: size for rank, (_, size) in before.items()}, time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        last, sizes = sizes, {rank: _size(path) for rank, (path, _) in before.items()}
        if sizes == last and all(sizes[rank] > size for rank, (_, size) in before.items()):
            break
    texts = {rank: _text_from(path, size) for rank, (path, size) in before.items()}
    return {rank: text for rank, text in texts.items() if text}


def wakeups(rank: ArmedRank) -> int:
    """How often the rank's thread that answers has begun to wait, since it began.

    A thread that waits for the interpreter's lock begins to wait again every 5 ms (CPython,
    `sys.getswitchinterval`): so it differs from one that gets no processor time.
    """
    status = fields(f"/proc/{rank.pid}/task/{rank.thread}/status")
    return int(status.get("voluntary_ctxt_switches", 0))


def main_stack_of(stacks: str) -> list[str]:
    """The frames `FILE:LINE FUNCTION` of the thread that got the signal, the innermost first."""
    _, found, rest = stacks.partition("Current thread ")
    if not found:
        rest = stacks.rpartition("\nThread ")[2]
    frames = []
    for line in rest.splitlines()[1:]:
        text = line.strip()
        if not text.startswith("File "):
            break
        name, _, place = text[len("File ") :].partition(", line ")
        number, _, function = place.partition(" in ")
        frames.append(f"{name.strip(chr(34))}:{number} {function}")
    return frames


def _text_from(path: str, offset: int) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(offset)
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _catches(pid: int, number: int) -> bool:
    """Whether a process handles a signal, which would end it otherwise."""
    caught = int(fields(f"/proc/{pid}/status").get("SigCgt", "0"), 16)
    return bool(caught >> (number - 1) & 1)


def _send(pipe: str, text: str) -> None:
    try:
        file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # it has no reader
        return
    try:
        os.write(file, text.encode())
    except OSError:  # it is full: a rank that has not read for long
        return
    finally:
        os.close(file)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
