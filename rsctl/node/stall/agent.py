"""The thread of `rsctl-launch` that notices a stall of its node, and answers requests.

It prints, for each report, one `rank` line for each rank and then one `stall` line. A report is
printed when no rank of the node has progressed for `limits.stall`, again when that changes, and
when it is asked for. A report alone changes nothing: the job may be writing a checkpoint on another
node. The reader of the lines of all nodes decides.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from rsctl.node.cluster import Cluster
from rsctl.node.nvml import Nvml
from rsctl.node.rank import DEBUG_DIR
from rsctl.node.settings import number
from rsctl.node.stall.activity import Counters, Sample, Use, take_sample, use_between
from rsctl.node.stall.evidence import RAS_ADDRESS, Evidence, evidence_dir
from rsctl.node.stall.ranks import Answer, armed_ranks, ask, last_words
from rsctl.node.stall.reachability import start_reaching
from rsctl.node.stall.request import request_pipe
from rsctl.node.stall.settings import DEFAULT_STALL_SECONDS, INSPECT, STALL_SECONDS
from rsctl.node.structured_lines import LINE_BYTES, emit, line
from rsctl.node.telemetry import parse_traffic

_SAMPLES_A_STALL = 5
_LONGEST_TICK, _SHORTEST_TICK = 15.0, 0.25
_PROBE_SECONDS = 0.5
_MOST_ENTRIES = 12
_MOST_ENDED = 16
_RANKS_A_LINE = 32
_TELEMETRY_SECONDS = 10.0
_MOST_MISSING = 64

_made: set[str] = set()
"""The folders that this process has made: it uses and removes no other folder."""


def debug_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which ranks can be asked what they do; empty if the job does not want it.

    Makes the folder that they name. What the user has set stays. Sources: PyTorch 2.13,
    FlightRecorder (TORCH_FR_DUMP_TEMP_FILE) and ProcessGroupNCCL (TORCH_NCCL_DUMP_ON_TIMEOUT,
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE). The size of the recorder is set by the rank itself, which
    knows its torch (`inspection.py`). NCCL's documentation of NCCL_RAS_ADDR wants another address
    for each job on a machine; it is not used where NCCL is not.
    """
    if environ.get(INSPECT) == "off":
        return {}
    try:
        folder = tempfile.mkdtemp(prefix="rsctl-debug-")
    except OSError:
        return {}
    _made.add(folder)
    dump = os.path.join(folder, "flight-recorder-")
    defaults = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": dump,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump,
        **_ras_address(),
    }
    own = {name: value for name, value in defaults.items() if name not in environ}
    return {**own, DEBUG_DIR: folder}


def _ras_address() -> dict[str, str]:
    """A free port of the loopback; empty if there is none. Another program may take it meanwhile:
    NCCL then works without RAS.
    """
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as chosen:
        chosen.bind(("127.0.0.1", 0))
        return {RAS_ADDRESS: f"localhost:{chosen.getsockname()[1]}"}
    return {}


class StallAgent:
    """Watches the processes of one node."""

    def __init__(
        self,
        cluster: Cluster,
        environ: Mapping[str, str],
        interface: str | None,
        expected: Iterable[int] = (),
    ) -> None:
        """`expected` are the ranks that this node starts. Raises LaunchError for a limit that is
        not a number.
        """
        named = environ.get(DEBUG_DIR, "")
        self._debug_dir = named if named in _made else ""
        self._evidence = Evidence(evidence_dir(environ), self._debug_dir, environ.get(RAS_ADDRESS))
        self._limit = number(environ, STALL_SECONDS, DEFAULT_STALL_SECONDS)
        tick = self._limit / _SAMPLES_A_STALL if self._limit else _LONGEST_TICK
        self._tick = min(_LONGEST_TICK, max(_SHORTEST_TICK, tick))
        self._trains = cluster.role != "reducer"
        self._interface = interface
        self._gpus: list[Nvml | None] = []
        self._cluster, self._expected = cluster, list(expected)
        self._pipe_path = request_pipe(environ)
        self._has_made_pipe = _make_pipe(self._pipe_path)
        self._pipe = _open_pipe(self._pipe_path)
        self._number = 0
        self._lock = threading.Lock()  # of reports: the last one is made by another thread
        self._before: Sample | None = None
        self._counters: Counters = {}
        self._progressed = self._worked = time.monotonic()
        self._waits_since: float | None = None
        self._reported: tuple[bool, bool] | None = None
        self._telemetry_seconds = number(environ, "RSCTL_TELEMETRY_SECONDS", _TELEMETRY_SECONDS)
        self._steps: dict[int, dict[str, Any]] = {}
        self._printed_steps = 0.0

    @classmethod
    def start(
        cls,
        cluster: Cluster,
        environ: Mapping[str, str],
        interface: str | None,
        expected: Iterable[int],
    ) -> StallAgent | None:
        """Start the thread; None if the job wants neither a watch nor answers."""
        agent = cls(cluster, environ, interface, expected)
        if not agent._limit and not agent._debug_dir:
            agent.close()
            return None
        threading.Thread(target=agent._run, name="rsctl-stall", daemon=True).start()
        return agent

    def command_ended(self, failed: bool) -> None:
        """Report what ranks were doing that an exception has ended, if any was in a collective."""
        ended = last_words(self._debug_dir) if failed else {}
        with_groups = [each for each in ended.values() if each[1].get("groups")][:_MOST_ENDED]
        if with_groups:
            with self._lock:
                self._print(self._evidence.of_ended(with_groups), 0, {"ended": True})

    def close(self) -> None:
        """Keep Flight Recorder's own dumps, and remove the folder and the pipe that we made."""
        if self._has_made_pipe:
            with suppress(OSError):
                os.remove(self._pipe_path)
        folder = self._debug_dir
        if not folder:  # comm.debug: off
            return
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.startswith("flight-recorder-"):
                with suppress(OSError):
                    shutil.copy(os.path.join(folder, name), self._evidence.made_folder())
        shutil.rmtree(folder, ignore_errors=True)

    def _run(self) -> None:
        sampled = 0.0
        while True:
            for asked in self._requests(self._tick):
                self._sample()
                self._report(asked)
            if time.monotonic() - sampled >= self._tick:
                sampled = time.monotonic()
                self._sample()

    def _requests(self, seconds: float) -> list[int]:
        """The numbers of requests that come within so many seconds; returns at the first."""
        if self._pipe is None:
            time.sleep(seconds)
            return []
        readable, _, _ = select.select([self._pipe], [], [], seconds)
        text = os.read(self._pipe, 4096).decode(errors="replace") if readable else ""
        return [int(each) for each in text.split() if each.isdigit() and len(each) < 16][:4]

    def _sample(self) -> None:
        """Judge the time since the last sample. Processes are only looked at where no rank is known
        to have called or completed a collective, which is the usual case.
        """
        ranks = armed_ranks(self._debug_dir)
        self._number += 1
        answers = ask(self._debug_dir, ranks, "probe", self._number, _PROBE_SECONDS)
        counters = {rank: answer.content.get("groups", {}) for rank, answer in answers.items()}
        self._collect_steps(answers)
        before, self._counters = self._counters, {**self._counters, **counters}
        if any(counters[rank] != before[rank] for rank in counters.keys() & before.keys()):
            self._before = None
            self._has_progressed(time.monotonic())
            return
        own = sum(answer.size for answer in answers.values())
        roots = [rank.pid for rank in ranks]
        if len(ranks) < len(self._expected) or not ranks:
            roots.append(os.getpid())  # and with it what has not imported torch
        last, self._before = self._before, None
        now = self._before = take_sample(roots, own, counters, self._traffic, self._gpu_percent)
        if last is not None:
            self._judge(use_between(last, now), now.time)

    def _judge(self, use: Use, now: float) -> None:
        if use.moved:
            self._has_progressed(now)
            return
        if use.busy:
            self._worked = now
        if not use.waits:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        if self._limit and now - self._progressed >= self._limit:
            key = (now - self._worked >= self._limit, self._waits_since is not None)
            if key != self._reported:
                self._reported = key
                self._report(None)

    def _has_progressed(self, now: float) -> None:
        self._progressed = self._worked = now
        self._waits_since = None
        if self._reported is not None:
            self._reported = None
            emit("stall", {"over": True})

    def _collect_steps(self, answers: Mapping[int, Answer]) -> None:
        """Print how long the last timed step of each rank was, and how long the rank waited."""
        for rank, answer in answers.items():
            step = answer.content.get("step")
            if isinstance(step, dict):
                self._steps[rank] = {"rank": rank, **step}
        now = time.monotonic()
        if self._steps and now - self._printed_steps >= self._telemetry_seconds:
            self._printed_steps = now
            ranks, self._steps = list(self._steps.values()), {}
            for first in range(0, len(ranks), _RANKS_A_LINE):
                emit("telemetry", {"ranks": ranks[first : first + _RANKS_A_LINE]})

    def _report(self, asked: int | None) -> None:
        """Print what this node does, now."""
        with self._lock:
            self._number += 1
            ranks = armed_ranks(self._debug_dir)
            unreached = self._start_reaching()
            reports = self._evidence.of_ranks(ranks, self._number)
            pids = [rank.pid for rank in ranks]
            others = self._evidence.of_processes(os.getpid(), pids)
            self._evidence.of_node(pids, _has_nccl(reports))
            now = time.monotonic()
            known = {rank.rank for rank in ranks}
            missing = [rank for rank in self._expected if rank not in known]
            fields = {
                "asked": asked,
                "quiet": round(now - self._progressed, 1),
                "idle": round(now - self._worked, 1),
                "trains": self._trains,
                "held": others[:8],
                "missing": missing[:_MOST_MISSING] if self._debug_dir else [],
                "index": self._cluster.index,
                "unreached": unreached(),
            }
            self._print(reports, self._number, fields)
            self._before = None  # what ranks wrote for this report is not progress

    def _start_reaching(self) -> Callable[[], list[int]]:
        cluster = self._cluster
        hosts = cluster.workers if cluster.role == "worker" else ()
        return start_reaching(hosts, cluster.index, cluster.port)

    def _print(
        self, reports: list[dict[str, Any]], number: int, fields: Mapping[str, object]
    ) -> None:
        for report in reports:
            for part in rank_lines({"number": number, **report}):
                emit("rank", part)
        emit("stall", {"number": number, "ranks": len(reports), **fields})

    def _traffic(self) -> int | None:
        if self._interface is None:
            return None
        with suppress(OSError), open("/proc/self/net/dev", encoding="utf-8") as file:
            traffic = parse_traffic(file.read(), self._interface)
            return traffic.received + traffic.sent if traffic else None
        return None

    def _gpu_percent(self) -> float:
        if not self._gpus:
            self._gpus.append(Nvml.load())
        [nvml] = self._gpus
        read = nvml.read() if nvml is not None else []
        return max((float(gpu.get("util_percent", 0)) for gpu in read), default=0.0)


def _make_pipe(path: str) -> bool:
    """Whether this process has made the pipe for requests: a killed launcher may have left one, and
    some disks have none.
    """
    try:
        os.mkfifo(path, 0o600)
    except OSError:
        return False
    return True


def _open_pipe(path: str) -> int | None:
    """The pipe for requests; None where there is none, a file of another kind, or another user's
    pipe.
    """
    try:
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(pipe)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
        return pipe
    os.close(pipe)
    return None


def _has_nccl(reports: list[dict[str, Any]]) -> bool:
    def loads_nccl(pid: int) -> bool:
        with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return any("libnccl" in row for row in file)
        return False

    return any(loads_nccl(int(report["pid"])) for report in reports[:1])


def rank_lines(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The report of a rank in lines that are not too long: the first has all but process groups
    that do not fit, the next ones these. A group's last collectives are cut where necessary.
    """
    current: dict[str, Any] = {**report, "groups": {}}
    if _is_too_long(current):
        current["stack"] = []
    for name, group in report["groups"].items():
        for most in (_MOST_ENTRIES, 6, 2, 0):
            own = {name: {**group, "entries": _needed(group.get("entries", []), most)}}
            together = {**current, "groups": {**current["groups"], **own}}
            if not _is_too_long(together):
                current = together
                break
            apart = {"number": report["number"], "rank": report["rank"], "groups": own}
            if not _is_too_long(apart):
                yield current
                current = apart
                break
    yield current


def _is_too_long(report: dict[str, Any]) -> bool:
    return len(line("rank", report)) > LINE_BYTES


def _needed(entries: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The last collectives; sizes of many tensors are cut."""
    last = entries[-most:] if most else []
    return [{**entry, "sizes": entry["sizes"][:4], "dtypes": entry["dtypes"][:4]} for entry in last]
