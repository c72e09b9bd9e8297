"""`rsctl gate JOB --against REF`: whole runs on this machine's processes, in a git repository."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from rsctl import api
from rsctl.bench.records import Against, Benches, BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.runs.home import home
from rsctl.runs.store import Store
from rsctl.runs.versions import keep_versions
from tests.cli.conftest import Cli
from tests.cli.test_gate import record_run
from tests.kit.commands import Done
from tests.kit.polling import wait_until

JOB = """
name: steps
run: {script: train.py, launcher: once}
metrics:
  throughput: {goal: max, unit: x/s}
gate:
  max_regression: {throughput: 5%}
  repeat: 3
"""
SCRIPT = """
import json, pathlib, sys
SPEED = 1000
runs = pathlib.Path({runs!r})
number = len(list(runs.iterdir()))
(runs / f"{{number:02}}-{{SPEED}}").touch()
for step in range(3):
    print(json.dumps({{"rsctl": "metrics", "step": step, "throughput": SPEED + number % 3}}))
"""


class Repository:
    """A clone whose main has the job; `runs` names the runs in their order, with their speed."""

    def __init__(self, rsctl: Cli) -> None:
        self.rsctl, self.path = rsctl, rsctl.folder
        self.job, self.script = self.path / "bench" / "job.yaml", self.path / "bench" / "train.py"
        self._runs = self.path.parent / "runs"
        self._runs.mkdir()
        self.job.parent.mkdir()
        self.job.write_text(JOB)
        self.script.write_text(SCRIPT.format(runs=str(self._runs)))
        self.git("init", "-q", "-b", "main")
        self.commit("one")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        done = subprocess.run(
            ["git", "-C", str(self.path), *identity, *arguments], check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def commit(self, subject: str) -> str:
        self.git("add", ".")
        self.git("commit", "-qm", subject)
        return self.git("rev-parse", "HEAD")

    def change(self, before: str, after: str, path: Path | None = None) -> None:
        file = path or self.script
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def slower(self) -> None:
        self.change("SPEED = 1000", "SPEED = 900")

    def one_pair(self) -> None:
        """For a test that needs no decision: one run of each side, which is never significant."""
        self.change("repeat: 3", "repeat: 1", self.job)
        self.commit("one pair")

    @property
    def runs(self) -> list[str]:
        return [path.name[3:] for path in sorted(self._runs.iterdir())]

    def gate(self, *options: str) -> tuple[Done, dict[str, Any]]:
        done = self.rsctl("gate", "bench/job.yaml", *options, "-o", "json")
        return done, json.loads(done.out) if done.out.startswith("{") else {}


@pytest.fixture
def repository(rsctl: Cli, runs_end_with_the_test: None) -> Repository:
    return Repository(rsctl)


def test_a_slower_working_tree_is_found_and_the_runs_are_in_turn(repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    repository.slower()  # and does not commit it: the working tree is the candidate
    done, gate = repository.gate("--against", "main")
    assert (done.code, gate["verdict"], gate["exit_code"]) == (7, "regressed", 7)
    [check] = gate["checks"]
    assert check["effect"] == pytest.approx(-0.1, abs=0.005)
    assert (check["pairs"], check["runs"], check["p"]) == (3, [3, 3], pytest.approx(0.05))
    assert gate["baseline"] == f"main ({commit[:12]})"
    assert gate["against"]["commit"] == commit
    assert repository.runs == ["1000", "900", "900", "1000", "900", "1000"]
    assert "6 runs, 3 of each side in turn, the time is unknown before the first run" in done.err
    assert repository.git("status", "--porcelain") == "M bench/train.py"

    again = repository.rsctl("gate", "bench/job.yaml", "--against", "main")
    assert (again.code, len(repository.runs)) == (7, 6)
    assert "noise 0.091 %: they detect a regression of 5.1 % in 80 % of cases" in again.err
    assert repository.rsctl("gate", "@last").code == 7


def test_an_unchanged_program_passes(repository: Repository) -> None:
    report = ("--report", "junit=j.xml")
    done = repository.rsctl("gate", "bench/job.yaml", "--against", "HEAD", *report)
    _, row, last = done.out.splitlines()
    assert done.code == 0
    assert re.match(r"pass +throughput +100[01] x/s +1001 x/s ", row)
    assert last.endswith("): no regression beyond the allowed limits")
    assert 'tests="2" failures="0" errors="0"' in Path("j.xml").read_text()


def test_a_confirmation_runs_fresh_pairs(repository: Repository) -> None:
    repository.slower()
    done, gate = repository.gate("--against", "main", "--confirm", "3")
    assert (done.code, gate["checks"][0]["confirmed"], gate["checks"][0]["pairs"]) == (7, True, 6)
    assert gate["checks"][0]["p"] == pytest.approx(1 / 400)
    assert Counter(repository.runs) == {"1000": 6, "900": 6}
    assert "suspected regression: throughput; running 3 times again" in done.err
    page = repository.rsctl("report", "@last", "-o", "-").out
    assert re.findall("<h2>([^<]*)", page)[0] == "Gate: regressed"
    assert ("main (" in page, "Effect on throughput, by pairs" in page) == (True, True)
    assert page.count("<h2>Bench ") == 2
    _, again = repository.gate("--against", "main", "--confirm", "3")
    assert again["checks"] == gate["checks"]
    assert len(repository.runs) == 12


def test_a_recorded_bench_is_confirmed_unless_its_files_have_changed(
    repository: Repository,
) -> None:
    repository.slower()
    assert repository.gate("--against", "main")[0].code == 7
    repository.commit("slower")
    done = repository.rsctl("gate", "@last", "--confirm", "3", "-o", "json")
    assert (done.code, done.json["checks"][0]["pairs"]) == (7, 6)
    bench = done.json["candidate"]
    add = ("history", "add", "../h.jsonl", bench)
    assert repository.rsctl(*add).err.endswith(f", 1 cell, from {bench}\n")
    repository.change("SPEED = 900", "SPEED = 800")
    for command in (("gate", bench, "--confirm", "4"), add):
        changed = repository.rsctl(*command)
        assert changed.code == 2
    assert "has changed since it started" in changed.err


@pytest.mark.timeout(180)
def test_killed_and_continued_nothing_is_run_twice(repository: Repository) -> None:
    repository.slower()
    command = repository.rsctl.argv("gate", "bench/job.yaml", "--against", "main", "-o", "json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gate:
        wait_until(lambda: len(repository.runs) >= 3)
        os.kill(gate.pid, signal.SIGKILL)
    done, found = repository.gate("--against", "main")
    assert (done.code, found["checks"][0]["pairs"]) == (7, 3)
    assert Counter(repository.runs) == {"1000": 3, "900": 3}


def test_another_job_file_as_the_baseline(repository: Repository) -> None:
    repository.one_pair()
    other = repository.path / "other"
    other.mkdir()
    for path in (repository.job, repository.script):
        (other / path.name).write_text(path.read_text())
    repository.change("SPEED = 1000", "SPEED = 1200", other / "train.py")
    done, gate = repository.gate("--against", "other/job.yaml")
    assert (done.code, gate["baseline"], gate["against"]["commit"]) == (8, "other/job.yaml", None)
    assert gate["checks"][0]["effect"] == pytest.approx(-1 / 6, abs=0.005)
    assert repository.runs == ["1200", "1000"]


def test_a_job_file_that_measures_something_else_is_not_run(repository: Repository) -> None:
    repository.change("launcher: once", "launcher: once, args: {width: 64}", repository.job)
    why = f"the conditions of main ({repository.git('rev-parse', 'main')[:12]}) differ, so nothing"
    why += " is run: run.args.width: not set -> 64"
    for option in ((), ("--allow-inconclusive",)):
        gate = ("gate", "bench/job.yaml", "--against", "main", "--report", "junit=j.xml", *option)
        done = repository.rsctl(*gate)
        assert (done.code, repository.runs) == (2, [])
        assert f"error: {why}\n" in done.err
    assert escape(why) in Path("j.xml").read_text()
    assert repository.rsctl(*gate, "--set", "run.args.width=64").code in (0, 8)
    assert len(repository.runs) > 0


def test_a_ref_without_the_job_file_runs_by_that_of_the_working_tree(
    repository: Repository,
) -> None:
    repository.one_pair()
    repository.git("rm", "-q", "--cached", "bench/job.yaml")
    repository.git("commit", "-qm", "without")
    repository.slower()
    done, gate = repository.gate("--against", "HEAD")
    assert (done.code, gate["verdict"], repository.runs) == (8, "inconclusive", ["1000", "900"])
    assert "does not have bench/job.yaml: the baseline runs its files by the job file" in done.err


def test_a_baseline_that_always_fails_is_no_data(repository: Repository) -> None:
    repository.one_pair()
    repository.change("SPEED = 1000", "SPEED = 1000\nimport none_of_this")
    repository.commit("broken")
    repository.change("\nimport none_of_this", "")
    done, gate = repository.gate("--against", "HEAD", "--allow-inconclusive")
    assert (done.code, gate["verdict"], gate["baseline_failures"]) == (8, "no-data", [1])
    reason = gate["checks"][0]["reason"]
    assert reason.startswith("all runs of the baseline, HEAD (")
    assert "git does not track" in reason


def test_a_candidate_that_always_fails_is_the_failure_of_the_bench(repository: Repository) -> None:
    repository.one_pair()
    repository.change("SPEED = 1000", "SPEED = 1000\nimport none_of_this")
    done, gate = repository.gate("--against", "HEAD", "--allow-inconclusive")
    assert (done.code, gate["verdict"], gate["failures"]) == (1, "no-data", [1])
    assert "all runs of the candidate failed: " in gate["checks"][0]["reason"]


def test_each_cell_has_pairs_and_a_cell_without_a_partner_is_not_run(
    repository: Repository,
) -> None:
    repository.job.write_text(JOB + "matrix: {run.args.width: [1, 2]}\n")
    repository.commit("matrix")
    repository.job.write_text(JOB + "matrix: {run.args.width: [2, 3]}\n")
    done, gate = repository.gate("--against", "HEAD", "--report", "junit=j.xml")
    assert (done.code, gate["verdict"], len(repository.runs)) == (8, "no-data", 6)
    found = {check["cell"]["run.args.width"]: check["verdict"] for check in gate["checks"]}
    assert found == {2: "pass", 3: "no-data", 1: "no-data"}
    assert "2 cells of the matrix are in one of the two job files only" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "nope"], "has no such branch, tag or commit"),
        (["--against", ""], "--against is empty"),
        (["--against", "--upload-pack=x"], "it is neither a git ref nor a job file"),
        (["--against", "none.yaml"], "none.yaml"),
        (["--against", "main", "--baseline", "b.json"], "--against and --baseline exclude each"),
        (["--against", "main", "--update-baseline"], "--update-baseline writes a file"),
        (["--against", "main", "--max-regression", "thruput=5%"], "has a metric 'thruput'"),
    ],
)
def test_wrong_usage(repository: Repository, arguments: list[str], message: str) -> None:
    done, _ = repository.gate(*arguments)
    assert (done.code, repository.runs) == (2, [])
    assert message in done.err


def test_outside_of_a_repository(rsctl: Cli) -> None:
    rsctl.write(JOB.replace("train.py", "src/train.py"))
    done = rsctl("gate", "job.yaml", "--against", "main")
    assert done.code == 2
    assert "is not in a git working tree" in done.err


def test_from_python(repository: Repository) -> None:
    repository.one_pair()
    repository.slower()
    found = api.gate(
        "bench/job.yaml", against="main", confirm=0, max_regression={"throughput": "20%"}
    )
    assert found.against is not None
    assert (found.verdict.value, found.exit_code, found.against.given) == (
        "inconclusive",
        8,
        "main",
    )
    assert found.checks[0].effect == pytest.approx(-0.1, abs=0.005)


def test_the_python_of_the_working_tree(repository: Repository) -> None:
    """A virtual environment is in no commit."""
    python = repository.path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (repository.path / ".gitignore").write_text(".venv\nsrc\n")
    repository.one_pair()
    repository.change(
        "name: steps",
        "name: steps\ntargets: {process: {python: ../.venv/bin/python}}",
        repository.job,
    )
    repository.commit("python")
    _, gate = repository.gate("--against", "HEAD")
    assert (gate["checks"][0]["pairs"], repository.runs) == (1, ["1000", "1000"])


def test_source_outside_of_the_repository_would_be_the_same(repository: Repository) -> None:
    outside = repository.path.parent / "outside"
    outside.mkdir()
    (outside / "train.py").write_text(repository.script.read_text())
    repository.job.write_text(JOB + f"image: {{source: {outside}}}\n")
    repository.commit("outside")
    done, _ = repository.gate("--against", "HEAD")
    assert done.code == 2
    assert "image.source: it is not in the repository: all commits would run" in done.err


def test_a_job_file_that_links_out_of_its_commit_is_not_read(repository: Repository) -> None:
    outside = repository.path.parent / "outside.yaml"
    outside.write_text("password: secret\n")
    repository.job.unlink()
    repository.job.symlink_to(outside)
    repository.commit("link")
    repository.job.unlink()
    repository.job.write_text(JOB)
    done, _ = repository.gate("--against", "HEAD")
    assert (done.code, repository.runs) == (2, [])
    assert "bench/job.yaml of the commit links to a file outside of it" in done.err


def test_a_mistake_in_the_baselines_job_file_says_whose_it_is(repository: Repository) -> None:
    repository.change("script: train.py", "script: none.py", repository.job)
    repository.commit("mistake")
    repository.change("script: none.py", "script: train.py", repository.job)
    done, _ = repository.gate("--against", "HEAD")
    assert (done.code, repository.runs) == (2, [])
    assert "none.py" in done.err
    assert "this is about the baseline, HEAD (" in done.err


def test_prune_removes_the_files_of_a_commit_with_its_last_bench(repository: Repository) -> None:
    repository.one_pair()
    assert repository.gate("--against", "HEAD")[0].code == 8
    [checkout] = [path for path in (home() / "checkouts").iterdir() if path.is_dir()]
    recently = repository.rsctl("prune", "--keep", "0", "-o", "json").json["removed"]
    assert [item["kind"] for item in recently] == ["bench"]
    os.utime(checkout, (1e9, 1e9))
    gone = repository.rsctl("prune", "--keep", "0", "-o", "json").json["removed"]
    assert [(item["kind"], item["name"]) for item in gone] == [("checkout", checkout.name)]
    assert not checkout.exists()
    assert repository.gate("--against", "HEAD")[0].code == 8
    assert len(repository.runs) == 4


def test_prune_keeps_the_files_of_a_bench_that_stays(repository: Repository) -> None:
    repository.one_pair()
    assert repository.gate("--against", "HEAD")[0].code == 8
    [checkout] = [path for path in (home() / "checkouts").iterdir() if path.is_dir()]
    os.utime(checkout, (1e9, 1e9))
    assert repository.rsctl("prune", "-o", "json").json["removed"] == []
    assert checkout.exists()


def record_pairs(
    before: list[float | None],
    after: list[float | None],
    cpus: list[str],
    values: dict[str, Any] | None = None,
) -> None:
    """A paired bench of recorded runs, of one cell with these values; `cpus` are those of the
    candidate's runs.
    """
    store = Store()
    benches = Benches(store)
    bench = BenchRecord(
        bench="pairs",
        name="job",
        target="process",
        definition="pairs",
        created="2026-01-01T00:00:00.000000Z",
        repeat=len(before),
        cells=[{"side": side, **(values or {})} for side in ("baseline", "candidate")],
        spec={"gate": {"max_regression": {"throughput": "5%"}, "baseline": "none.json"}},
        against=Against(given="main", commit="c" * 40, file="job.yaml"),
    )
    benches.claim(bench)
    for cell, values in enumerate((before, after)):
        for number, value in enumerate(values):
            state = JobState.FAILED if value is None else JobState.SUCCEEDED
            run = f"pairs-{cell}-{number}"
            record_run(store, run, state, value)
            cpu = cpus[number] if cell else "EPYC"
            keep_versions(store, run, "worker-0", {"cpu": cpu, "cores": "2", "torch": "2.8.0"})
            trial = Trial(cell=cell, repetition=number, run=run, state=state)
            trial.exit_code = int(state.exit_code)
            benches.begin("pairs", trial)
    store.close()


STEADY: list[float | None] = [100.0, 101.0, 99.0, 100.5, 99.5]


@pytest.mark.parametrize(
    ("before", "after", "cpus", "verdict", "code", "pairs"),
    [
        (STEADY, STEADY, ["EPYC"] * 5, "pass", 0, 5),
        ([None, *STEADY[1:]], STEADY, ["EPYC"] * 5, "no-data", 8, 4),
        (STEADY, [*STEADY[:4], None], ["EPYC"] * 5, "no-data", 8, 4),
        (STEADY, STEADY, ["EPYC"] * 4 + ["Xeon"], "no-data", 8, 4),
        (STEADY, STEADY, ["Xeon"] * 5, "no-data", 8, 0),
        ([None] * 5, STEADY, ["EPYC"] * 5, "no-data", 8, 0),
        (STEADY, [None] * 5, ["EPYC"] * 5, "no-data", 1, 0),
        ([None] * 5, [None] * 5, ["EPYC"] * 5, "no-data", 1, 0),
        (STEADY, [90, None, 90, 90, 90], ["EPYC"] * 5, "regressed", 7, 4),
    ],
)
def test_what_does_not_count(
    rsctl: Cli,
    before: list[float | None],
    after: list[float | None],
    cpus: list[str],
    verdict: str,
    code: int,
    pairs: int,
) -> None:
    record_pairs(before, after, cpus)
    done = rsctl("gate", "pairs", "-o", "json")
    gate = json.loads(done.out)
    assert (done.code, gate["verdict"]) == (code, verdict)
    assert gate["checks"][0]["pairs"] == pairs
    if cpus[-1] == "Xeon":
        reason = "ran on different machines: EPYC, 2 cores -> Xeon, 2 cores"
        assert reason in gate["checks"][0]["reason"]
    failed = None in before or None in after
    if failed and code == 8:
        assert rsctl("gate", "pairs", "--allow-inconclusive").code == 8
