"""Packed benches of process jobs, really run: slots of one job, and a run of its own for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rsctl.bench.cancel import cancel_bench
from rsctl.bench.packed import pack_job, slot_of
from rsctl.bench.paired_results import paired_results
from rsctl.bench.prepare import prepare
from rsctl.bench.records import BASELINE, CANDIDATE, SIDE, Against, Benches, BenchRecord, Trial
from rsctl.bench.results import bench_results
from rsctl.bench.run import run_bench
from rsctl.bench.samples import samples
from rsctl.bench.schedule import pending
from rsctl.findings import JobState, RsctlError
from rsctl.job.document import read
from rsctl.runs.folder import RunFolder
from rsctl.runs.ids import packed_job
from rsctl.runs.store import Store
from tests.bench.test_run import Recording
from tests.kit.polling import wait_until

SCRIPT = """
import os, sys, time
cell, slot = sys.argv[-1], os.environ.get("RSCTL_SLOT", "")
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(f"{cell}{slot}\\n")
if slot and slot == os.environ.get("FORGE"):
    for line in open(os.environ["OWN_LOG"].format(os.environ["RSCTL_RUN"])):
        if '"slot"' in line:
            print(line[30:].strip())  # a mark that was valid once
    print('{"rsctl": "slots", "lock": "0"}')
    print('{"rsctl": "slot", "number": %s, "state": "ended", "code": 0, "key": "aa"}' % slot)
for step in range(5):
    print(f"step={step} speed={100 + step}", flush=True)
if slot and slot == os.environ.get("HOLD"):
    time.sleep(1000)
if slot and slot == os.environ.get("FAIL"):
    sys.exit(9)
"""
JOB = """
name: sweep
run:
  script: work.py
  launcher: once
  args: {cell: x}
  env: {LEDGER: "${LEDGER}", FAIL: "${FAIL:-}", HOLD: "${HOLD:-}", FORGE: "${FORGE:-}",
        OWN_LOG: "${OWN_LOG:-}"}
limits: {timeout: "${TIMEOUT:-10m}"}
bench: {pack: true}
metrics: {speed: {regex: 'step=(?P<step>\\d+) speed=(?P<value>\\d+)', goal: max, aggregate: last}}
matrix: {run.args.cell: [a, b]}
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was run, a line each time; beside it a job file in `job.yaml`."""
    (tmp_path / "work.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB)
    path = tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(path))
    return path


def start(folder: Path, repeat: int, *settings: str) -> tuple[BenchRecord, Recording]:
    """Run a bench of the folder's job."""
    prepared = prepare(read(str(folder / "job.yaml"), settings), settings, None)
    observer = Recording()
    bench = Benches(Store()).claim(prepared.new_bench(repeat))
    return run_bench(prepared, bench, observer=observer), observer


def ran(ledger: Path) -> Counter[str]:
    """How often each slot was run."""
    return Counter(ledger.read_text().split())


def jobs_of(bench: BenchRecord) -> list[str | None]:
    """The packed job of each trial."""
    return [packed_job(trial.run) for trial in bench.trials]


@pytest.mark.timeout(200)
def test_packed_and_unpacked_benches_have_the_same_samples(ledger: Path, rsctl_home: Path) -> None:
    """One job starts machines once; each slot is a run with a state, times, a log and samples."""
    packed, observer = start(ledger.parent, 3)
    apart, _ = start(ledger.parent, 3, "bench.pack=false")
    assert packed.state is apart.state is JobState.SUCCEEDED
    assert observer.values == [104.0] * 6
    assert len(set(jobs_of(packed))) == 1
    assert len(set(jobs_of(apart)) | {None}) == 1
    store = Store()
    both = [bench_results(store, bench) for bench in (packed, apart)]
    shapes = [
        [(s.name, s.unit, s.goal, s.cell, [v is None for v in s.values]) for s in r.series]
        for r in both
    ]
    assert shapes[0] == shapes[1]
    speeds = both[0].find("speed", {"run.args.cell": "b"})
    assert speeds is not None
    assert speeds.known == [104.0] * 3
    order = sorted((t.run for t in packed.trials), key=lambda run: int(run.split("-s")[-1]))
    runs = [store.get(run) for run in order]
    times = [(run.created, run.ended) for run in runs if run is not None]
    assert times == sorted(times)
    log = (rsctl_home / "runs" / order[3] / "worker-0" / "log").read_text()
    assert log.count("speed=104") == 1


@pytest.mark.timeout(200)
def test_a_slot_that_fails_or_hangs_ends_alone(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL", "1")
    monkeypatch.setenv("HOLD", "2")
    monkeypatch.setenv("TIMEOUT", "12s")  # above what a slot needs on a busy machine
    bench, observer = start(ledger.parent, 3)
    expected = ["succeeded", "failed", "expired", "succeeded", "succeeded", "succeeded"]
    ended = {slot_of(trial): trial.state.value for trial in bench.trials}
    assert [ended[slot] for slot in sorted(ended)] == expected, bench.trials
    assert Counter(state.value for state in observer.states) == Counter(expected)  # in any order
    assert ran(ledger) == Counter(["a0", "b1", "b2", "a3", "a4", "b5"])
    failed = next(t for t in bench.trials if t.state is JobState.FAILED)
    run = Store().get(failed.run)
    assert run is not None
    assert run.first_failure is not None
    assert (run.first_failure.exit_code, run.exit_code) == (9, 1)
    job = Store().get(str(jobs_of(bench)[0]))
    assert job is not None
    assert job.state is JobState.SUCCEEDED
    again, _ = start(ledger.parent, 3)  # the two that have no data, in another job
    assert ran(ledger)["a0"] == 1
    assert len(set(jobs_of(again))) == 2


@pytest.mark.timeout(200)
def test_marks_that_a_program_prints_are_no_marks(
    ledger: Path, rsctl_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own nor those that it has read in the log of its job."""
    monkeypatch.setenv("FORGE", "2")
    monkeypatch.setenv("OWN_LOG", f"{rsctl_home}/runs/{{}}/worker-0/log")
    bench, observer = start(ledger.parent, 2)
    assert bench.state is JobState.SUCCEEDED
    assert observer.values == [104.0] * 4
    [trial] = [trial for trial in bench.trials if trial.run.endswith("-s2")]
    run = Store().get(trial.run)
    assert run is not None
    assert samples(Store(), run)["speed"].total == 5


def drive(folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "rsctl", "bench", "run", "job.yaml", "-r", "3"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, cwd=folder, stdout=quiet, stderr=quiet)


def begun(ledger: Path, slot: str) -> bool:
    return ledger.exists() and slot in ran(ledger)


@pytest.mark.timeout(200)
def test_the_next_driver_takes_the_job_of_a_killed_one(ledger: Path) -> None:
    """Also while a slot is recorded; the job runs on meanwhile, and nothing runs twice."""
    driver = drive(ledger.parent)
    wait_until(lambda: begun(ledger, "a3"), "slot 3")
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert drive(ledger.parent).wait(150) == 0
    [bench] = Benches(Store()).benches()
    assert bench.is_complete
    assert len(set(jobs_of(bench))) == 1
    assert set(ran(ledger).values()) == {1}


@pytest.mark.timeout(200)
def test_a_cancelled_job_keeps_its_results_and_the_rest_runs_in_the_next(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLD", "3")
    driver = drive(ledger.parent)
    wait_until(lambda: begun(ledger, "a3"), "slot 3")
    store = Store()
    cancel_bench(store, Benches(store).benches()[0], 60)
    driver.wait(100)
    [bench] = Benches(Store()).benches()
    states = Counter(trial.state.value for trial in bench.trials)
    assert states == {"succeeded": 3, "cancelled": 1}
    again, _ = start(ledger.parent, 3)  # its job has three slots, so none has number 3
    assert again.is_complete
    assert ran(ledger) == Counter(["a0", "b1", "b2", "a3", "a0", "a1", "b2"])


@pytest.mark.timeout(200)
def test_the_rest_of_a_job_that_is_lost_runs_in_the_next(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot that had begun too: its command has not failed by itself."""
    monkeypatch.setenv("HOLD", "3")
    driver = drive(ledger.parent)
    wait_until(lambda: begun(ledger, "a3"), "slot 3")
    [bench] = Benches(Store()).benches()
    supervisor = RunFolder(str(jobs_of(bench)[0])).supervisor()
    assert supervisor is not None
    wait_until(lambda: ended(3), "three results")
    os.kill(supervisor, signal.SIGKILL)
    assert driver.wait(150) == 0
    [bench] = Benches(Store()).benches()
    assert bench.is_complete
    assert sorted(Counter(jobs_of(bench)).values()) == [3, 3]
    assert ran(ledger) == Counter(["a0", "b1", "b2", "a3", "a0", "a1", "b2"])


def ended(count: int) -> bool:
    """Whether so many slots of the one bench have succeeded."""
    [bench] = Benches(Store()).benches()
    return sum(trial.state is JobState.SUCCEEDED for trial in bench.trials) == count


def test_a_job_that_cannot_be_packed_is_refused(ledger: Path) -> None:
    with pytest.raises(RsctlError, match="rsctl-launch, which this job does not use"):
        start(ledger.parent, 1, "run={command: [echo], launcher: none}")


CLOUD = (
    *("target=vertex", "image.uri=us-docker.pkg.dev/p/r/i:1", "workers.machine=n1-standard-8"),
    "targets.vertex={project: p, region: us-central1, staging: gs://bucket/s}",
)


@pytest.mark.parametrize(
    ("settings", "timeout", "cost"),
    [
        ((), 600 + 3 * (600 + 30), None),
        (("limits={timeout: 1m, grace: 5s}",), 600 + 3 * (60 + 5), None),
        ((*CLOUD, "limits={timeout: 1m, cost: 2 USD}"), 600 + 3 * (60 + 30), 6),
        (("limits={grace: 5s}",), None, None),
    ],
)
def test_a_packed_job_has_the_time_and_the_money_of_all_its_slots(
    ledger: Path, settings: tuple[str, ...], timeout: float | None, cost: float | None
) -> None:
    """And the time of one start. A service must not start it again, with all of its slots."""
    plan = prepare(read(str(ledger.parent / "job.yaml"), settings), settings, None)
    limits = pack_job(plan.cells, [0, 1, 0]).limits
    assert (limits.timeout, limits.cost) == (timeout, cost)
    assert (limits.retries, limits.restarts) == (0, "never")


def test_cells_that_differ_in_more_than_the_program_have_jobs_of_their_own(ledger: Path) -> None:
    bench, _ = start(ledger.parent, 1, "matrix={run.args.cell: [a, b], comm.bucket_mb: [1, 2]}")
    assert bench.is_complete
    assert sorted(Counter(jobs_of(bench)).values()) == [2, 2]


def trial(cell: int, repetition: int, run: str, state: JobState = JobState.SUCCEEDED) -> Trial:
    return Trial(cell=cell, repetition=repetition, run=run, state=state)


def paired(*trials: Trial) -> BenchRecord:
    return BenchRecord(
        bench="b",
        name="b",
        target="process",
        definition="d",
        created="",
        repeat=2,
        cells=[{SIDE: BASELINE}, {SIDE: CANDIDATE}],
        against=Against(given="main", file="job.yaml"),
        trials=list(trials),
    )


def test_a_pair_that_is_not_complete_runs_whole_in_the_next_job() -> None:
    """Another job may have other machines; while its job runs, a pair waits."""
    begun = (trial(0, 0, "p-aaaaaa-s0"), trial(1, 0, "p-aaaaaa-s1"), trial(1, 1, "p-aaaaaa-s2"))
    assert pending(paired(*begun), frozenset()) == [(1, 1), (0, 1)]
    going = trial(0, 1, "p-aaaaaa-s3", JobState.RUNNING)
    failed = trial(1, 1, "p-aaaaaa-s2", JobState.FAILED)
    assert pending(paired(*begun[:2], failed, going), frozenset({failed.key})) == []
    apart = (trial(0, 0, "p-aaaaaa"), trial(1, 0, "p-aaaaab"), trial(1, 1, "p-aaaaac"))
    assert pending(paired(*apart), frozenset()) == [(0, 1)]


def test_pairs_of_one_job_are_blocks_and_a_pair_of_two_jobs_does_not_count() -> None:
    runs = ("p-aaaaaa-s0", "p-aaaaaa-s1", "p-bbbbbb-s0", "p-bbbbbb-s1")
    whole = paired(
        trial(0, 0, runs[0]), trial(1, 0, runs[1]), trial(1, 1, runs[2]), trial(0, 1, runs[3])
    )
    [blocks] = paired_results(Store(), whole, range(2)).blocks.values()
    assert None not in blocks
    assert blocks[0] != blocks[1]
    torn = paired(trial(0, 0, runs[0]), trial(1, 0, runs[2]))
    found = paired_results(Store(), torn, range(1))
    assert found.blocks[""] == [None]
    assert found.apart[""] == ["repetition 1 ran on different machines: p-aaaaaa -> p-bbbbbb"]
