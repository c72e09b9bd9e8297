"""Benches in the store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rsctl.bench.records import Benches, BenchRecord, Trial, new_bench_id
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now


def bench_of(definition: str = "d1", repeat: int = 2, name: str = "sweep") -> BenchRecord:
    """A bench of two cells."""
    cells = [{"workers.count": 2}, {"workers.count": 4}]
    return BenchRecord(
        bench=new_bench_id(name),
        name=name,
        target="process",
        definition=definition,
        created=now(),
        repeat=repeat,
        cells=cells,
        spec={"name": name, "workers": {"count": "${N:-1}"}},
        settings=["a=b"],
    )


def trial(cell: int, repetition: int, state: JobState, attempt: int = 0) -> Trial:
    """A trial that has ended so."""
    code = int(state.exit_code) if state.is_final else None
    run = f"r{cell}{repetition}{attempt}"
    return Trial(
        cell=cell, repetition=repetition, attempt=attempt, run=run, state=state, exit_code=code
    )


def test_a_bench_comes_back_as_it_was(store: Store) -> None:
    """With its trials, their latest attempts, and its images."""
    benches = Benches(store)
    bench = benches.claim(bench_of())
    done, failed, again = (
        trial(0, 0, JobState.SUCCEEDED),
        trial(1, 0, JobState.FAILED),
        trial(1, 0, JobState.RUNNING, attempt=1),
    )
    for one in (done, failed, again):
        benches.begin(bench.bench, one)
    again.state, again.exit_code = JobState.SUCCEEDED, 0
    benches.note(bench.bench, again)
    benches.have_image(bench.bench, "r.io/a/b:1.x", "r.io/a/b@sha256:1")
    benches.enter(bench.bench, JobState.RUNNING)
    bench.trials, bench.state = [done, failed, again], JobState.RUNNING
    bench.images = {"r.io/a/b:1.x": "r.io/a/b@sha256:1"}
    assert benches.get(bench.bench) == bench
    assert list(bench.latest().values()) == [done, again]
    assert bench.runs_of(1) == ["r101"]
    assert benches.of_run("r100") == bench
    assert benches.of_run("else") is None


def test_the_same_definition_is_the_same_bench_until_asked_for_another(store: Store) -> None:
    """With room for the most repetitions that anybody wanted."""
    benches = Benches(store)
    first = benches.claim(bench_of())
    second = benches.claim(bench_of(repeat=5))
    assert (second.bench, second.repeat) == (first.bench, 5)
    assert benches.claim(bench_of(repeat=1)).repeat == 5
    assert benches.claim(bench_of("d2")).bench != first.bench
    assert benches.claim(bench_of(), new=True).bench != first.bench


def test_the_runs_that_a_continued_bench_has_already(store: Store) -> None:
    benches = Benches(store)
    bench = benches.claim(bench_of(repeat=3))
    assert benches.succeeded("d1", 3) == 0
    for one in (
        trial(0, 0, JobState.SUCCEEDED),
        trial(0, 1, JobState.FAILED),
        trial(0, 1, JobState.SUCCEEDED, attempt=1),
        trial(1, 0, JobState.SUCCEEDED),
        trial(1, 0, JobState.FAILED, attempt=1),
        trial(1, 2, JobState.SUCCEEDED),
    ):
        benches.begin(bench.bench, one)
    assert [benches.succeeded("d1", repeat) for repeat in (1, 2, 3)] == [1, 2, 3]
    assert benches.succeeded("d2", 3) == 0
    assert benches.succeeded("d1", 3, [bench.bench]) == 0


def test_a_job_file_names_its_latest_bench(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pipeline may have started one since, in the same store."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml", "c.yaml", "sweep"):
        Path(name).touch()
    benches = Benches(store)
    first, last, other = (bench_of(name) for name in ("d1", "d2", "d3"))
    for bench, file in ((first, "a.yaml"), (last, "a.yaml"), (other, "b.yaml")):
        bench.file = str(tmp_path / file)
        benches.claim(bench)
    assert benches.find("@last") == other
    assert benches.find("./a.yaml") == benches.find(str(tmp_path / "a.yaml")) == last
    benches.claim(first)
    assert benches.find("a.yaml").bench == first.bench
    with pytest.raises(RsctlError) as none_yet:
        benches.find("c.yaml")
    assert none_yet.value.findings == (
        error("bench", "c.yaml has no bench yet", "start one: rsctl bench run c.yaml"),
    )
    with pytest.raises(RsctlError, match="there is no bench"):
        benches.find("d.yaml")
    with pytest.raises(RsctlError, match="matches several"):
        benches.find("sweep")


def test_two_who_claim_at_once_get_one_bench() -> None:
    """From connections of their own."""
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: Benches(Store()).claim(bench_of()).bench, range(16)))
    assert len(set(claimed)) == 1


def test_exit_codes_of_benches(store: Store) -> None:
    """That of the worst; while some are missing it is an interrupted one."""
    bench = bench_of(repeat=1)
    assert bench.exit_code is ExitCode.INTERRUPTED
    bench.trials = [trial(0, 0, JobState.SUCCEEDED), trial(1, 0, JobState.SUCCEEDED)]
    assert bench.exit_code is ExitCode.SUCCEEDED
    bench.trials.append(trial(1, 0, JobState.CANCELLED, attempt=1))
    assert bench.exit_code is ExitCode.CANCELLED
    bench.trials.append(trial(0, 0, JobState.FAILED, attempt=1))
    assert bench.exit_code is ExitCode.JOB_FAILED


def test_benches_are_found_by_id_prefix_and_last(store: Store) -> None:
    """With a remedy if not."""
    benches = Benches(store)
    with pytest.raises(RsctlError, match="there are no benches yet"):
        benches.find("@last")
    first, second = (benches.claim(bench_of(name, name=name)) for name in ("abc", "abd"))
    assert benches.find("abc").bench == first.bench
    assert benches.find(second.bench).bench == second.bench
    assert benches.find("@last").bench == second.bench
    with pytest.raises(RsctlError, match="matches several benches"):
        benches.find("ab")
    with pytest.raises(RsctlError, match="no bench 'zzz'") as caught:
        benches.find("zzz")
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_last_bench_is_the_one_that_was_started_or_continued_last(store: Store) -> None:
    benches = Benches(store)
    first, second = benches.claim(bench_of("a")), benches.claim(bench_of("b"))
    assert benches.find("@last") == second
    assert benches.claim(bench_of("a", repeat=3)).bench == first.bench
    assert benches.find("@last").bench == first.bench
    assert benches.get(first.bench) == benches.find("@last")
    assert [bench.bench for bench in benches.benches()] == [second.bench, first.bench]
    third = benches.claim(bench_of("a"), new=True)
    assert benches.find("@last") == third
