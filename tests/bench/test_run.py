"""Benches of process jobs, really run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from rsctl.bench.prepare import BenchPlan, prepare, reopen
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.bench.run import run_bench
from rsctl.bench.samples import Sample
from rsctl.findings import ExitCode, Finding, JobState, RsctlError
from rsctl.images.events import Show
from rsctl.job.document import read
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import Event

SCRIPT = """
import os, sys, time
cell = sys.argv[sys.argv.index("--cell") + 1]
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(f"{cell}\\n")
for step in range(5):
    print(f"step={step} speed={100 + step}", flush=True)
time.sleep(float(os.environ.get("SECONDS_OF_WORK", "0")))
if os.path.exists(os.environ["LEDGER"] + "." + cell):
    sys.exit("told to fail")
"""
JOB = """
name: sweep
run:
  command: [python3, work.py]
  launcher: none
  args: {cell: x}
  env: {LEDGER: "${LEDGER}", SECONDS_OF_WORK: "${SECONDS_OF_WORK:-0}"}
metrics: {speed: {regex: 'step=(?P<step>\\d+) speed=(?P<value>\\d+)', goal: max, aggregate: last}}
matrix: {run.args.cell: [a, b, c]}
"""


class Recording:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.todo: list[int] = []
        self.order: list[tuple[int, int]] = []
        self.values: list[float | None] = []
        self.findings: list[str] = []
        self.states: list[JobState] = []

    def begin(self, bench: BenchRecord, todo: int, is_driven: bool) -> None:
        """See BenchObserver."""
        self.todo.append(todo)

    def building(self) -> AbstractContextManager[Show]:
        """See BenchObserver."""
        return nullcontext(lambda _event: None)

    def submitted(self, trial: Trial) -> None:
        """See BenchObserver."""
        self.order.append(trial.slot)

    def events(self, trial: Trial, events: list[Event]) -> None:
        """See BenchObserver."""

    def ended(self, trial: Trial, run: RunRecord | None, samples: Mapping[str, Sample]) -> None:
        """See BenchObserver."""
        self.states.append(trial.state)
        self.values.append(samples["speed"].value if "speed" in samples else None)

    def finding(self, finding: Finding) -> None:
        """See BenchObserver."""
        self.findings.append(finding.message)

    def tick(self, bench: BenchRecord) -> None:
        """See BenchObserver."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was run, a line each time; beside it a job file in `job.yaml`."""
    (tmp_path / "work.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB)
    path = tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(path))
    return path


def prepared_at(folder: Path, *settings: str) -> BenchPlan:
    """The job file of a folder, ready to be run."""
    return prepare(read(str(folder / "job.yaml"), settings), settings, None)


def ran(ledger: Path) -> Counter[str]:
    """How often each cell was run."""
    return Counter(ledger.read_text().split())


def start(folder: Path, repeat: int, **options: Any) -> tuple[BenchRecord, Recording]:
    """Run a bench of the folder's job."""
    prepared, observer = prepared_at(folder), Recording()
    bench = Benches(Store()).claim(prepared.new_bench(repeat))
    return run_bench(prepared, bench, observer=observer, **options), observer


def test_every_cell_is_run_its_share_in_balanced_order(ledger: Path) -> None:
    """And each run has its samples when it has ended; there is nothing left for another call."""
    bench, observer = start(ledger.parent, repeat=2)
    assert observer.order == [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]
    assert observer.values == [104.0] * 6
    assert ran(ledger) == {"a": 2, "b": 2, "c": 2}
    assert (bench.state, bench.exit_code, bench.is_complete) == (JobState.SUCCEEDED, 0, True)
    assert [len(bench.runs_of(cell)) for cell in range(3)] == [2, 2, 2]
    again, observer = start(ledger.parent, repeat=1)
    assert (again.bench, observer.todo, observer.order) == (bench.bench, [0], [])
    assert again.ended == bench.ended
    assert start(ledger.parent, repeat=3)[1].todo == [3]


def test_no_run_continues_the_training_of_another(ledger: Path) -> None:
    """A script that resumes trains all its steps in each run, wherever the job keeps them."""
    (ledger.parent / "work.py").write_text(
        "import os, pathlib\n"
        "last = pathlib.Path(os.environ['RSCTL_CHECKPOINT_DIR'], 'last')\n"
        "done = int(last.read_text()) if last.exists() else 0\n"
        "for step in range(done, 5): print(f'step={step} speed={100 + done}')\n"
        "last.write_text('5')\n"
    )
    kept = ledger.parent / "kept"
    (ledger.parent / "job.yaml").write_text(f"checkpoints: {kept}\n{JOB}")
    prepared = prepared_at(ledger.parent)
    assert [finding.message for finding in prepared.findings if finding.code == "bench"] == [
        f"a bench keeps the checkpoints of each run in the run's own folder, not {kept}"
    ]
    _, observer = start(ledger.parent, repeat=2)
    assert observer.values == [100.0] * 6
    assert not kept.exists()


def test_what_failed_is_run_again_by_the_next_call_and_nothing_else(ledger: Path) -> None:
    """The failed runs stay in the record as earlier attempts."""
    trap = Path(f"{ledger}.b")
    trap.touch()
    bench, observer = start(ledger.parent, repeat=2)
    assert (bench.state, bench.exit_code) == (JobState.FAILED, ExitCode.JOB_FAILED)
    assert observer.states.count(JobState.FAILED) == 2
    trap.unlink()
    bench, observer = start(ledger.parent, repeat=2)
    assert (observer.todo, bench.state) == ([2], JobState.SUCCEEDED)
    assert ran(ledger) == {"a": 2, "b": 4, "c": 2}
    assert [t.attempt for t in bench.trials] == [0, 0, 0, 1, 0, 1, 0, 0]


def test_fail_fast_starts_nothing_more(ledger: Path) -> None:
    """After the first failure."""
    Path(f"{ledger}.b").touch()
    bench, _ = start(ledger.parent, repeat=2, fail_fast=True)
    assert bench.exit_code is ExitCode.JOB_FAILED
    assert ran(ledger) == {"a": 1, "b": 1}


def test_a_cancelled_bench_ends_its_runs(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next call runs them again."""
    monkeypatch.setenv("SECONDS_OF_WORK", "60")
    prepared, observer = prepared_at(ledger.parent), Recording()
    bench = Benches(Store()).claim(prepared.new_bench(1))

    def stop() -> Any:
        return "cancel" if ledger.exists() else None

    bench = run_bench(prepared, bench, observer=observer, stop=stop)
    assert (bench.state, bench.exit_code) == (JobState.RUNNING, ExitCode.CANCELLED)
    assert observer.states == [JobState.CANCELLED]


def test_files_that_change_stop_a_bench_and_make_another_one(ledger: Path) -> None:
    """What is measured must be one thing."""
    prepared = prepared_at(ledger.parent)
    bench = Benches(Store()).claim(prepared.new_bench(1))
    (ledger.parent / "work.py").write_text(SCRIPT + "# other\n")
    with pytest.raises(RsctlError, match="files have changed since the bench began"):
        run_bench(prepared, bench)
    assert not ledger.exists()
    other = Benches(Store()).claim(prepared_at(ledger.parent).new_bench(1))
    assert other.bench != bench.bench
    with pytest.raises(RsctlError, match="has changed since"):
        reopen(bench)


def test_a_bench_is_opened_again_from_its_record(ledger: Path) -> None:
    """For further repetitions, though its job file has other cells by now."""
    prepared = prepared_at(ledger.parent, "run.args.cell=[a, b]")
    bench = Benches(Store()).claim(prepared.new_bench(1))
    (ledger.parent / "job.yaml").write_text(JOB.replace("sweep", "other"))
    again = reopen(bench)
    assert [cell.values for cell in again.cells] == [{"run.args.cell": "a"}, {"run.args.cell": "b"}]
    assert again.definition == bench.definition


DRIVE = """
import sys
from rsctl.bench.prepare import prepare
from rsctl.bench.records import Benches
from rsctl.bench.run import run_bench
from rsctl.runs.store import Store
from rsctl.job.document import read

prepared = prepare(read(sys.argv[1]), (), None)
bench = Benches(Store()).claim(prepared.new_bench(3))
sys.exit(run_bench(prepared, bench, parallel=2).exit_code)
"""


def drive(folder: Path) -> subprocess.Popen[bytes]:
    """A process that runs three repetitions of each cell, two runs at a time."""
    return subprocess.Popen([sys.executable, "-c", DRIVE, str(folder / "job.yaml")])


def test_killed_half_way_and_resumed_by_two_at_once(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell is run exactly its share: runs that outlived their driver are not run again."""
    monkeypatch.setenv("SECONDS_OF_WORK", "0.3")
    drivers = [drive(ledger.parent), drive(ledger.parent)]
    deadline = monotonic() + 60
    while monotonic() < deadline and (not ledger.exists() or len(ran(ledger)) < 3):
        sleep(0.02)
    for driver in drivers:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    drivers = [drive(ledger.parent), drive(ledger.parent)]
    assert [driver.wait(90) for driver in drivers] == [0, 0]
    assert ran(ledger) == {"a": 3, "b": 3, "c": 3}
    [bench] = Benches(Store()).benches()
    assert len(bench.trials) == 9
    assert bench.is_complete
