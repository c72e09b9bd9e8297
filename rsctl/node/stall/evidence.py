"""The activity of each process of a node: its answer, its stacks, and the view of the kernel."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rsctl.node.process_tree import tree
from rsctl.node.small_files import listed, read_text
from rsctl.node.stall.ranks import Answer, ArmedRank, ask, main_stack_of, wakeups, write_stacks
from rsctl.node.stall.request import EVIDENCE_DIR

RAS_ADDRESS = "NCCL_RAS_ADDR"
"""NCCL's variable with the address at which its RAS subsystem answers, HOST:PORT."""

_ANSWER_SECONDS = 3.0
_STACKS_SECONDS = 2.0
_PY_SPY_SECONDS = 4
_MOST_PY_SPY = 8
_RAS_SECONDS = 2.0
_LOCKED_WAKEUPS = 20
"""Waits of a thread, in the seconds for an answer, that show that it waits for the interpreter.

Such a thread has about 600, fewer on a busy machine; a thread without processor time has none.
"""
_USUAL_RAS_ADDRESS = "localhost:28028"
_STATES = {1: "established", 2: "connecting", 6: "time-wait", 8: "close-wait", 10: "listening"}
_AT_EXIT = (" _shutdown", " _exit_function")
"""The functions of `threading` and `multiprocessing.util` that wait at a program's exit."""
_LIBRARIES = (
    *("/site-packages/", "/dist-packages/", "/lib/python3"),
    *("/rsctl/transport/", "/rsctl/node/", "/torchinductor_"),
)
_KINDS = (
    ("/torch/utils/data/", "data"),
    ("/torch/distributed/checkpoint/", "checkpoint"),
    ("/torch/serialization.py:", "checkpoint"),
    ("/torch/_dynamo/convert_frame.py:", "compile"),
    ("/torch/_inductor/async_compile.py:", "compile"),
    ("/torch/distributed/", "collective"),
    ("/rsctl/transport/", "collective"),
    ("<frozen importlib.", "import"),
)
"""Parts of a frame, and the kind of call that it shows; the first that applies decides."""
_COMPUTES = ("/torch/nn/modules/", "/torch/optim/")
"""Parts of frames that compute, also where FSDP or a wrapper of rsctl has called them."""


def evidence_dir(environ: Mapping[str, str]) -> str:
    """The folder in which a replica leaves its evidence."""
    if environ.get(EVIDENCE_DIR):
        return environ[EVIDENCE_DIR]
    replica = environ.get("RSCTL_REPLICA", "node")
    outputs = environ.get("RSCTL_OUTPUT_DIR") or tempfile.gettempdir()
    return os.path.join(outputs, "rsctl-evidence", replica)


class Evidence:
    """Collects the evidence of one node into a folder; a file that cannot be written is left out.

    `folder` is where it is kept, `debug_dir` where the ranks are asked, `ras_address` where NCCL's
    RAS subsystem answers.
    """

    def __init__(self, folder: str, debug_dir: str, ras_address: str | None = None) -> None:
        self._folder, self._debug_dir = folder, debug_dir
        self._ras_address = ras_address or _USUAL_RAS_ADDRESS

    def of_ranks(self, ranks: list[ArmedRank], number: int) -> list[dict[str, Any]]:
        """The reports of ranks, in a few seconds; the complete evidence is in the folder."""
        running = [rank for rank in ranks if state_of(rank.pid) not in "Tt"]
        before = {rank.rank: wakeups(rank) for rank in running}
        answers = ask(self._debug_dir, running, "inspect", number, _ANSWER_SECONDS)
        locked = {
            rank.rank
            for rank in running
            if rank.rank not in answers and wakeups(rank) - before[rank.rank] >= _LOCKED_WAKEUPS
        }
        stacks = write_stacks(self._debug_dir, running, _STACKS_SECONDS)
        silent = [rank for rank in ranks if rank.rank not in answers and rank.rank not in stacks]
        stacks |= native_stacks(silent)
        return [
            {
                **self._of_rank(rank, answers.get(rank.rank), stacks.get(rank.rank, "")),
                "locked": rank.rank in locked,
            }
            for rank in ranks
        ]

    def of_ended(
        self, ended: Iterable[tuple[ArmedRank, Mapping[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The reports of ranks that an exception has ended, by the files that they left."""
        return [
            {**_who(rank), "state": "X", "answers": True, **_summary(content)}
            for rank, content in ended
        ]

    def of_processes(self, root: int, known: Iterable[int]) -> list[dict[str, Any]]:
        """The states of other processes below `root` that a stop or the disk holds up."""
        others = [process.pid for process in tree(root) if process.pid not in set(known)]
        for pid in others:
            if pid != os.getpid():
                self._keep(f"process-{pid}.proc.txt", kernel_view(pid))
        states = {pid: state_of(pid) for pid in others if pid != os.getpid()}
        return [{"pid": pid, "state": state} for pid, state in states.items() if state in "TD"]

    def of_node(self, pids: Iterable[int], has_nccl: bool) -> None:
        """Keep what the whole node has: its connections, and NCCL's own view, twice."""
        self._keep("sockets.txt", "\n".join(connections(pids)))
        if has_nccl:
            views = [ras_status(self._ras_address) for _ in range(2)]
            self._keep("ras.txt", "\n\n".join(views))

    def _of_rank(self, rank: ArmedRank, answer: Answer | None, stacks: str) -> dict[str, Any]:
        content: Mapping[str, Any] = answer.content if answer is not None else {}
        if "stack" not in content:
            content = {**content, "stack": main_stack_of(stacks)}
        name = f"rank-{rank.rank}"
        self._keep(f"{name}.stacks.txt", stacks)
        self._keep(f"{name}.proc.txt", kernel_view(rank.pid))
        if answer is not None:
            self._keep(f"{name}.json", json.dumps(answer.content, indent=1))
        answers = answer is not None
        return {**_who(rank), "state": state_of(rank.pid), "answers": answers, **_summary(content)}

    def made_folder(self) -> str:
        """The folder, which exists now. Raises OSError."""
        os.makedirs(self._folder, exist_ok=True)
        return self._folder

    def _keep(self, name: str, text: str) -> None:
        if not text:
            return
        with suppress(OSError):
            path = os.path.join(self.made_folder(), name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def _who(rank: ArmedRank) -> dict[str, Any]:
    return {"rank": rank.rank, "local_rank": rank.local_rank, "pid": rank.pid}


def _summary(content: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an answer that a line of the log has."""
    stack = [str(frame) for frame in content.get("stack", [])]
    library = []
    for frame in stack:
        if not is_library(frame):
            break
        library.append(frame)
    place = stack[len(library)] if len(library) < len(stack) else None
    return {
        "groups": {name: _group(group) for name, group in content.get("groups", {}).items()},
        "at": place and _shortened(place),
        "inside": _inside(library),
        "stack": [_shortened(frame) for frame in stack[:6]],
    }


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {**group, "ranks": as_ranges(group.get("ranks", []))}


def is_library(frame: str) -> bool:
    """Whether a frame `FILE:LINE FUNCTION` is one of Python's own or of an installed package."""
    return frame.startswith("<") or any(part in frame for part in _LIBRARIES)


def _inside(library: list[str]) -> str | None:
    """The kind of library call that the script is in, the innermost: one of `_KINDS`, or `exit` for
    the end of its threads and processes.

    rsctl's own wrappers of the DataLoader and of `torch.save` are outside of their frames.
    """
    for frame in library:
        for part, kind in _KINDS:
            if part in frame:
                return kind
        if frame.endswith(_AT_EXIT):
            return "exit"
        if any(part in frame for part in _COMPUTES):
            return None
    return None


def _shortened(frame: str) -> str:
    here = os.getcwd() + "/"
    _, found, inside = frame.rpartition("-packages/")
    return (inside if found else frame.removeprefix(here))[-160:]


def as_ranges(ranks: Iterable[int]) -> str:
    """`0-3,6` for 0, 1, 2, 3 and 6."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)


def state_of(pid: int) -> str:
    """The kernel's letter: R runs, S sleeps, D waits for a device, T has stopped, Z has ended."""
    stat = read_text(f"/proc/{pid}/stat")
    return stat.rpartition(") ")[2][:1] or "X"


def kernel_view(pid: int) -> str:
    """The kernel's view of a process: its threads, where they wait, and its own stack."""
    parts = [read_text(f"/proc/{pid}/status")]
    for task in listed(f"/proc/{pid}/task"):
        base = f"/proc/{pid}/task/{task}"
        name, where = read_text(f"{base}/comm").strip(), read_text(f"{base}/wchan").strip()
        call = read_text(f"{base}/syscall").strip()
        parts.append(f"thread {task} {name}: waits in {where or '?'}, system call {call or '?'}")
        parts.append(read_text(f"{base}/stack"))
    return "\n".join(part for part in parts if part)


def native_stacks(ranks: list[ArmedRank]) -> dict[int, str]:
    """By rank, py-spy's view of processes that run no handler; empty without py-spy, or its
    permission.
    """
    program = shutil.which("py-spy")
    if program is None:
        return {}
    import subprocess  # few nodes have py-spy

    running = {}
    for rank in ranks[:_MOST_PY_SPY]:
        command = [program, "dump", "--nonblocking", "--pid", str(rank.pid)]
        with suppress(OSError):
            running[rank.rank] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
    found, until = {}, time.monotonic() + _PY_SPY_SECONDS
    for number, process in running.items():
        try:
            out, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        if process.returncode == 0 and out:
            found[number] = out.decode(errors="replace")
    return found


def connections(pids: Iterable[int]) -> Iterator[str]:
    """The TCP connections of processes, one a line, with what waits in their queues."""
    owners = {inode: pid for pid in pids for inode in _sockets(pid)}
    for file in ("tcp", "tcp6"):
        for row in read_text(f"/proc/self/net/{file}").splitlines()[1:]:
            fields = row.split()
            if len(fields) > 9 and fields[9] in owners:
                sent, received = (int(part, 16) for part in fields[4].split(":"))
                state = _STATES.get(int(fields[3], 16), fields[3])
                yield (
                    f"{owners[fields[9]]} {_address(fields[1])} -> {_address(fields[2])} {state}, "
                    f"{sent} bytes unsent, {received} unread"
                )


def ras_status(address: str) -> str:
    """The answer of NCCL's RAS subsystem (NCCL 2.24 and later); empty if there is none.

    `verbose status` on NCCL_RAS_ADDR, see NCCL's user guide, troubleshooting, RAS.
    """
    host, _, port = address.rpartition(":")
    answer = bytearray()
    try:
        with socket.create_connection((host or "localhost", int(port)), _RAS_SECONDS) as peer:
            peer.settimeout(_RAS_SECONDS)
            peer.sendall(b"verbose status\n")
            while piece := peer.recv(65536):
                answer += piece
    except (OSError, ValueError):
        pass  # what has come by then is still evidence
    return answer.decode(errors="replace")


def _sockets(pid: int) -> Iterator[str]:
    for number in listed(f"/proc/{pid}/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]


def _address(text: str) -> str:
    """An address of /proc/net/tcp: words of 32 bits in the machine's own order."""
    raw, _, port = text.partition(":")
    words = [int(raw[at : at + 8], 16) for at in range(0, len(raw), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return f"{socket.inet_ntop(family, packed)}:{int(port, 16)}"
