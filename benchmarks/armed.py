"""The cost of what is armed against hangs: training steps of two ranks with it and without.

Two jobs live at the same time, one with Flight Recorder, the thread that answers and the handler of
stacks, one without. They take turns every few steps, so that both see the same machine: the ratio
of neighbours is the cost. The armed job is asked before each of its turns, which is far more often
than in a real job, where a node asks its ranks every 15 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.measure import ROOT, Failed
from benchmarks.report import Report
from rsctl.node.rank import DEBUG_DIR
from rsctl.node.stall.ranks import armed_ranks, ask

RUNS = 400
_STEPS = 20
_PORT = 29871
_ANSWER_SECONDS = 30.0
_SCRIPT = """
import sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8))))
for line in sys.stdin:
    times, used = [], time.process_time()
    for step in range(int(line)):
        begin = time.perf_counter()
        model(torch.randn(32, 256)).sum().backward()
        times.append(time.perf_counter() - begin)
    print(sorted(times)[len(times) // 2], (time.process_time() - used) / len(times), flush=True)
"""


class _Job:
    """Two ranks on this machine that train when asked; `folder` is where they can be asked."""

    def __init__(self, folder: Path, port: int, is_armed: bool, stack: ExitStack) -> None:
        folder.mkdir()
        script = folder / "train.py"
        script.write_text(_SCRIPT)
        env = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        env |= {DEBUG_DIR: str(folder)} if is_armed else {}
        self._folder = str(folder)
        self._ranks = []
        for rank in range(2):
            process = subprocess.Popen(
                [sys.executable, str(script)],
                env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            self._ranks.append(process)

    def step(self, steps: int) -> tuple[float, float]:
        """The median of so many steps, and the processor time of one, in milliseconds."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{steps}\n")
            rank.stdin.flush()
        rows = [rank.stdout.readline() if rank.stdout else "" for rank in self._ranks]
        if not all(rows):
            raise Failed("a rank has failed")
        wall, used = rows[0].split()
        return float(wall) * 1e3, float(used) * 1e3

    def ask(self, kind: str, number: int) -> float:
        """How long the two ranks take to answer, in milliseconds."""
        began = time.perf_counter()
        ranks = armed_ranks(self._folder)
        if len(ask(self._folder, ranks, kind, number, _ANSWER_SECONDS)) != len(self._ranks):
            raise Failed("a rank has not answered")
        return (time.perf_counter() - began) * 1e3


def run(runs: int, steps: int = _STEPS) -> Report:
    """Medians of a step with and without, their ratio in neighbouring turns, and an answer."""
    times: dict[_Job, list[tuple[float, float]]] = {}
    answers = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        armed = _Job(folder / "armed", _PORT, True, stack)
        bare = _Job(folder / "bare", _PORT + 1, False, stack)
        armed.step(steps)
        bare.step(steps)  # the first steps allocate memory and are slower
        for turn in range(runs):
            answers.append(armed.ask("probe", turn + 1))
            first, second = (armed, bare) if turn % 2 else (bare, armed)
            for job in (first, second):
                times.setdefault(job, []).append(job.step(steps))
        inspected = [armed.ask("inspect", runs + turn) for turn in range(1, 4)]
    report = Report("armed", "a training step with and without what is armed against hangs")
    for index, what in enumerate(("step", "processor time of a step")):
        with_it, without = ([each[index] for each in times[job]] for job in (armed, bare))
        report.add(f"{what}, armed", "ms", with_it)
        report.add(f"{what}, comm.debug: off", "ms", without)
        ratios = [a / b for a, b in zip(with_it, without, strict=True)]
        report.add(f"{what}, ratio of neighbours", "x", ratios, "1.01")
        low, high = _interval(ratios)
        report.notes.append(
            f"{what}: median ratio of {runs} turns of {steps} steps {median(ratios):.4f}, 95 % "
            f"interval {low:.4f} to {high:.4f}"
        )
    report.add("an answer to a probe", "ms", answers)
    report.add("an answer with the last collectives, on a stall", "ms", inspected)
    return report


def _interval(values: list[float]) -> tuple[float, float]:
    """The interval of 95 % of a median, by order statistics (sign test)."""
    ordered, spread = sorted(values), 0.98 * len(values) ** 0.5
    first = max(0, round(len(values) / 2 - spread) - 1)
    return ordered[first], ordered[len(values) - 1 - first]
