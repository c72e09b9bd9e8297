"""`rsctl drill`: what its options ask for, and what a drill that has run looks like."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api.drill import Drill
from rsctl.api.drill_checkpoint import CheckpointFiles
from rsctl.api.drill_curve import Curve
from rsctl.api.drill_verdict import FaultResult
from rsctl.cli import drill
from rsctl.findings import note

from .conftest import Cli
from .test_runs import Make

JOB = "name: job\nrun: {script: train.py, launcher: once}\nimage: {source: src}\n"
RESULTS = [
    FaultResult(
        fault="preemption",
        verdict="survived",
        runs=["job-bbbbbb", "job-cccccc"],
        struck_at=9,
        course="resumed",
        checkpoint=CheckpointFiles(files=2, bytes=80, checked=2, newest=0.0),
        resumed_at=8,
        repeated=2,
        curve=Curve(steps=3, difference=0.0, noise=0.1, step=9),
        exit_code=1,
        seconds=3.5,
        seconds_lost=4.25,
        dollars_lost=0.0421,
    ),
    FaultResult(fault="full-disk", verdict="not-possible", reasons=["nodes share\ndisks"]),
]
TABLE = """\
FAULT       VERDICT       COURSE   CHECKPOINT  STRUCK  RESUMED  REPEATED  CURVE  EXIT   LOST     COST  WHY
preemption  survived      resumed  whole            9        8         2  same      1  4.2 s  $0.0421
full-disk   not possible                                                                               nodes share disks
job on process: survived 1 of 1 faults at step 9, compared with loss of job-aaaaaa
"""  # noqa: E501
STARTED = "without a fault: job-aaaaaa\npreemption: job-bbbbbb\n  resumed: job-cccccc\n"


class FakeDrill:
    """A drill of two faults, of which the runs are recorded, or which is interrupted."""

    def __init__(self, exit_code: int = 0, ends_after: int = 3) -> None:
        self.exit_code, self.ends_after = exit_code, ends_after
        self.job = SimpleNamespace(name="job")
        self.findings = [note("image", "no image")]
        self.faults = [SimpleNamespace(name=result.fault) for result in RESULTS]
        self.asked: dict[str, Any] = {}
        self.seen: list[str] = []

    def prepare(self, _file: object, target: str | None, **asked: Any) -> FakeDrill:
        self.asked = {"target": target, **asked}
        return self

    def run(self, on_start: Any, on_result: Any) -> Drill:
        names = ["job-aaaaaa", "job-bbbbbb", "job-cccccc"]
        for name, run in zip(["reference", "preemption", "resumed"], names, strict=True):
            if names.index(run) == self.ends_after:
                raise KeyboardInterrupt
            on_start(name, run)
        for result in RESULTS:
            if Path("drill.xml").exists():
                self.seen.append(Path("drill.xml").read_text())
            on_result(result)
        return Drill(
            job="job", target="process", rehearsed=False, reference="job-aaaaaa", metric="loss",
            steps=20, struck_at=9, seconds=20.0, faults=RESULTS, exit_code=self.exit_code,
        )  # fmt: skip


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, rsctl: Cli) -> FakeDrill:
    rsctl.write(JOB)
    made = FakeDrill()
    monkeypatch.setattr(drill, "prepare_drill", made.prepare)
    return made


def test_a_drill_is_told_while_it_runs_and_then_a_table(rsctl: Cli, fake: FakeDrill) -> None:
    fake.exit_code = 1
    done = rsctl("drill", "job.yaml")
    assert (done.code, done.out) == (1, TABLE)
    assert done.err == (f"note: no image\n{STARTED}  survived\n  not possible: nodes share disks\n")
    assert fake.asked == {
        "target": None, "faults": [], "rehearse": None, "metric": None, "step": None,
        "patience": None,
    }  # fmt: skip


def test_the_options_of_a_drill(rsctl: Cli, fake: FakeDrill) -> None:
    options = ["--faults", "preemption,full-disk,", "--faults", "notice-30s", "--at-step", "7"]
    options += ["-m", "accuracy", "--patience", "90s", "-t", "vertex", "--rehearse"]
    done = rsctl("drill", "job.yaml", *options, "--behaviour", "pace=2", "-o", "json", "-q")
    assert (done.code, done.err) == (0, "")
    rehearsal = fake.asked.pop("rehearse")
    assert (rehearsal.runner, rehearsal.behaviour) == ("auto", {"pace": 2})
    assert fake.asked == {
        "target": "vertex",
        "faults": ["preemption", "full-disk", "notice-30s"],
        "metric": "accuracy",
        "step": 7,
        "patience": 90.0,
    }
    assert [fault["fault"] for fault in done.json["faults"]] == ["preemption", "full-disk"]
    assert (done.json["struck_at"], done.json["exit_code"]) == (9, 0)


def test_the_reports_of_a_drill(rsctl: Cli, fake: FakeDrill, make_run: Make) -> None:
    """The JUnit file has an error for each fault without a result until that is known."""
    for index, name in enumerate("abc"):
        make_run(f"job-{name * 6}", second=index).succeed(10)
    reports = [
        "--report",
        "junit=drill.xml",
        "--report",
        "html=one.html",
        "--report",
        "html=two.html",
    ]
    assert rsctl("drill", "job.yaml", *reports).code == 0
    kinds = [
        [[kind.tag for kind in case] for case in ElementTree.fromstring(text).iter("testcase")]
        for text in [*fake.seen, Path("drill.xml").read_text()]
    ]
    assert kinds == [[["error"], ["error"]], [[], ["error"]], [[], ["skipped"]]]
    assert "nodes share" in Path("drill.xml").read_text()
    page, other = (
        re.sub(r"Created [\d-]+ [\d:]+", "", Path(name).read_text())
        for name in ("one.html", "two.html")
    )
    assert page == other
    assert "survived 1 of 1 faults at step 9" in page
    assert all(f">job-{name * 6}<" in page for name in "abc")


def test_files_that_cannot_be_written_hide_no_verdict(
    rsctl: Cli, fake: FakeDrill, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_folder(*callbacks: Any) -> Drill:
        Path("out/drill.xml").unlink()
        Path("out").rmdir()
        Path("out").touch()
        return FakeDrill(exit_code=1).run(*callbacks)

    monkeypatch.setattr(fake, "run", lose_folder)
    reports = "--report junit=out/drill.xml --report html=/dev/full"
    done = rsctl("drill", "job.yaml", *reports.split())
    assert (done.code, done.out) == (1, TABLE)
    assert done.err.count("error: cannot write out/drill.xml: ") == 1
    assert "error: cannot write /dev/full: No space left on device" in done.err


@pytest.mark.parametrize(("after", "what"), [(0, "nothing"), (2, "job-bbbbbb")])
def test_an_interrupted_drill(rsctl: Cli, fake: FakeDrill, after: int, what: str) -> None:
    fake.ends_after = after
    done = rsctl("drill", "job.yaml", "--report", "junit=drill.xml")
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == f"interrupted: {what} is cancelled"
    assert Path("drill.xml").read_text().count("<error") == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--report", "html"], "'html' is not html=FILE or junit=FILE"),
        (["--report", "junit="], "'junit=' is not html=FILE or junit=FILE"),
        (["--report", "xml=x"], "'xml=x' is not html=FILE or junit=FILE"),
        (["--at-step", "0"], "0 is not in the range x>=1"),
        (["--patience", "soon"], "'soon' is not a duration"),
        (["--behaviour", "pace=2"], "--rehearse"),
    ],
)
def test_wrong_options(rsctl: Cli, fake: FakeDrill, words: list[str], why: str) -> None:
    done = rsctl("drill", "job.yaml", *words)
    assert (done.code, done.out, fake.asked) == (2, "", {})
    assert why in " ".join(done.err.replace("│", " ").split())
