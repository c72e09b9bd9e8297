"""`rsctl compare` and `rsctl gate` as pipelines use them, on a bench of recorded runs."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState, error
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.runs.versions import keep_versions
from tests.cli.conftest import Cli, MadeRun
from tests.kit.polling import DEADLINE_SECONDS, wait_until

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5]
SPECS = {"throughput": MetricSpec(goal="max", unit="x/s")}
GATE = {"baseline": "baseline.json", "max_regression": {"throughput": "5%"}}


def record(
    name: str, values: Sequence[float | None], cpu: str = "EPYC", gate: dict[str, Any] | None = None
) -> str:
    """A bench of one cell; a run without a value has failed."""
    store = Store()
    created = f"2026-01-01T00:00:0{len(Benches(store).benches())}.000000Z"
    bench = BenchRecord(
        bench=name,
        name="job",
        target="process",
        definition=name,
        created=created,
        repeat=len(values),
        cells=[{}],
        spec={"gate": gate or {}},
    )
    benches = Benches(store)
    benches.claim(bench)
    for index, value in enumerate(values):
        state = JobState.FAILED if value is None else JobState.SUCCEEDED
        run = f"{name}-{index}"
        record_run(store, run, state, value)
        keep_versions(store, run, "worker-0", {"cpu": cpu, "cores": "2", "torch": "2.8.0"})
        code = int(state.exit_code)
        benches.begin(name, Trial(cell=0, repetition=index, run=run, state=state, exit_code=code))
    store.close()
    return name


def record_run(
    store: Store,
    run: str,
    state: JobState,
    value: float | None,
    specs: dict[str, MetricSpec] = SPECS,
) -> None:
    """A run that has ended, with one value unless that is None."""
    time = "2026-01-01T00:00:00.000000Z"
    plan = {"pools": [{"role": "worker", "count": 1}], "world_size": 1}
    store.add(
        RunRecord(
            run=run,
            name="job",
            target="process",
            url=f"process://{run}",
            state=JobState.QUEUED,
            created=time,
            plan=plan,
            metrics_spec=specs,
        )
    )
    store.record(run, StateEvent(time=time, state=state))
    if value is not None:
        metric = MetricEvent(time=time, replica="worker-0", name="throughput", value=value)
        store.add_metrics(run, [metric])


@pytest.fixture
def here(rsctl: Cli) -> Path:
    """The working directory."""
    return rsctl.folder


@pytest.fixture
def baseline(rsctl: Cli) -> str:
    """baseline.json of steady runs."""
    record("steady", STEADY)
    done = rsctl("gate", "steady", "--baseline", "baseline.json", "--update-baseline")
    assert (done.code, done.out) == (0, "")
    return "baseline.json"


LIMIT = ("--max-regression", "throughput=5%")


def test_a_new_baseline_has_a_comment_too(rsctl: Cli) -> None:
    record("steady", STEADY)
    made = ("--baseline", "b.json", "--update-baseline", "--report", "markdown=comment.md")
    assert rsctl("gate", "steady", *made).code == 0
    text = (rsctl.folder / "comment.md").read_text()
    assert text.startswith("<!-- rsctl gate job -->\n### No verdict: ")
    assert "| throughput |" in text


def test_what_a_person_sees(rsctl: Cli, baseline: str) -> None:
    record("now", [0.9 * v for v in STEADY])
    done = rsctl("gate", "now", "--baseline", baseline, *LIMIT)
    head, row, last = done.out.splitlines()
    assert head.split() == [
        "VERDICT",
        "METRIC",
        "BASELINE",
        "MEDIAN",
        "MEDIAN",
        "NOW",
        "EFFECT",
        "[90",
        "%]",
        "ALLOWED",
        "P",
    ]
    assert row.startswith("regressed  throughput  100 x/s          90 x/s      -10 % [-1")
    assert row.endswith("  5 %      0.00397")
    assert last == "now against baseline.json: regressed"
    assert done.err.splitlines() == [
        "throughput: 5+5 runs per cell, noise 0.79 %: they detect a regression of 5.4 % in 80 % "
        "of cases",
    ]


def test_another_machine_is_told(rsctl: Cli, baseline: str) -> None:
    record("now", STEADY, "Xeon")
    done = rsctl("gate", "now", "--baseline", baseline, *LIMIT, "-q")
    *said, remedy = done.err.splitlines()
    assert said == [
        "the baseline is for a different measurement: machine: EPYC, 2 cores -> Xeon, 2 cores"
    ]
    assert remedy == (
        "baseline does not apply: run the gate under its conditions, or record a new one with "
        "`rsctl gate now --baseline baseline.json --max-regression=throughput=5% --update-baseline`"
    )
    command = shlex.split(remedy.split("`")[1])[1:]
    assert rsctl(*command).code == 0
    record("then", STEADY, "Xeon")
    assert rsctl("gate", "then", "--baseline", baseline, *LIMIT).code == 0


def test_the_rules_of_the_job_file(rsctl: Cli, baseline: str) -> None:
    record("now", [0.9 * v for v in STEADY], gate=GATE)
    assert rsctl("gate", "now").code == 7
    assert rsctl("gate", "now", "--max-regression", "throughput=20%").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no baseline to compare with"),
        (["--baseline", "steady"], "no metric has an allowed regression"),
        (["--baseline", "none.json", *LIMIT], "cannot read the baseline none.json: "),
        (
            ["--baseline", "steady", "--max-regression", "throughput"],
            "expected a percentage of the",
        ),
        (["--baseline", "steady", "--max-regression", "=5%"], "does not name a metric"),
        (["--report", "xml=x"], "'xml=x' is not one of junit=FILE"),
        (["--set", "a=b"], "a bench has already run with its settings"),
        (["--update-baseline"], "--update-baseline has no location to write to"),
    ],
)
def test_wrong_usage(rsctl: Cli, arguments: list[str], message: str) -> None:
    record("steady", STEADY)
    done = rsctl("gate", "steady", *arguments)
    assert (done.code, message in done.err) == (2, True)


def test_a_bench_is_not_its_own_baseline(rsctl: Cli) -> None:
    record("steady", STEADY)
    rsctl("gate", "steady", "--update-baseline", "--baseline", "b.json")
    for location in ("steady", "b.json"):
        done = rsctl("gate", "steady", "--baseline", location, "--max-regression", "throughput=5")
        assert (done.code, done.out.splitlines()[1].split()) == (
            8,
            ["no-data", "throughput", "-", "-", "5", "x/s"],
        )
        assert "the baseline is steady itself, so there is nothing to compare\n" in done.err


def test_a_baseline_of_failed_runs_is_not_written(rsctl: Cli, here: Path) -> None:
    record("now", [None, *STEADY], gate=GATE)
    done = rsctl("gate", "now", "--update-baseline")
    assert done.code == 8
    assert "has no data for throughput: now-0 failed" in done.err
    assert not (here / "baseline.json").exists()


def test_reports(rsctl: Cli, baseline: str, here: Path) -> None:
    record("now", [0.9 * v for v in STEADY])
    names = [
        "junit=r/j.xml",
        "markdown=r/g.md",
        "html=r/g.html",
        "metrics=r/m.txt",
        "bencher=r/b.json",
    ]
    names.append("github-benchmark=r/gb.json")
    reports = [word for name in names for word in ("--report", name)]
    assert rsctl("gate", "now", "--baseline", baseline, *LIMIT, *reports).code == 7
    found = {path.name for path in (here / "r").iterdir()}
    assert found == {"j.xml", "g.md", "g.html", "m.txt", "b.json", "gb.bigger.json"}
    assert "<failure" in (here / "r" / "j.xml").read_text()


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(("factor", "code"), [(0.9, 7), (1.0, 3)])
def test_a_report_that_cannot_be_written_hides_no_verdict(
    rsctl: Cli, baseline: str, here: Path, factor: float, code: int, output: str
) -> None:
    record("now", [factor * v for v in STEADY])
    reports = "--report html=/dev/full --report markdown=g.md --report junit=j.xml"
    gate = ["gate", "now", "--baseline", baseline, *LIMIT, *reports.split(), "-o", output]
    done = rsctl(*gate)
    assert done.code == code
    assert done.err.count("error: cannot write /dev/full: No space left on device") == 1
    assert (here / "g.md").exists()
    assert "it has not run" not in (here / "j.xml").read_text()
    assert output == "text" or done.json["verdict"] == ("regressed" if code == 7 else "pass")


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(("factor", "code"), [(0.9, 7), (1.0, 3)])
def test_a_full_output_hides_no_verdict(
    rsctl: Cli, baseline: str, here: Path, factor: float, code: int, output: str
) -> None:
    record("now", [factor * v for v in STEADY])
    gate = f"rsctl gate now --baseline {baseline} {' '.join(LIMIT)} --report markdown=g.md"
    done = rsctl.shell(f"{gate} -o {output} > /dev/full")
    assert done.code == code
    assert "cannot write to standard output: No space left on device" in done.err
    assert (here / "g.md").exists()


def test_junit_is_there_though_the_gate_breaks_off(rsctl: Cli, here: Path) -> None:
    record("now", STEADY)
    done = rsctl("gate", "now", "--baseline", "none.json", *LIMIT, "--report", "junit=j.xml")
    assert done.code == 2
    reason = 'none.json: No such file or directory" type="error"'
    assert (here / "j.xml").read_text().count(reason) == 2


@pytest.mark.parametrize("command", ["gate", "bench run"])
def test_a_broken_job_file_leaves_no_report_of_an_earlier_pipeline(
    rsctl: Cli, here: Path, command: str
) -> None:
    (here / "job.yaml").write_text("name: [")
    reports = ("--report", "junit=j.xml", "--report", "metrics=m.txt")
    for name in ("j.xml", "m.txt"):
        (here / name).write_text("of an earlier pipeline")
    assert rsctl(*command.split(), "job.yaml", *reports).code == 2
    assert 'message="a value is missing here"' in (here / "j.xml").read_text()
    assert not (here / "m.txt").exists()


def test_a_reader_that_goes_away_changes_no_verdict(
    rsctl: Cli, baseline: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline with pipefail that reads less than all: `rsctl gate … | head -1`."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    record("now", [0.9 * v for v in STEADY])
    gate = f"rsctl gate now --baseline {baseline} {' '.join(LIMIT)} --report junit=j.xml"
    for output in ("text", "json", "text 2>&1"):
        assert rsctl.shell(f"{gate} -o {output} | true").code == 7
        assert "<failure" in (here / "j.xml").read_text()


def test_on_github(rsctl: Cli, baseline: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record("now", [0.9 * v for v in STEADY])
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    done = rsctl("gate", "now", "--baseline", baseline, *LIMIT)
    assert "::error title=throughput%3A regressed::median 100 x/s -> 90 x/s;" in done.err
    assert "regressed" in (here / "summary.md").read_text()


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    rsctl: Cli, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as in a container that has the variables of GitHub and not its folder."""
    record("now", [0.9 * v for v in STEADY])
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "missing/summary.md")
    done = rsctl("gate", "now", "--baseline", baseline, *LIMIT)
    assert done.code == 7
    why = "missing/summary.md: No such file or directory"
    assert f"the summary of this step is not written: cannot write {why}\n" in done.err


def test_calibrate(rsctl: Cli) -> None:
    record("now", STEADY)
    done = rsctl("gate", "calibrate", "now")
    assert (done.code, done.out) == (0, "gate:\n  max_regression:\n    throughput: 3.5%\n")
    record("lone", STEADY[:1])
    assert rsctl("gate", "calibrate", "lone").code == 8


def test_compare(rsctl: Cli, baseline: str) -> None:
    record("now", [0.9 * v for v in STEADY])
    done = rsctl("compare", baseline, "now", "-o", "json")
    found = json.loads(done.out)
    assert (done.code, [side["label"] for side in found["sides"]]) == (0, ["baseline.json", "now"])
    [metric] = found["metrics"]
    assert (metric["name"], metric["cell"]) == ("throughput", {})
    assert [(s["n"], s["value"]) for s in metric["sides"]] == [(5, 100.0), (5, pytest.approx(90))]
    assert metric["effect"] == pytest.approx(-0.1)
    assert metric["p"] == pytest.approx(2 / 252)
    assert found["differences"] == []


def test_one_run_a_side_concludes_nothing(rsctl: Cli) -> None:
    record("steady", STEADY)
    done = rsctl("compare", "steady-0", "steady-1", "-m", "throughput")
    assert done.out == (
        "METRIC      1 MEDIAN  2 MEDIAN  EFFECT\nthroughput  100 x/s   101 x/s   +1 %\n"
    )
    assert done.err.splitlines()[-1] == "one run per side allows no conclusion"


@pytest.mark.parametrize("output", ["markdown", "csv"])
def test_compare_for_others(rsctl: Cli, output: str) -> None:
    record("steady", STEADY)
    record("=now", [0.9 * v for v in STEADY])
    done = rsctl("compare", "steady", "=now", "-m", "throughput", "-o", output)
    assert done.code == 0
    lines = done.out.splitlines()
    if output == "csv":
        assert lines[1].startswith("throughput,x/s,max,,steady,5,100.0,100.0 101.0 99.0")
        assert lines[2].startswith("throughput,x/s,max,,'=now,5,")
    else:
        assert "| throughput |  | 100 x/s (n=5) | 90 x/s (n=5) | -10 % |" in done.out


def test_nothing_to_compare(rsctl: Cli) -> None:
    assert rsctl("compare", "nothing").code == 2
    assert rsctl("compare").code == 2


TRAIN = """
import sys
speed = float(open("speed.txt").read())
for step in range(3):
    print(f"speed={speed * (1 + step / 1000)}")
"""
JOB = """
name: job
run: {script: train.py, launcher: once}
image: {source: code}
metrics: {speed: {regex: 'speed=([0-9.]+)', goal: max, warmup: 0 steps}}
gate: {baseline: bench/baseline.json, max_regression: {speed: 5%}, repeat: 3, confirm: 3}
"""


@pytest.fixture
def baseline_of_job(rsctl: Cli, here: Path) -> None:
    """A job and the baseline of its runs, as files."""
    (here / "code").mkdir()
    (here / "code" / "train.py").write_text(TRAIN)
    (here / "code" / "speed.txt").write_text("100")
    rsctl.write(JOB)
    assert rsctl("gate", "job.yaml", "--update-baseline").code == 0


@pytest.mark.usefixtures("runs_end_with_the_test", "baseline_of_job")
def test_a_job_file_is_run_and_decided_and_a_suspicion_confirmed(rsctl: Cli, here: Path) -> None:
    assert (here / "bench" / "baseline.json").exists()
    (here / "code" / "train.py").write_text(TRAIN.replace("speed * (", "0.8 * speed * ("))
    done = rsctl("gate", "job.yaml", "--report", "junit=j.xml", "-o", "json")
    assert (
        "speed: 3+3 runs per cell and 3 to confirm cannot show any regression: --repeat 4 could"
    ) in done.err
    gate = json.loads(done.out)
    assert "checks" in gate, (gate, done.err)
    [check] = gate["checks"]
    assert (done.code, check["verdict"], check["confirmed"]) == (8, "inconclusive", True)
    assert check["runs"] == [3, 6]  # 1 of 84 exchanges: not below a fifth of 0.05
    assert [str(d["name"]) for d in gate["differences"]] == ["file train.py"]
    bench = Benches(Store()).find("@last")
    assert bench.bench.startswith("job-confirm-bench-")
    assert len(bench.trials) == 3
    assert gate["confirmation"] == bench.bench
    first, again = gate["candidate"], gate["confirmation"]
    for source in ("@last", first, again):  # and the file of the baseline beside it
        page = rsctl("report", source, "-o", "-").out
        opens = ["Gate: inconclusive", "Comparison", f"Bench {first}", f"Bench {again}"]
        assert sections(page) == opens
        assert "suspected, and fresh runs did not confirm it" in page
        assert f"{first} with {again}, median" in page  # the six runs that the check has
    assert sections(rsctl("report", first, "bench/baseline.json", "-o", "-").out) == opens
    done = rsctl("gate", "job.yaml", "--confirm", "0", "--report", "html=r.html")
    assert done.code == 7
    opens = ["Gate: regressed", "Comparison", f"Bench {first}"]
    assert sections((here / "r.html").read_text()) == opens


@pytest.mark.usefixtures("runs_end_with_the_test", "baseline_of_job")
def test_what_the_baseline_is_of_is_measured_again(rsctl: Cli, here: Path) -> None:
    """Once: what was measured against it is compared again as it is."""
    (here / "code" / "speed.txt").write_text("50")  # the machine is slower: no file of the code
    for _ in range(2):
        assert rsctl("gate", "job.yaml", "--confirm", "0").code == 7
        assert [len(bench.trials) for bench in Benches(Store()).benches()] == [3, 3]


def sections(page: str) -> list[str]:
    """The titles of a report's sections."""
    return re.findall("<h2>([^<]*)", page)


@pytest.mark.usefixtures("runs_end_with_the_test", "baseline_of_job")
def test_an_interrupted_gate_leaves_a_report_of_its_runs(
    rsctl: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the one of an earlier gate."""
    monkeypatch.setenv("CI", "true")
    (here / "code" / "train.py").write_text("import time; time.sleep(600)")
    (here / "r.html").write_text("an earlier one")
    command = rsctl.argv("gate", "job.yaml", "--report", "html=r.html")
    with subprocess.Popen(command, stderr=subprocess.PIPE) as gate:
        wait_until(lambda: any(run.state is JobState.RUNNING for run in Store().runs()))
        gate.send_signal(signal.SIGTERM)
        gate.communicate(timeout=DEADLINE_SECONDS)
    assert gate.returncode == 5
    [only] = sections((here / "r.html").read_text())
    assert only.startswith("Bench job-bench-")


@pytest.mark.usefixtures("runs_end_with_the_test", "baseline_of_job")
def test_an_error_that_ends_the_bench_is_not_a_lack_of_data(rsctl: Cli, here: Path) -> None:
    """As for a source that changes while it is measured, or an image that cannot be built."""
    with (here / "code" / "train.py").open("a") as script:
        script.write("\nopen(__file__, 'a').write('# changed')\n")
    (here / "r.html").write_text("an earlier one")
    (here / "unwritable").mkdir()
    files = ("junit=r.xml", "html=r.html", "html=unwritable")
    reports = [word for file in files for word in ("--report", file)]
    done = rsctl("gate", "job.yaml", "--allow-inconclusive", *reports)
    why = "the job's files have changed since the bench began"
    assert (done.code, done.out, done.err.count(why)) == (2, "", 1)
    assert why in (here / "r.xml").read_text()
    assert sections((here / "r.html").read_text())[0].startswith("Bench job-bench-")
    assert "cannot write unwritable" in done.err


def test_a_gate_of_a_run_whose_result_is_unknown_can_be_continued(
    rsctl: Cli, here: Path, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "code").mkdir()
    (here / "code" / "train.py").write_text(TRAIN)
    rsctl.write(JOB)
    run = make_run("job-aaaaaa", target="vertex").store.find("job-aaaaaa")

    def lost(*_given: object, **_named: object) -> NoReturn:
        raise ResultUnknown(run, error("network", "there is no answer"))

    monkeypatch.setattr("rsctl.bench.run.run_bench", lost)
    done = rsctl("gate", "job.yaml", "--update-baseline")
    assert (done.code, done.err.count("there is no answer")) == (9, 1)
    assert " is not complete: to continue, run the same command without --new\n" in done.err


def test_a_gate_of_curves_names_the_steps_that_are_worse(rsctl: Cli) -> None:
    """The last values are equal, and so is the throughput by its median."""
    for name, slow in (("before", range(0)), ("now", range(16, 20))):
        record(name, STEADY)
        with closing(Store()) as store:
            for run, level in zip(store.runs(), reversed(STEADY), strict=False):
                for step in range(64):
                    value = 0.5 * level if step in slow else level
                    time = f"2026-01-01T00:{step // 60:02}:{step % 60:02}.000000Z"
                    event = MetricEvent(
                        time=time, replica="worker-0", name="throughput", value=value, step=step
                    )
                    store.add_metrics(run.run, [event])
    made = ("--baseline", "b.json", "--max-regression", "curve.throughput=5%")
    assert rsctl("gate", "before", *made, "--update-baseline").code == 0
    done = rsctl("gate", "now", *made)
    assert done.code == 7
    row = done.out.splitlines()[1]
    assert row.startswith("regressed  curve.throughput (worst in steps 16 to 19)  100 x/s "), row
    assert " -50 % [-50.8, -49.2]  5 %      0.00397" in row
    checks = json.loads(rsctl("gate", "now", *made, "-o", "json").out)["checks"]
    assert [(c["metric"], c["steps"]) for c in checks] == [("curve.throughput", [16, 19])]
    effects = [0.0] * 16
    effects[4] = -0.5
    assert [part["effect"] for part in checks[0]["parts"]] == effects
    assert rsctl("report", "now", "--output", "r.html").code == 0
    page = (rsctl.folder / "r.html").read_text()
    assert "curve.throughput, medians of 5 and 5 runs<" in page
    assert rsctl("gate", "now", "--baseline", "b.json", *LIMIT).code == 0
    unknown = rsctl("gate", "now", "--baseline", "b.json", "--max-regression", "curve.nope=5%")
    assert unknown.code == 2
    assert "has a metric 'curve.nope'" in unknown.err
