"""`rsctl bench run|list|status|cancel`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from junitparser import JUnitXml

from rsctl.api import Bench
from rsctl.api import bench_run as api_bench_run
from rsctl.bench.records import Benches, BenchRecord
from rsctl.findings import JobState
from rsctl.images.git_commit import Commit
from rsctl.runs.store import Store
from tests.api.recorded import add
from tests.cli.conftest import Cli
from tests.kit.polling import DEADLINE_SECONDS, wait_until

JOB = """
name: sweep
run:
  command: [python3, work.py]
  launcher: none
  args: {cell: x}
image: {source: src}
metrics: {speed: {regex: 'speed=(\\d+)', goal: max, unit: items/s}}
matrix: {run.args.cell: [1, 2]}
"""
WORK = """
import sys, time
cell = int(sys.argv[2])
print(f"speed={cell * 100}", flush=True)
if cell == 3:
    sys.exit("no such cell")
if cell == 9:
    time.sleep(60)
"""


@pytest.fixture
def job(rsctl: Cli) -> str:
    """A job file with a matrix of two cells."""
    (rsctl.folder / "src" / "work.py").write_text(WORK)
    return rsctl.write(JOB)


def the_bench() -> BenchRecord:
    """The only bench of the store."""
    [bench] = Benches(Store()).benches()
    return bench


def test_files_that_rsctl_writes_continue_a_bench(rsctl: Cli) -> None:
    """In the source folder, without git, and whichever command wrote them."""
    (rsctl.folder / "work.py").write_text(WORK)
    job = rsctl.write(JOB.replace("source: src", "source: ."))
    kinds = ("bencher=bmf.json", "github-benchmark=gh", "metrics=m.txt", "junit=j.xml")
    reports = [word for kind in kinds for word in ("--report", kind)]
    assert rsctl("bench", "run", job, *reports).code == 0
    assert rsctl("bench", "run", job, "-r", "2").code == 0
    assert rsctl("bench", "run", job, *reports).code == 0
    update = ["--baseline", "b.json", "--update-baseline", "--repeat", "2"]
    assert rsctl("gate", job, *update).code == 0
    limits = ["--max-regression", "speed=50%", "--allow-inconclusive", "--repeat", "2"]
    judged = rsctl("gate", job, "--baseline", "b.json", *limits, *reports)
    assert judged.code == 0, judged.err
    assert rsctl("bench", "run", job).code == 0
    second, first = Benches(Store()).benches()  # a baseline is not compared with itself
    assert (second.definition, second.is_complete) == (first.definition, True)
    wrong = rsctl.folder / "bmf.json"
    wrong.write_text(wrong.read_text() + " ")
    assert rsctl("bench", "run", job).code == 0
    assert len(Benches(Store()).benches()) == 3


def test_a_bench_is_run_told_and_shown(rsctl: Cli, job: str) -> None:
    """Progress on stderr, the table on stdout."""
    done = rsctl("bench", "run", job, "--repeat", "2", "--parallel", "2")
    bench = the_bench()
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["CELL", "RUNS", "SPEED", "RUN.TIME"]
    assert [line.split()[:4] for line in done.out.splitlines()[1:]] == [
        ["run.args.cell=1", "2/2", "100", "items/s"],
        ["run.args.cell=2", "2/2", "200", "items/s"],
    ]
    lines = done.err.splitlines()
    assert lines[0] == f"{bench.bench}: 2 cells x 2 = 4 runs on process"
    assert lines[-1] == f"show it again: rsctl bench status {bench.bench}"
    assert sum("  started  " in line for line in lines) == 4
    assert sum("  succeeded after " in line for line in lines) == 4
    shown = rsctl("bench", "status", "@last")
    head, *table = shown.out.splitlines()
    assert head == f"{bench.bench} on process  succeeded  4 of 4 runs"
    assert table == done.out.splitlines()
    listed = rsctl("bench", "list")
    when = bench.created[:19].split("T")
    row = [bench.bench, "process", "succeeded", "4/4", *when]
    assert [line.split() for line in listed.out.splitlines()] == [
        ["BENCH", "TARGET", "STATE", "RUNS", "CREATED", "(UTC)"],
        row,
    ]
    [row] = rsctl("list").out.splitlines()[1:]
    assert row.split()[:3] == [bench.bench, "process", "succeeded"]
    assert row.endswith("  bench, 4 runs: 4 succeeded")
    assert len(rsctl("list", "--cells").out.splitlines()) == 5
    for command in ("status", "logs", "cancel", "forget", "get"):  # which take a run
        refused = rsctl(command, bench.bench)
        assert (refused.code, refused.err) == (
            2,
            f"error: {bench.bench} is a bench, and not a run\n"
            f"    -> show it: rsctl bench status {bench.bench}   its runs: rsctl list --cells\n",
        )
    add("other-1", "succeeded", created="2026-01-01T00:00:00.000000Z")
    newest = rsctl("list", "-n", "1")
    assert [line.split()[0] for line in newest.out.splitlines()[1:]] == ["other-1"]
    assert "there are older runs" in newest.err
    both = rsctl("list", "-n", "2")
    assert (len(both.out.splitlines()), both.err) == (3, "")
    assert both.out.splitlines()[2].endswith("  bench, 4 runs: 4 succeeded")
    chosen = rsctl("list", "-n", "2", "--state", "succeeded")
    assert chosen.out == both.out
    again = rsctl("bench", "run", job)
    assert again.code == 0
    assert "every run of this bench is complete" in again.err
    again = rsctl("bench", "run", job, "--new", "-q")
    assert again.code == 0
    assert again.err == ""
    assert len(Benches(Store()).benches()) == 2


def test_a_cell_says_how_many_of_its_runs_have_a_value(rsctl: Cli, job: str) -> None:
    """The median of the others must not pass for the one of all, wherever a bench is shown."""
    first = rsctl.folder / "first"
    (rsctl.folder / "src" / "work.py").write_text(f"""
from pathlib import Path
print("speed=nan" if Path({str(first)!r}).exists() else "speed=100")
Path({str(first)!r}).touch()
""")
    regex = r"metrics.speed.regex=speed=(\S+)"
    done = rsctl("bench", "run", job, "-r", "2", "--set", "run.args.cell=1", "--set", regex)
    assert "  2/2   100 items/s, 1 of 2 runs  " in done.out
    assert "<td>100, 1 of 2 runs</td>" in rsctl("report", "@last", "-o", "-").out
    assert "<td>100 items/s, 1 of 2 runs</td>" in Bench(the_bench())._repr_html_()


def test_the_file_says_how_often_if_nobody_else_does(rsctl: Cli, job: str) -> None:
    """By its gate."""
    rsctl.write(JOB + "gate: {repeat: 2}\n")
    assert "2 cells x 2 = 4 runs" in rsctl("bench", "run", job, "-p", "2").err
    assert "2 cells x 1 = 2 runs" in rsctl("bench", "run", job, "--repeat", "1", "--new").err


def test_a_terminal_has_one_live_table_that_goes_away(rsctl: Cli, job: str) -> None:
    """Failures scroll above it, and the last table stays."""
    done = rsctl.terminal("bench", "run", job, "--set", "run.args.cell=[2, 3]")
    text = done.out
    assert done.code == 1
    assert text.count("CELL") > 1
    assert "1 in progress" in text
    assert "no such cell" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "run.args.cell=2  1/1            200 items/s" in text[text.rindex("CELL") :]


def test_events_name_their_cell_and_the_last_is_the_result(rsctl: Cli, job: str) -> None:
    """All of `submit -o json`, with more fields."""
    events = rsctl("bench", "run", job, "-o", "json").events
    bench = the_bench()
    runs = [trial.run for trial in bench.latest().values()]
    cells = [{"run.args.cell": 1}, {"run.args.cell": 2}]
    for run, cell in zip(runs, cells, strict=True):
        mine = [event for event in events if event.get("run") == run]
        assert {event["type"] for event in mine} == {"state", "log", "metric", "result"}
        assert all(event["cell"] == cell for event in mine)
        assert all(event["bench"] == bench.bench for event in mine)
        assert all(event["repetition"] == 0 for event in mine)
        assert mine[-1]["metrics"]["speed"]["last"] == cell["run.args.cell"] * 100
    result = events[-1]
    assert result.pop("time")
    statistics = [cell.pop("metrics") for cell in result["cells"]]
    assert result == {
        "type": "result",
        "bench": bench.bench,
        "state": "succeeded",
        "exit_code": 0,
        "cells": [{"values": c, "runs": [r]} for c, r in zip(cells, runs, strict=True)],
    }
    assert statistics[1]["speed"] == {
        "value": 200,
        "values": [200],
        "n": 1,
        "unit": "items/s",
        "goal": "max",
        "reason": None,
    }
    assert statistics[0]["run.cost"]["value"] is None
    assert statistics[0]["run.time"]["unit"] == "s"


def test_lists_by_set_make_a_matrix_and_a_failure_is_told_at_once(rsctl: Cli, job: str) -> None:
    """With the exit code of the worst, and what to do."""
    done = rsctl("bench", "run", job, "--set", "run.args.cell=[1, 3]", "--set", "workers.count=[1]")
    assert done.code == 1
    assert "run.args.cell=3 workers.count=1 #1  failed after" in done.err
    assert "worker-0 failed first" in done.err
    assert "no such cell" in done.err
    assert done.err.splitlines()[-1] == (
        f"run the missing and failed runs again: rsctl bench run {the_bench().file} --set "
        "'run.args.cell=[1, 3]' --set 'workers.count=[1]'"
    )
    assert "run.args.cell=3 workers.count=1  0/1, 1 failed  no data" in done.out
    status = rsctl("bench", "status", "@last", "-o", "json")
    assert status.code == 0
    assert status.json["exit_code"] == 1
    assert [trial["state"] for trial in status.json["trials"]] == ["succeeded", "failed"]


def test_where_the_checkpoints_of_runs_are_is_told(rsctl: Cli, job: str) -> None:
    done = rsctl("bench", "run", job, "--set", "checkpoints=kept", "--set", "run.args.cell=[1]")
    kept = rsctl.folder / "kept"
    assert done.err.splitlines()[0] == (
        "note: checkpoints: a bench keeps the checkpoints of each run in the run's own folder, "
        f"not {kept}"
    )
    assert (done.code, kept.exists()) == (0, False)


def test_a_secret_in_a_cell_reaches_the_run_and_no_file(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch, rsctl_home: Path
) -> None:
    """The cell is named by the variable, not by what is in it."""
    monkeypatch.setenv("TOKEN_A", "s3cr3t-value-a")
    (rsctl.folder / "src" / "work.py").write_text(
        "import os, sys\nprint(f'speed={len(os.environ[\"TOKEN\"])}')\n"
    )
    cell = "matrix.run.env.TOKEN=['${TOKEN_A}']"
    done = rsctl("bench", "run", job, "--set", "run.args.cell=1", "--set", cell, "-o", "json")
    assert done.code == 0, done.err
    [summary] = done.events[-1]["cells"]
    assert summary["values"] == {"run.args.cell": 1, "run.env.TOKEN": "${TOKEN_A}"}
    assert summary["metrics"]["speed"]["value"] == 14
    said = (done.out + done.err).encode()
    files = [path.read_bytes() for path in rsctl_home.rglob("*") if path.is_file()]
    assert not [text for text in (said, *files) if b"s3cr3t-value-a" in text]


def test_another_value_of_a_variable_is_another_bench_unless_it_is_a_secret(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate judged the runs of the value before."""
    (rsctl.folder / "src" / "work.py").write_text(
        "import os\nprint('speed=' + os.environ['SIZE'])\n"
    )
    settings = ["--set", "run.args.cell=1", "--set", "matrix.run.args.x=[1]", "-o", "json"]
    settings += ["--set", "run.env.SIZE=${SIZE}", "--set", "run.env.API_KEY=${API_KEY}"]
    speeds = []
    for size, key in (("10", "k1"), ("20", "k1"), ("20", "k2")):
        monkeypatch.setenv("SIZE", size)
        monkeypatch.setenv("API_KEY", key)
        done = rsctl("bench", "run", job, *settings)
        [summary] = done.events[-1]["cells"]
        speeds.append(summary["metrics"]["speed"]["value"])
    assert speeds == [10, 20, 20]
    assert len(Store().runs()) == 2


def test_a_literal_secret_of_a_bench_is_not_stored(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch, rsctl_home: Path
) -> None:
    """A command that rsctl prints names the variable; `***` in its place is refused."""
    (rsctl.folder / "src" / "work.py").write_text(
        'import os\nprint(f\'speed={len(os.environ["API_KEY"] + os.environ["MY_TOKEN"])}\')\n'
    )
    settings = ["--set", "run.args.cell=1", "--set", "run.env.API_KEY=s3cr3t-value-a"]
    more = ["--set", "run.env.MY_TOKEN=s3cr3t-value-b", "--set", "matrix.run.args.x=[1]"]
    done = rsctl("bench", "run", job, *settings, *more, "-o", "json")
    assert done.code == 0, done.err
    [summary] = done.events[-1]["cells"]
    assert summary["metrics"]["speed"]["value"] == 28
    files = [path.read_bytes() for path in rsctl_home.rglob("*") if path.is_file()]
    assert not [text for text in files if b"s3cr3t-value" in text]
    assert "is complete" in rsctl("bench", "run", job, *settings, *more).err
    typed = shlex.split(the_bench().command())
    assert "run.env.API_KEY=${API_KEY}" in typed
    monkeypatch.setenv("API_KEY", "s3cr3t-value-a")
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value-b")
    assert rsctl("validate", *typed[3:]).code == 0
    refused = rsctl("bench", "run", job, "--set", "run.env.API_KEY=***")
    assert refused.code == 2
    assert "*** in run.env.API_KEY=*** replaces a secret" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["status", "@last"], 2, "there are no benches yet"),
        (["status", "nobody"], 2, "no bench 'nobody'"),
        (["cancel", "nobody"], 2, "no bench 'nobody'"),
        (["run", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["run", "job.yaml", "--set", "matrix.exclude=[{run.args.cell: 1}]"], 0, "one job x 1"),
        (
            ["run", "job.yaml", "--set", "matrix.exclude=[{run.args.cell: 1}, {run.args.cell: 2}]"],
            2,
            "the matrix excludes all of its cells",
        ),
        (["run", "-", "--detach"], 2, "--detach needs a job file"),
        (["runn"], 2, "No such command 'runn'"),
    ],
)
def test_what_is_wrong_is_said(
    rsctl: Cli, job: str, arguments: list[str], code: int, said: str
) -> None:
    """With a remedy where there is one."""
    done = rsctl("bench", *arguments)
    assert (done.code, said in done.err) == (code, True), done.err


def test_mistakes_are_events_too(rsctl: Cli, job: str) -> None:
    """Those of every cell, once each, and a result without a bench."""
    done = rsctl("bench", "run", job, "--set", "workers.count=[0]", "-o", "json")
    *findings, result = done.events
    assert done.code == 2
    assert [finding["path"] for finding in findings] == ["matrix.workers.count[0]"]
    assert (result["type"], result["bench"], result["exit_code"]) == ("result", None, 2)


def test_an_interruption_before_a_bench_begins(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rsctl.cli.bench_run.prepare_bench", interrupt)
    done = rsctl("bench", "run", job, "-o", "json")
    assert (done.code, done.err) == (5, "note: interrupted: nothing was submitted\n")
    finding, result = done.events
    assert (finding["code"], result["bench"], result["exit_code"]) == ("interrupted", None, 5)


def running(rsctl: Cli, job: str, *more: str) -> tuple[subprocess.Popen[bytes], str]:
    """A bench in a process of its own whose run goes on, and that run."""
    words = rsctl.argv("bench", "run", job, "--set", "run.args.cell=9", *more)
    process = subprocess.Popen(words, stderr=subprocess.PIPE)

    def started() -> str | None:
        found = Benches(Store()).benches()
        trials = found[0].trials if found else []
        run = Store().get(trials[0].run) if trials else None
        return run.run if run and run.state is JobState.RUNNING else None

    return process, wait_until(started)


def test_other_runs_on_the_machine_are_named_before_and_after_a_bench(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def neighbours(_: Bench, since: str = "") -> list[str]:
        asked.append(since)
        return ["job-aaaaaa", "job-bbbbbb"]

    monkeypatch.setattr(Bench, "neighbours", neighbours)
    done = rsctl("bench", "run", job)
    bench = rsctl("bench", "list", "-o", "json").json["benches"][0]["bench"]
    assert (done.code, done.err.count("may have slowed")) == (0, 1)
    assert (
        f"warning: 2 other runs on this machine, such as job-aaaaaa, may have slowed the runs of "
        f"{bench}\n    -> measure again with --new when no other run is active\n"
    ) in done.err
    assert "2 other runs on this machine, such as job-aaaaaa, may slow the bench\n" in done.err
    [_, since], [run] = asked, rsctl("list", "--cells", "-n", "1", "-o", "json").json["runs"]
    assert "" < since < run["created"]


def test_a_bench_has_the_commit_that_it_was_last_started_at(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the list tells the pipelines of two branches apart."""
    for is_changed, label in ((False, ""), (True, "-dirty")):
        commit = Commit("12345abcde" * 4, 1, is_changed, "")
        monkeypatch.setattr(api_bench_run, "commit_of", lambda _, commit=commit: commit)
        assert rsctl("bench", "run", job).code == 0
        assert f"  bench of 12345abcde{label}, 2 runs: 2 succeeded\n" in rsctl("list").out
    monkeypatch.setattr(api_bench_run, "commit_of", lambda _: None)
    assert rsctl("bench", "run", job).code == 0
    assert "  bench, 2 runs: 2 succeeded\n" in rsctl("list").out


def test_ctrl_c_leaves_runs_and_a_second_call_watches_on(rsctl: Cli, job: str) -> None:
    """And `bench cancel` ends what nobody drives."""
    process, run = running(rsctl, job)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130
    assert f"rsctl bench cancel {the_bench().bench}" in said.decode()
    assert Store().find(run).state is JobState.RUNNING
    assert "incomplete  0 of 1 runs" in rsctl("bench", "status", "@last").out
    assert "TIME" not in rsctl("list").out  # of a bench that no process runs
    done = rsctl("bench", "cancel", "@last")
    assert (done.code, done.out) == (0, "")
    assert Store().find(run).state is JobState.CANCELLED
    assert the_bench().state is JobState.CANCELLED
    done = rsctl("bench", "cancel", "@last", "-o", "json")
    assert done.err.endswith("has already ended: cancelled\n")
    assert (done.json["bench"], done.json["state"]) == (the_bench().bench, "cancelled")


def test_an_ended_pipeline_cancels_its_runs(
    rsctl: Cli, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CI=true, and the exit code says so."""
    monkeypatch.setenv("CI", "true")
    process, run = running(rsctl, job)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 5
    assert Store().find(run).state is JobState.CANCELLED


def test_a_bench_that_is_driven_is_cancelled_by_its_driver(rsctl: Cli, job: str) -> None:
    """Its command ends with the code of a cancelled one."""
    process, run = running(rsctl, job, "--repeat", "3")
    assert rsctl("bench", "cancel", the_bench().bench).code == 0
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 5
    assert len(the_bench().trials) == 1
    assert Store().find(run).state is JobState.CANCELLED


def test_a_detached_bench_goes_on_by_itself(rsctl: Cli, job: str) -> None:
    """Its id is all that is printed."""
    done = rsctl("bench", "run", job, "--detach", "--repeat", "2", "-p", "2")
    bench = the_bench()
    assert (done.code, done.out) == (0, f"{bench.bench}\n")
    assert f"rsctl bench cancel {bench.bench}" in done.err
    watched = rsctl("bench", "status", "--watch", bench.bench, "-o", "json")
    last = json.loads(watched.out.splitlines()[-1])
    assert (watched.code, last["bench"], last["state"]) == (0, bench.bench, "succeeded")
    assert the_bench().is_complete
    assert Path(bench.file).name == "job.yaml"


def test_reports_of_a_bench(rsctl: Cli, job: str) -> None:
    """A cell that fails is a failure in the file, and the samples of the other cells are there."""
    names = ["junit=j.xml", "metrics=m.txt", "bencher=b.json"]
    words = [word for name in names for word in ("--report", name)]
    done = rsctl("bench", "run", job, *words, "--set", "matrix.run.args.cell=[1, 3]")
    assert done.code == 1
    suites = JUnitXml.fromfile("j.xml")
    assert [(case.name, len(case.result)) for suite in suites for case in suite] == [
        ("run.args.cell=1", 0),
        ("run.args.cell=3", 1),
    ]
    assert 'rsctl_speed{run_args_cell="1"} 100' in (rsctl.folder / "m.txt").read_text()
    assert '"value": 100.0' in (rsctl.folder / "b.json").read_text()


def test_a_report_on_a_full_disk_hides_no_failure(rsctl: Cli, job: str) -> None:
    reports = "--report metrics=/dev/full --report junit=j.xml"
    done = rsctl("bench", "run", job, *reports.split(), "--set", "run.args.cell=3")
    assert done.code == 1
    assert "error: cannot write /dev/full: No space left on device" in done.err
    assert "<failure" in Path("j.xml").read_text()


@pytest.mark.parametrize(("output", "code"), [("text", 1), ("json", 130)])
def test_a_reader_that_goes_away_hides_no_failure(
    rsctl: Cli, job: str, output: str, code: int
) -> None:
    """JSON is written as the bench runs, which ends there."""
    run = f"rsctl bench run {job} --set run.args.cell=3 --report junit=j.xml -o {output}"
    assert rsctl.shell(f"{run} | true").code == code
    assert "<error" in Path("j.xml").read_text() or "<failure" in Path("j.xml").read_text()


def test_every_cell_is_in_the_file_before_it_runs(rsctl: Cli, job: str) -> None:
    with subprocess.Popen(
        rsctl.argv("bench", "run", job, "--report", "junit=j.xml", "--set", "run.args.cell=9"),
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CI": "true"},
    ) as process:
        wait_until(lambda: Path("j.xml").exists() and "cell=9" in Path("j.xml").read_text())
        [suite] = JUnitXml.fromfile("j.xml")
        assert [(case.name, case.result[0].message) for case in suite] == [
            ("run.args.cell=9", "it has not run")
        ]
        wait_until(lambda: any(run.state is JobState.RUNNING for run in Store().runs()))
        process.terminate()
        assert process.wait() == 5
    [suite] = JUnitXml.fromfile("j.xml")
    assert "cancelled" in next(iter(suite)).result[0].message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--report", "junit=j.xml", "--detach"], "--detach does not wait for"),
        (["--report", "markdown=m.md"], "use rsctl gate"),
        (["--report", "x"], "'x' is not one of"),
    ],
)
def test_a_report_that_cannot_be_written(rsctl: Cli, job: str, words: list[str], why: str) -> None:
    done = rsctl("bench", "run", job, *words)
    assert done.code == 2
    assert why in done.err
