"""`rsctl prune`, and `rsctl list -v`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.runs.home import home
from rsctl.runs.store import Store
from tests.cli.conftest import Cli, MadeRun, at
from tests.kit.polling import DEADLINE_SECONDS

Make = Callable[..., MadeRun]


def make_bench(
    name: str, runs: list[str], state: JobState = JobState.SUCCEEDED, **spec: object
) -> None:
    """A bench of one cell, with a trial for each run."""
    ended = at(30) if state.is_final else None
    bench = BenchRecord(
        bench=name,
        name="job",
        target="process",
        definition=name,
        state=state,
        created=at(0),
        ended=ended,
        cells=[{}],
        spec=spec,
    )
    benches = Benches(Store())
    benches.claim(bench)
    for repetition, run in enumerate(runs):
        benches.begin(name, Trial(cell=0, repetition=repetition, run=run, state=state))
    (BenchFolder(name).path).mkdir(parents=True)
    BenchFolder(name).log.write_text("x")


def runs_of_store() -> list[str]:
    return [run.run for run in Store().runs()]


def folders() -> list[str]:
    return sorted(path.name for path in (home() / "runs").iterdir())


def test_runs_that_ended_long_ago_go(rsctl: Cli, make_run: Make) -> None:
    make_run("job-aaaaaa").succeed(3)
    lock = make_run("job-bbbbbb", second=1).folder.lock()
    dry = rsctl("prune", "--older-than", "30d", "--dry-run")
    assert runs_of_store() == folders()[::-1] == ["job-bbbbbb", "job-aaaaaa"]
    done = rsctl("prune", "--older-than", "30d")
    assert (done.code, done.out) == (0, dry.out)
    head, row = done.out.splitlines()
    assert head.split() == ["KIND", "NAME", "STATE", "ENDED", "(UTC)", "DISK"]
    assert row.split()[:5] == ["run", "job-aaaaaa", "succeeded", "2026-01-31", "12:00"]
    assert dry.err.startswith("would be removed: 1 run, ")
    assert done.err.startswith("removed: 1 run, ")
    assert runs_of_store() == folders() == ["job-bbbbbb"]
    os.close(lock)


def test_an_interrupted_prune_says_what_it_has_removed(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rsctl.api.prune import prune

    for second, name in enumerate(("job-aaaaaa", "job-bbbbbb", "job-cccccc")):
        make_run(name, second=second).succeed(3)
    real, calls = prune.remove, iter([None, None])

    def remove(*args: object) -> object:
        if next(calls, "end") == "end":
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(prune, "remove", remove)
    done = rsctl("prune", "--older-than", "30d")
    assert done.code == 130
    assert done.err.startswith("interrupted; removed: 2 runs. The next prune removes the rest\n")
    assert len(runs_of_store()) == 1


def test_wrong_usage(rsctl: Cli) -> None:
    done = rsctl("prune", "--older-than", "soon")
    assert done.code == 2
    assert "'soon' is not a duration such as 90s, 1h30m or 0.5ms" in done.err
    assert rsctl("prune", "--keep", "-1").code == 2


def test_nothing_to_remove(rsctl: Cli) -> None:
    done = rsctl("prune", "--keep", "0")
    assert (done.code, done.out, done.err) == (0, "", "nothing to remove\n")
    assert rsctl("prune", "-o", "json").json == {
        "dry_run": False,
        "bytes": 0,
        "database_bytes": Store().disk_use(),
        "removed": [],
        "kept": [],
    }


def test_outputs_stay_until_they_are_named(rsctl: Cli, make_run: Make) -> None:
    made = make_run().succeed(3)
    outputs = made.folder.path / "outputs"
    outputs.mkdir()
    (outputs / "model.pt").write_bytes(bytes(100_000))
    shown = rsctl("prune", "--keep", "0", "-o", "json").json
    assert shown["bytes"] < 100_000
    assert [path.name for path in made.folder.path.iterdir()] == ["outputs"]
    assert rsctl("prune", "--keep", "0").err == "nothing to remove\n"
    assert rsctl("prune", "--older-than", "1d", "--outputs").err == "nothing to remove\n"
    [removed] = rsctl("prune", "--keep", "0", "--outputs", "-o", "json").json["removed"]
    assert (removed["kind"], removed["name"]) == ("folder", "job-aaaaaa")
    assert removed["size"] >= 100_000
    assert folders() == []


def test_a_run_that_somebody_reads_stays(rsctl: Cli, make_run: Make) -> None:
    made = make_run().succeed(3)
    lock = made.folder.lock()
    done = rsctl("prune", "--keep", "0")
    assert done.err == (
        "job-aaaaaa stays: it is in use: a process reads its log, or its emulator is running\n"
        "nothing to remove\n"
    )
    os.close(lock)
    assert rsctl("prune", "--older-than", "0").err.startswith("removed: 1 run, ")


def test_a_damaged_run_is_told_of_and_stays(rsctl: Cli, make_run: Make) -> None:
    make_run("job-aaaaaa").succeed(3)
    make_run("job-bbbbbb", second=1).succeed(3)
    with Store().transaction() as database:
        database.execute("UPDATE runs SET plan='{' WHERE id='job-aaaaaa'")
    done = rsctl("prune", "--keep", "0")
    assert done.code == 0
    assert "cannot read job-aaaaaa" in done.err
    assert Store().ids() == {"job-aaaaaa"}


def test_buckets_go_only_when_asked(rsctl: Cli, make_run: Make) -> None:
    bucket = home() / "rehearsal" / "gs" / "data"
    (bucket / "train").mkdir(parents=True)
    (bucket / "train" / "a.csv").write_text("1,2\n")
    made = make_run(target="vertex").succeed(3)
    (made.folder.path / "emulator").mkdir()
    (made.folder.path / "emulator" / "gs").symlink_to(bucket.parent)
    assert rsctl("prune", "--keep", "0").code == 0
    assert not made.folder.path.exists()
    assert (bucket / "train" / "a.csv").exists()
    assert rsctl("prune", "--buckets", "--older-than", "1h").err == "nothing to remove\n"
    done = rsctl("prune", "--buckets", "--keep", "0")
    assert done.out.splitlines()[1].split()[:2] == ["bucket", "gs://data"]
    assert not bucket.exists()


@pytest.mark.parametrize(
    "when", ["after the bench", "after the mark", "after the record", "among the files"]
)
def test_a_prune_that_was_killed_is_finished_by_the_next(
    rsctl: Cli, make_run: Make, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second, letter in enumerate("ab"):
        make_run(f"job-{letter * 6}", second=second).succeed(5 + second)
    make_bench("old-bench-x", ["job-aaaaaa", "job-bbbbbb"])

    def die(*_: object, **__: object) -> None:
        raise SystemExit(99)

    with monkeypatch.context() as killed:
        if when == "after the bench":
            killed.setattr("rsctl.api.prune.removal.remove_tree", die)
        elif when == "after the mark":
            killed.setattr(Store, "forget", die)
        elif when == "after the record":
            killed.setattr("rsctl.runs.forget.remove_folder", die)
        else:
            killed.setattr(shutil, "rmtree", die)
        assert rsctl("prune", "--keep", "0").code == 99
    assert folders() == ["job-aaaaaa", "job-bbbbbb"]
    rsctl("list")
    assert rsctl("prune", "--keep", "0").code == 0
    assert folders() == runs_of_store() == Benches(Store()).benches() == []
    assert list((home() / "benches").iterdir()) == []


def test_a_folder_without_a_run_goes_unless_it_is_new(rsctl: Cli, make_run: Make) -> None:
    """As a submission leaves it that was killed before its record; its outputs stay."""
    make_run("job-kkkkkk").succeed(5)
    for name in ("job-aaaaaa", "job-bbbbbb", "job-cccccc"):
        (home() / "runs" / name / "outputs").mkdir(parents=True)
        (home() / "runs" / name / "job.yaml").touch()
    (home() / "runs" / "job-cccccc" / "outputs" / "model").touch()
    for name in ("job-aaaaaa", "job-cccccc"):
        os.utime(home() / "runs" / name, (1e9, 1e9))
    done = rsctl("prune", "--keep", "9")
    assert (done.code, folders()) == (0, ["job-bbbbbb", "job-cccccc", "job-kkkkkk"]), done.err
    assert os.listdir(home() / "runs" / "job-cccccc") == ["outputs"]


def test_two_at_once_remove_each_run_once(rsctl: Cli, make_run: Make) -> None:
    names = [f"job-{chr(97 + n) * 6}" for n in range(12)]
    for second, name in enumerate(names):
        make_run(name, second=second).succeed(second + 20)
    argv = rsctl.argv("prune", "--keep", "2", "-o", "json")
    both = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    outs = [process.communicate(timeout=DEADLINE_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    removed = [item["name"] for out, _ in outs for item in json.loads(out)["removed"]]
    assert sorted(removed) == names[:-2]
    assert folders() == sorted(runs_of_store()) == names[-2:]


def test_what_cannot_be_removed_is_an_error_and_the_rest_goes(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second, letter in enumerate("ab"):
        make_run(f"job-{letter * 6}", second=second).succeed(5 + second)
    real = shutil.rmtree

    def refuse(path: Path) -> None:
        if "job-aaaaaa" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        real(path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    done = rsctl("prune", "--keep", "0", "-o", "json")
    assert done.code == 3
    assert [item["name"] for item in done.json["removed"]] == ["job-bbbbbb"]
    assert "error: removed the records of job-aaaaaa, but " in done.err


def test_a_link_in_place_of_a_runs_folder_leads_nowhere(
    rsctl: Cli, make_run: Make, tmp_path: Path
) -> None:
    made = make_run().succeed(3)
    away = tmp_path / "away"
    made.folder.path.rename(away)
    made.folder.path.symlink_to(away)
    assert rsctl("prune", "--keep", "0").code == 0
    assert not made.folder.path.is_symlink()
    assert (away / "submission.json").exists()


def test_the_disk_use_of_runs(rsctl: Cli, make_run: Make) -> None:
    made = make_run().succeed(3)
    (made.folder.path / "big").write_bytes(bytes(2_000_000))
    assert "disk" not in rsctl("list", "-o", "json").json["runs"][0]
    [run] = rsctl("list", "-v", "-o", "json").json["runs"]
    assert run["disk"] >= 2_000_000
    head, row = rsctl("list", "-v").out.splitlines()
    assert head.index("DISK") + 4 == row.index("MB") + 2
    assert "DISK" not in rsctl("list").out


def _with_metrics(made: MadeRun, count: int) -> MadeRun:
    made.metrics((3.0, "loss", 1.0, {"step": step}) for step in range(count))
    return made.succeed(5)


def test_the_database_shrinks_and_row_numbers_stay(rsctl: Cli, make_run: Make) -> None:
    """The cursors of trackers are row numbers."""
    for number in range(3):
        _with_metrics(make_run(f"job-{number:06}", second=number / 10), 20_000)
    kept = make_run("job-zzzzzz", second=1)
    _with_metrics(kept, 50)
    before = Store().disk_use()
    rows = list(Store().metrics(kept.run))
    listed = {run["run"]: run["disk"] for run in rsctl("list", "-v", "-o", "json").json["runs"]}
    assert listed["job-000000"] > 20_000 * 50
    done = rsctl("prune", "--keep", "1", "-o", "json")
    assert (done.code, done.json["kept"]) == (0, [])
    assert runs_of_store() == [kept.run]
    after = Store().disk_use()
    assert done.json["database_bytes"] == after < 300_000 < before
    assert done.json["bytes"] > 60_000 * 50
    assert list(Store().metrics(kept.run)) == rows


def test_space_that_an_older_version_has_left_is_given_back(rsctl: Cli, make_run: Make) -> None:
    made = _with_metrics(make_run("job-aaaaaa"), 30_000)
    with made.store.transaction() as db:
        db.execute("DELETE FROM metrics")
    done = rsctl("prune", "--keep", "1")
    assert re.fullmatch(
        r"the database shrank by [0-9.]+ MB to [0-9.]+ kB\nnothing to remove\n", done.err
    )
