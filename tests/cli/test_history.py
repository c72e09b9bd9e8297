"""`rsctl history`, and `rsctl gate` with one, as pipelines use them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rsctl import api
from rsctl.bench.history_files import append_record, read_history
from tests.bench.test_git_files import git
from tests.bench.test_history import commit, record
from tests.cli.conftest import Cli
from tests.cli.test_gate import STEADY
from tests.cli.test_gate import record as record_bench

LIMIT = ("--max-regression", "throughput=5%")
JOB = """
name: digits
target: process
run: {script: train.py, launcher: once}
metrics: {throughput: {regex: 'speed=([0-9.]+)', goal: max, unit: x/s}}
gate: {max_regression: {throughput: 5%}, repeat: 3}
"""
WHERE = "../h.jsonl"


@pytest.fixture
def repository(rsctl: Cli) -> Path:
    """A job in a repository; `measure` of a commit is what its script prints."""
    folder = rsctl.folder
    git(folder, "init", "-q", "-b", "main")
    rsctl.write(JOB)
    change(folder, "print('speed=100')")
    return folder


def change(folder: Path, script: str) -> str:
    """Commit another script; the commit."""
    (folder / "train.py").write_text(script + "\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", script)
    return git(folder, "rev-parse", "HEAD")


def planted(folder: Path) -> str:
    """A history with a step at its ninth commit."""
    values = [100.0, 101, 99, 100, 101, 99, 100, 100, 90, 91, 89, 90, 91, 89, 90, 90]
    for number, value in enumerate(values):
        append_record(record(number, [value, value]), str(folder / "h.jsonl"))
    return "h.jsonl"


@pytest.mark.parametrize("values", [[100.0, 80, 90], [90.0, 100, 100], [100.0, 90, 80]])
def test_the_chart_has_every_commit(rsctl: Cli, values: list[float]) -> None:
    for number, value in enumerate(values):
        append_record(record(number, [value, value]), str(rsctl.folder / "h.jsonl"))
    chart = rsctl("history", "h.jsonl").out.partition("^\n")[2].partition("------")[0]
    assert chart.count("o") == len(values)


@pytest.mark.parametrize("commits", [2, 3, 6, 16, 40])
def test_the_axis_of_a_chart_has_whole_commits(rsctl: Cli, commits: int) -> None:
    for number in range(commits):
        value = 100.0 + number % 3
        append_record(record(number, [value, value]), str(rsctl.folder / "h.jsonl"))
    axis = rsctl("history", "h.jsonl").out.partition("------")[2].splitlines()[1]
    ticks = axis.replace("|", " ").split()
    assert ticks == [str(int(ticks[1]) * number) for number in range(len(ticks))]
    assert int(ticks[-1]) >= commits - 1


def test_as_json(rsctl: Cli) -> None:
    done = rsctl("history", planted(rsctl.folder), "-o", "json", "--cell", "workers.count=2")
    view = json.loads(done.out)
    [series] = view["series"]
    [step] = series["steps"]
    assert (view["history"], view["commits"], len(series["points"])) == ("h.jsonl", 16, 16)
    assert (step["commit"], step["after"]) == (commit(8), commit(7))
    assert step["size"] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "cannot read the history none.jsonl: it does not exist"),
        (["h.jsonl", "--metric", "x"], "h.jsonl has no metric 'x'"),
        (["h.jsonl", "--cell", "x"], "--cell 'x' is not KEY=VALUE"),
        (["gs://"], "does not name an object"),
        (["git:main"], "is not in the form git:REF:PATH"),
        (["add", "h.jsonl", "none"], "none"),
        (["bisect", "none.yaml"], "cannot read none.yaml: it does not exist"),
    ],
)
def test_wrong_usage(rsctl: Cli, arguments: list[str], message: str) -> None:
    planted(rsctl.folder)
    done = rsctl("history", *arguments)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("option", ["--history", "--record"])
def test_a_gate_refuses_what_is_not_the_location_of_a_history(rsctl: Cli, option: str) -> None:
    record_bench("one", STEADY)
    done = rsctl("gate", "one", *LIMIT, option, "h.csv")
    assert (done.code, done.out) == (2, "")
    assert f"error: {option} 'h.csv' is not the location of a history\n    -> " in done.err


@pytest.mark.parametrize("metric", ["run.first_step", "curve.throughput"])
def test_a_gate_by_a_history_refuses_a_metric_that_no_history_has(
    rsctl: Cli, repository: Path, metric: str
) -> None:
    """Before the first run: recording more commits would not help."""
    record_bench("one", STEADY)
    assert rsctl("history", "add", WHERE, "one", "--commit", "HEAD").code == 0
    record_bench("two", STEADY)
    gate = ("gate", "two", "--history", WHERE, *LIMIT, "--max-regression", f"{metric}=5%")
    done = rsctl(*gate)
    assert (done.code, done.out) == (2, "")
    assert f"error: {WHERE}: histories do not record {metric}\n    -> give a file " in done.err
    assert "histories do not" not in rsctl(*gate, "--baseline", "one").err


def test_a_bench_is_added(rsctl: Cli, repository: Path) -> None:
    record_bench("one", STEADY)
    done = rsctl("history", "add", WHERE, "one", "--commit", "HEAD")
    head = git(repository, "rev-parse", "HEAD")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{WHERE}: {head[:10]}, 1 cell, from one\n"
    [kept] = read_history(WHERE).records
    assert (kept.commit, kept.job, kept.of) == (head, "job", "one")
    assert kept.cells[0].metrics[0].values == STEADY
    record_bench("failed", [None, None])
    done = rsctl("history", "add", WHERE, "failed", "--commit", "HEAD")
    assert (done.code, len(read_history(WHERE).records)) == (8, 1)
    assert "failed has no data to record" in done.err


def test_a_gate_by_a_history(rsctl: Cli, repository: Path) -> None:
    for number in range(5):
        record_bench(f"b{number}", [(1 + number % 2 / 500) * value for value in STEADY])
        change(repository, f"print({number})")
        assert rsctl("history", "add", WHERE, f"b{number}", "--commit", "HEAD").code == 0
    for name, factor, code in (("same", 1.0, 0), ("worse", 0.9, 7), ("better", 1.12, 0)):
        record_bench(name, [factor * value for value in STEADY])
        done = rsctl("gate", name, "--history", WHERE, *LIMIT)
        assert (name, done.code) == (name, code)
        assert done.out.splitlines()[-1].startswith(f"{name} against {WHERE}, last 5 commits: ")
    assert done.err.splitlines()[-1] == (
        "baseline is outdated: throughput is 11.9 % better; record a new one with "
        f"`rsctl gate better --record {WHERE}`"
    )
    done = rsctl(
        "gate", "better", "--history", WHERE, *LIMIT, "--fail-on-improvement", "-o", "json"
    )
    assert (done.code, json.loads(done.out)["exit_code"]) == (7, 7)
    assert json.loads(done.out)["outdated"] == ["throughput is 11.9 % better"]
    # Without an allowed regression that of the window holds.
    done = rsctl("gate", "worse", "--history", WHERE, "--window", "4", "-o", "json")
    assert (done.code, json.loads(done.out)["checks"][0]["floor"]) == (7, 0.004)


def test_the_remedy_for_an_outdated_baseline_is_a_command_that_renews_it(
    rsctl: Cli, repository: Path
) -> None:
    script = "import os; print('speed=%s' % os.environ.get('S', 80))"
    change(repository, script)
    assert rsctl("gate", "job.yaml", "--update-baseline", "--baseline", "b c.json").code == 0
    rsctl.write(JOB.replace("gate: {", "gate: {baseline: own.json, "), "own.yaml")
    change(repository, script)
    assert rsctl("gate", "own.yaml", "--update-baseline").code == 0
    before = Path("own.json").read_bytes()
    for arguments in (
        ("job.yaml", "--set", "run.env.S=100", "--baseline", "b c.json"),
        ("own.yaml", "--set", "run.env.S=101", "--baseline", "b c.json", "--repeat", "4"),
    ):
        done = rsctl("gate", *arguments)
        hint = done.err.splitlines()[-1]
        assert "baseline is outdated: throughput" in hint
        command = shlex.split(hint.partition("`")[2].partition("`")[0])
        assert command[:2] == ["rsctl", "gate"]
        assert rsctl(*command[1:]).code == 0
        assert Path("own.json").read_bytes() == before
        done = rsctl("gate", *arguments)
        assert (done.code, "outdated" in done.err) == (0, False)
        Path("b c.json").write_bytes(before)
    done = rsctl("gate", "own.yaml", "--set", "run.env.S=102")
    assert "`rsctl gate own.yaml --set run.env.S=102 --repeat 3 --update-baseline`" in done.err


def test_the_remedy_names_a_history_as_seen_from_the_folder_of_the_command(
    rsctl: Cli, repository: Path
) -> None:
    (repository / "sub").mkdir()
    script = "import os; print('speed=%s' % os.environ.get('S', 80))"
    (repository / "sub" / "train.py").write_text(script)
    rsctl.write(JOB.replace("{max_regression", "{history: h.jsonl, max_regression"), "sub/job.yaml")
    change(repository, script)
    where = ("--record", "sub/h.jsonl")
    assert rsctl("gate", "sub/job.yaml", *where).code == 0
    done = rsctl("gate", "sub/job.yaml", "--set", "run.env.S=100")
    assert "`rsctl gate sub/job.yaml --set run.env.S=100 --record sub/h.jsonl`" in done.err


@pytest.mark.parametrize("options", [(), ("--new",)])
def test_a_repeated_gate_is_not_compared_with_itself(
    rsctl: Cli, repository: Path, options: tuple[str, ...]
) -> None:
    """The verdict stays, though the samples of the first time are in the history."""
    own = ("gate", "job.yaml", "--history", WHERE)
    for script in ("print('speed=100')", "print('speed=101')"):
        change(repository, f"# {options}\n{script}")
        assert rsctl(*own, "--record", WHERE).code == 0
    assert rsctl(*own, "--record", WHERE, *options).code == 0
    change(repository, "print('speed=80')")
    windows = [options] if options else [(), ("--window", "1")]

    def verdicts(*more: str) -> list[tuple[int, str]]:
        judged = (rsctl(*own, *more, *window) for window in windows)
        return [(one.code, one.out.splitlines()[-1].partition(" against ")[2]) for one in judged]

    first = verdicts()
    assert {code for code, _ in first} == {7}
    assert verdicts("--record", WHERE) == verdicts() == first


def test_a_history_of_the_candidate_itself_has_nothing_to_compare_with(
    rsctl: Cli, repository: Path
) -> None:
    gate = ("gate", "job.yaml", "--history", WHERE)
    for _ in range(2):  # the second time, too, it only records
        done = rsctl(*gate, "--record", WHERE)
        assert (done.code, done.out) == (0, "")
    [bench] = {record.of for record in read_history(WHERE).records}
    done = rsctl(*gate, "-o", "json")
    assert f"the baseline is {bench} itself, so there is nothing to compare" in done.err
    [check] = json.loads(done.out)["checks"]
    assert (done.code, check["verdict"]) == (8, "no-data")
    done = rsctl("gate", bench, "--history", WHERE)
    assert (done.code, "itself" in done.err) == (8, True)


def test_own_samples_do_not_widen_the_limit(rsctl: Cli, repository: Path) -> None:
    for number, level in enumerate([1.0, 1.002, 0.998, 1.001, 0.8]):
        record_bench(f"b{number}", [level * value for value in STEADY])
        change(repository, f"print({number})")
        assert rsctl("history", "add", WHERE, f"b{number}", "--commit", "HEAD").code == 0
    done = rsctl("gate", "b4", "--history", WHERE, "-o", "json")
    found = json.loads(done.out)
    assert (done.code, found["baseline"]) == (7, f"{WHERE}, last 4 commits")
    assert found["checks"][0]["floor"] < 0.01


def test_an_improvement_over_a_fixed_baseline(rsctl: Cli) -> None:
    record_bench("before", STEADY)
    record_bench("now", [1.2 * value for value in STEADY])
    done = rsctl("gate", "now", "--baseline", "before", *LIMIT)
    assert done.code == 0
    assert done.err.splitlines()[-1] == (
        "baseline is outdated: throughput is 20 % better; give --baseline now"
    )
    done = rsctl("gate", "now", "--baseline", "before", *LIMIT, "--fail-on-improvement")
    assert done.code == 7
    record_bench("again", STEADY)
    done = rsctl("gate", "again", "--baseline", "before", *LIMIT, "--fail-on-improvement")
    assert (done.code, "outdated" in done.err) == (0, False)


def test_a_bench_is_not_its_own_baseline_within_a_history(rsctl: Cli, repository: Path) -> None:
    for number in range(4):
        record_bench(f"b{number}", STEADY)
        change(repository, f"print({number})")
        rsctl("history", "add", WHERE, f"b{number}", "--commit", "HEAD")
    done = rsctl("gate", "b3", "--baseline", "b3", "--history", WHERE, *LIMIT)
    assert (done.code, done.out.splitlines()[-1]) == (8, "b3 against b3: no data for a decision")
    assert "the baseline is b3 itself, so there is nothing to compare\n" in done.err


def test_a_baseline_that_a_history_limits(rsctl: Cli, repository: Path) -> None:
    for number, level in enumerate([1.0, 1.08, 0.93, 1.04, 0.96]):
        record_bench(f"b{number}", [level * value for value in STEADY])
        change(repository, f"print({number})")
        rsctl("history", "add", WHERE, f"b{number}", "--commit", "HEAD")
    record_bench("now", [0.9 * value for value in STEADY])
    assert rsctl("gate", "now", "--baseline", "b0", *LIMIT).code == 7
    done = rsctl("gate", "now", "--baseline", "b0", "--history", WHERE, *LIMIT)
    assert done.code == 8
    assert "single ones of the last 5 commits differ by up to" in done.err
    assert done.out.splitlines()[-1].startswith("now against b0: inconclusive")


def test_the_history_of_a_job_file(rsctl: Cli, repository: Path) -> None:
    """Options override the file's baseline and history."""
    for number, level in enumerate([1.0, 1.08, 0.93, 1.04, 0.96]):
        record_bench(f"b{number}", [level * value for value in STEADY])
        change(repository, f"print({number})")
        rsctl("history", "add", WHERE, f"b{number}", "--commit", "HEAD")
    own = {"history": WHERE, "window": 4}
    limited = {**own, "max_regression": {"throughput": "5%"}}
    for name, gate in (("free", own), ("now", limited), ("both", {**limited, "baseline": "b0"})):
        record_bench(name, [0.9 * value for value in STEADY], gate=gate)

    def against(name: str, *options: str) -> tuple[int, str]:
        done = rsctl("gate", name, *options, "-o", "json")
        return done.code, json.loads(done.out)["baseline"]

    assert against("now") == (8, f"{WHERE}, last 4 commits")
    assert against("now", "--window", "2") == (7, f"{WHERE}, last 2 commits")
    assert against("now", "--baseline", "b0") == (7, "b0")
    assert against("free") == (0, f"{WHERE}, last 4 commits")
    assert against("both") == (8, "b0")
    assert against("both", "--history", WHERE) == (8, f"{WHERE}, last 4 commits")
    assert against("both", "--baseline", "b0") == (7, "b0")

    judged = api.gate("b0", history=WHERE, window=3, max_regression={"throughput": "50%"})
    assert (judged.baseline, judged.exit_code) == (f"{WHERE}, last 3 commits", 0)
    with pytest.raises(api.RsctlError, match="--against and --history exclude each other"):
        api.gate("job.yaml", history=WHERE, against="HEAD")
    with pytest.raises(api.RsctlError, match="--against and --baseline exclude each other"):
        api.gate("job.yaml", baseline="b0", against="HEAD")


def test_a_first_record(rsctl: Cli, repository: Path) -> None:
    """A baseline that a history only limits is compared with before there is a history."""
    (repository / "sub").mkdir()
    text = JOB.replace("{max_regression", "{history: ../../h.jsonl, max_regression")
    rsctl.write(text, "sub/job.yaml")
    (repository / "sub" / "train.py").write_text("print('speed=90')\n")
    change(repository, "print('speed=100')")
    base = ("gate", "sub/job.yaml", "--repeat", "1", "--report", "junit=r.xml")
    done = rsctl(*base, "--record", WHERE)
    assert (done.code, len(read_history(WHERE).records)) == (0, 1)
    assert 'errors="0"' in Path("r.xml").read_text()
    assert rsctl(*base, "--baseline", "b.json", "--update-baseline").code == 0
    assert 'errors="0"' in Path("r.xml").read_text()
    (repository / "sub" / "train.py").write_text("print('speed=89')\n")
    done = rsctl(*base, "-o", "json")  # relative to the job file
    assert json.loads(done.out)["baseline"] == "../../h.jsonl, last commit"

    (repository / "sub" / "train.py").write_text("print('speed=80')\n")
    change(repository, "print('speed=101')")
    new = ("--history", "../n.jsonl", "--record", "../n.jsonl")
    done = rsctl(*base, "--baseline", "b.json", *new, "-o", "json")
    assert (done.code, json.loads(done.out)["baseline"]) == (8, "b.json")
    assert len(read_history("../n.jsonl").records) == 1

    (repository / "sub" / "train.py").write_text("raise SystemExit(3)\n")
    change(repository, "print('speed=102')")
    for options in (("--history", "../x.jsonl"), ("--baseline", "b.json")):
        done = rsctl(*base, *options, "--record", "../x.jsonl", "--allow-inconclusive")
        assert (done.code, Path("../x.jsonl").exists()) == (1, False)
        assert "no run has data: nothing is recorded in ../x.jsonl" in done.err
        assert 'failures="1"' in Path("r.xml").read_text()


def test_what_has_no_commit_is_not_run(rsctl: Cli, repository: Path) -> None:
    (repository / "train.py").write_text("print('speed=50')\n")
    done = rsctl("gate", "job.yaml", "--record", WHERE)
    assert done.code == 2
    assert "files differ from the commit" in done.err
    done = rsctl("gate", "job.yaml", "--record", "report.html")
    assert "--record 'report.html' is not the location of a history" in done.err
    done = rsctl("gate", "job.yaml", "--window", "3", "--baseline", "x.json")
    assert "--window needs a history" in done.err


def test_a_job_records_itself_and_is_bisected(rsctl: Cli, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    done = rsctl("gate", "job.yaml", "--history", WHERE, "--record", WHERE)
    assert (done.code, done.out) == (0, "")
    assert f"{WHERE} has no records of digits at other commits yet" in done.err
    for script in ("print('speed=101')", "import nothing_here", "print('speed=80')"):
        last = change(repository, script)
    culprit = last
    change(repository, "print('speed=81')")
    done = rsctl("gate", "job.yaml", "--history", WHERE, "--record", WHERE)
    assert done.code == 7
    assert next(iter(read_history(WHERE).records)).commit == first
    assert len(read_history(WHERE).records) == 2

    done = rsctl("history", "bisect", "job.yaml", "--good", first, "-o", "json")
    found = json.loads(done.out)
    marks = {probe["subject"]: probe["mark"] for probe in found["probes"]}
    assert marks == {
        "print('speed=101')": "good",
        "import nothing_here": "skipped",
        "print('speed=80')": "bad",
    }
    assert (done.code, found["first_bad"]) == (8, None)
    assert [probe["commit"] for probe in found["suspects"]][-1] == culprit
    assert found["effect"] == pytest.approx(-0.19)
    again = rsctl("history", "bisect", "job.yaml", "--good", first)
    assert "started" not in again.err
    assert again.out.splitlines()[-1].startswith("the first bad commit is one of ")

    good = git(repository, "rev-parse", "HEAD~1")
    done = rsctl("history", "bisect", "job.yaml", "--good", good)
    assert done.code == 8
    assert "is not worse than" in done.err


def test_a_history_of_an_attacker(rsctl: Cli) -> None:
    hostile = record(1, metric="loss\x1b]0;owned\x07", job="a\nb\x1b[2J")
    hostile.cells[0].metrics[0].unit = "x\x1b[31m"
    hostile.cells[0].fixed = {"machine\x1b[1m": "\u202eexe"}
    append_record(hostile, "h.jsonl")
    second = record(2, metric="loss\x1b]0;owned\x07", job="a\nb\x1b[2J")
    append_record(second, "h.jsonl")
    done = rsctl("history", "h.jsonl", "--no-color")
    assert done.code == 0
    assert not {"\x1b", "\x07"} & {*done.out, *done.err}
    assert done.out.splitlines()[0].count("h.jsonl") == 1


def test_the_history_is_in_the_working_tree(rsctl: Cli, repository: Path) -> None:
    record_bench("one", STEADY)
    where = "git:main:bench/h.jsonl"
    assert rsctl("history", "add", where, "one", "--commit", "HEAD").code == 0
    assert "cannot read" in rsctl("history", where).err
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "history")
    assert rsctl("history", where).out.startswith("job: git:main:bench/h.jsonl\n")
    record_bench("two", STEADY)
    assert rsctl("gate", "two", "--history", where, *LIMIT).code == 0


def test_an_empty_history(rsctl: Cli) -> None:
    rsctl.write("", "h.jsonl")
    assert rsctl("history", "h.jsonl").out == "h.jsonl has no records\n"
    assert rsctl("report", "--history", "h.jsonl").code == 0
    assert "It has no records." in (rsctl.folder / "report.html").read_text()
    record_bench("one", STEADY)
    done = rsctl("gate", "one", "--history", "h.jsonl", *LIMIT)
    assert (done.code, "h.jsonl has no records of the job job" in done.err) == (2, True)
