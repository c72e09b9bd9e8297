"""`rsctl gate calibrate`, and what a gate prints besides its table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import Gate, MetricNoise
from rsctl.bench.checks import MetricCheck
from rsctl.bench.step_parts import Moved
from rsctl.bench.verdict import Verdict
from rsctl.cli import gate_calibrate
from rsctl.cli.views.gate import annotate_github, exit_code, print_gate

from .conftest import Cli

KNOWN = MetricNoise(
    metric="loss", runs=4, noise=0.0123, measured=0.02, floor=0.025, passes=0.9, repeat=6
)
UNKNOWN = MetricNoise(metric="speed", runs=2, reason="it has 2 runs")


class Calibration:
    """What `gate calibrate` asks for, and the noise that it finds."""

    def __init__(self, *found: MetricNoise, file: str | None = "job.yaml") -> None:
        self.found, self.asked = list(found), {}  # type: ignore[var-annotated]
        self.rules = SimpleNamespace(floors={"loss": None, "speed": None}, repeat=None)
        self.source = SimpleNamespace(file=file, rules=lambda: self.rules, measure=self.measure)

    def open(self, bench: str, target: str | None, settings: list[str]) -> SimpleNamespace:
        self.asked |= {"bench": bench, "target": target, "settings": settings}
        return self.source

    def measure(self, runs: int, _runner: object) -> SimpleNamespace:
        self.asked["runs"] = runs
        return SimpleNamespace(label="now")

    def calibrate(self, _results: object, metrics: list[str], repeat: int) -> list[MetricNoise]:
        self.asked |= {"metrics": metrics, "repeat": repeat}
        return self.found

    def write(self, file: str, floors: dict[str, str]) -> None:
        self.asked |= {"file": file, "floors": floors}


@pytest.fixture
def calibrated(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `rsctl gate calibrate` on a calibration."""

    def run(made: Calibration, *words: str) -> Any:
        monkeypatch.setattr(gate_calibrate, "open_source", made.open)
        monkeypatch.setattr(gate_calibrate, "calibrate", made.calibrate)
        monkeypatch.setattr(gate_calibrate, "write_floors", made.write)
        return rsctl("gate", "calibrate", "job.yaml", *words)

    return run


def test_the_noise_of_a_job(calibrated: Any) -> None:
    """With a metric whose noise is unknown the exit code is 8."""
    made = Calibration(KNOWN, UNKNOWN)
    done = calibrated(made)
    assert (done.code, done.out) == (8, "gate:\n  max_regression:\n    loss: 2.5%\n")
    assert done.err == (
        "loss: noise 1.2 % of a run (4 runs per cell); with 6+6 runs an unchanged program passes "
        "at 2 % in 90 % of cases, if these runs are typical; 2.5% allows for their small number\n"
        "speed: it has 2 runs\n"
    )
    assert made.asked == {
        "bench": "job.yaml", "target": None, "settings": [], "runs": 10,
        "metrics": ["loss", "speed"], "repeat": 5,
    }  # fmt: skip


def test_the_options_of_a_calibration(calibrated: Any) -> None:
    made = Calibration(KNOWN)
    words = "-t process --set a=1 -n 4 -r 7 -m loss -p 2 --write -o json"
    done = calibrated(made, *words.split())
    assert (done.code, done.err) == (0, "wrote gate.max_regression to job.yaml\n")
    assert (done.json["bench"], done.json["metrics"][0]["metric"]) == ("now", "loss")
    assert made.asked == {
        "bench": "job.yaml", "target": "process", "settings": ["a=1"], "runs": 4,
        "metrics": ["loss"], "repeat": 7, "file": "job.yaml", "floors": {"loss": "2.5%"},
    }  # fmt: skip
    made = Calibration(KNOWN)
    made.rules.repeat = 3
    assert "file" not in made.asked
    assert calibrated(made).code == 0
    assert (made.asked["repeat"], "file" in made.asked) == (3, False)


def test_a_calibration_that_finds_or_writes_nothing(calibrated: Any) -> None:
    done = calibrated(Calibration(), "--write")
    assert (done.code, done.out) == (8, "")
    assert done.err == "no metric has a goal: set metrics.NAME.goal to max or min\n"
    done = calibrated(Calibration(UNKNOWN), "--write")
    assert (done.code, done.out, done.err) == (8, "", "speed: it has 2 runs\n")
    done = calibrated(Calibration(KNOWN, file=None), "--write")
    assert done.code == 2
    assert "error: --write needs a job file\n    -> give the path of the file" in done.err


def made_gate(**fields: Any) -> Gate:
    check = MetricCheck(
        metric="loss", cell={}, verdict=Verdict.INCONCLUSIVE, floor=0.05, reason="too\x07 noisy"
    )
    known = {"verdict": "inconclusive", "exit_code": 8, "baseline": "old", "candidate": "now"}
    return Gate(**{**known, "checks": [check], **fields})


def test_what_a_gate_prints(capsys: pytest.CaptureFixture[str]) -> None:
    moved = [
        Moved(name="data", unit="s", baseline=1.0, candidate=2.0),
        Moved(name="buckets", baseline=1.0, candidate=2.0),
    ]
    gate = made_gate(
        differences=["code: a -> b"], refused=["cpu: x -> y"], moved=moved, lacks_steps=True
    )
    print_gate(gate, "text")
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[:2] == ["VERDICT", "METRIC"]
    assert out.splitlines()[-1] == gate.headline
    lines = err.splitlines()
    assert lines[:2] == ["differs: code: a -> b", "loss: too\\x07 noisy"]
    assert lines[2:4] == [f"longer in each step: {moved[0]}", f"in each step: {moved[1]}"]
    assert lines[4] == f"what became longer is unknown: {gate.missing_steps}"
    assert lines[5:] == ["the baseline is for a different measurement: cpu: x -> y"]


def test_a_gate_without_checks_prints_its_headline(capsys: pytest.CaptureFixture[str]) -> None:
    gate = made_gate(checks=[])
    print_gate(gate, "text")
    assert capsys.readouterr() == (f"{gate.headline}\n", "")
    print_gate(gate, "json")
    assert capsys.readouterr().out.startswith('{\n  "verdict": "inconclusive",')


@pytest.mark.parametrize(
    ("fields", "is_tolerant", "code"),
    [
        ({}, False, 8),
        ({}, True, 0),
        ({"failures": [1]}, True, 8),
        ({"verdict": "pass", "exit_code": 0}, False, 0),
        ({"verdict": "regressed", "exit_code": 7}, True, 7),
    ],
)
def test_the_exit_code_of_a_gate(fields: dict[str, Any], is_tolerant: bool, code: int) -> None:
    assert exit_code(made_gate(**fields), is_tolerant) == code


@pytest.mark.parametrize("is_github", [True, False])
def test_annotations_are_for_github(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any,
    is_github: bool,
) -> None:  # fmt: skip
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true" if is_github else "1")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for workspace, file in ((Path.cwd().parent, f"{Path.cwd().name}/a/b.yaml"), ("/x", "a/b.yaml")):
        monkeypatch.setenv("GITHUB_WORKSPACE", str(workspace))
        annotate_github(made_gate(), "a/b.yaml", has_passed=False)
        assert (f"::warning file={file}," in "".join(capsys.readouterr())) is is_github
    assert summary.exists() is is_github
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    annotate_github(made_gate(), "job.yaml", has_passed=False)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--against main --update-baseline", "--update-baseline writes a file, and --against has"),
        (
            "--against main --history h",
            "--history and --fail-on-improvement need a stored baseline",
        ),
        ("--against main --fail-on-improvement", "--fail-on-improvement need a stored baseline"),
        (
            "--rehearse",
            "--rehearse needs --against: a rehearsal has no baseline but its other side",
        ),
        ("--rehearse --against main --record h", "--record keeps measurements of the cloud"),
        ("--behaviour a=1", "--behaviour requires --rehearse"),
        ("--rehearse-with process", "--rehearse-with requires --rehearse"),
        ("--looks 0", "'--looks': 0 is not in the range 1<=x<=1000"),
        ("--confirm 1001", "'--confirm': 1001 is not in the range 0<=x<=1000"),
    ],
)
def test_options_that_a_gate_refuses(rsctl: Cli, words: str, why: str) -> None:
    done = rsctl("gate", "job.yaml", *words.split())
    assert (done.code, done.out) == (2, "")
    assert why in " ".join(done.err.split())
