"""`bench run --rehearse`: every cell in an emulator of its own, and no measurement."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rsctl.api import Rehearsal
from rsctl.api.gate_candidate import open_candidate
from rsctl.api.gate_packing import pair_and_pack
from rsctl.bench.baseline import make_baseline
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.gate import evaluate
from rsctl.bench.records import Benches
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import Floor
from rsctl.findings import RsctlError
from rsctl.runs.home import is_rehearsed
from rsctl.runs.ids import packed_job
from rsctl.runs.store import Store
from tests.bench.test_git_files import git
from tests.kit import command_forks
from tests.kit.commands import Done
from tests.targets.conftest import rehearsed

JOB = """
name: reh
target: vertex
image: {base: "base:1", source: src}
run: {script: train.py, launcher: once, args: {n: 1}}
metrics: {speed: {regex: 'speed=(\\d+)', goal: max}}
matrix: {run.args.n: [1, 2]}
gate: {max_regression: {speed: 5%}}
"""
SCRIPT = "import sys\nprint('speed=%d' % (100 + int(sys.argv[-1])))\n"
REHEARSE = ("bench", "run", "job.yaml", *rehearsed("vertex")[2:])


Rsctl = Callable[..., Done]


@pytest.fixture
def rsctl(tmp_path: Path, command_server: Path) -> Rsctl:
    """Calls rsctl."""
    environ = {**os.environ, "CI": ""}
    return partial(command_forks.run, command_server, cwd=tmp_path, env=environ)


@pytest.mark.timeout(300)
def test_every_cell_is_rehearsed_and_no_gate_takes_it(tmp_path: Path, rsctl: Rsctl) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB)
    done = rsctl(*REHEARSE)
    assert done.code == 0, done.err
    assert "= 2 runs on vertex, a rehearsal on this machine" in done.err
    [bench] = Benches(Store()).benches()
    assert bench.rehearsed
    assert bench.is_complete
    assert bench.command() == f"rsctl {' '.join(REHEARSE)}".replace("job", f"{tmp_path}/job")
    assert all(is_rehearsed(trial.run) for trial in bench.trials)
    again = rsctl(*REHEARSE)
    assert "every run of this bench is complete" in again.err
    assert "a rehearsal on this machine" in rsctl("bench", "status", "@last").out
    refused = f"error: {bench.bench} is a rehearsal: its times are measured on this machine\n"
    for option in (("-b", "@last"), ("-b", "b.json", "--update-baseline")):
        gate = rsctl("gate", "@last", *option)
        assert gate.code == 2
        assert gate.err.startswith(refused)


def test_an_option_of_a_rehearsal_needs_one(tmp_path: Path, rsctl: Rsctl) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    done = rsctl("bench", "run", "job.yaml", "--behaviour", "stockouts=1")
    assert done.code == 2
    assert "--behaviour requires --rehearse" in done.err


def results(**fixed: str) -> Results:
    return Results(
        label="bench-1",
        kind="bench",
        fingerprint=Fingerprint([CellPrint({}, {"target": "vertex", **fixed})]),
        series=[Series(name="speed", goal="max", values=[1.0, 1.0, 1.0, 1.1, 0.9])],
        cells=[CellRuns()],
    )


def test_a_rehearsal_is_another_measurement_than_a_run_in_the_cloud() -> None:
    rehearsed, real = results(rehearsed="on this machine"), results()
    for sides in ((rehearsed, real), (real, rehearsed)):
        gate = evaluate(*sides, {"speed": Floor(0.5)})
        assert gate.verdict.value == "no-data"
        assert [difference.name for difference in gate.refused] == ["rehearsed"]
    with pytest.raises(RsctlError, match="bench-1 is a rehearsal"):
        make_baseline(rehearsed)


SIDES = """
name: sides
image: {base: "base:1", source: src}
run: {script: train.py, launcher: once}
metrics: {speed: {goal: max}}
limits: {timeout: 1m}
gate: {max_regression: {speed: 5%}, repeat: 3}
"""
SPEED = 'import json\nprint(json.dumps({"rsctl": "metrics", "step": 1, "speed": 100}))\n'


def repository(folder: Path, text: str = SIDES) -> Path:
    """A clone whose working tree is slower than its commit."""
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(SPEED)
    (folder / "job.yaml").write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "src" / "train.py").write_text(SPEED.replace("100", "90"))
    return folder / "job.yaml"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_both_source_trees_of_a_gate_are_rehearsed_in_one_job(
    tmp_path: Path, rsctl: Rsctl, target: str
) -> None:
    repository(tmp_path)
    options = ("job.yaml", "--against", "main", *rehearsed(target))
    done = rsctl("gate", *options, "-o", "json")
    gate = done.json
    assert (done.code, gate["verdict"], gate["rehearsed"]) == (7, "regressed", True), gate
    assert "packed: 6 runs in 1 job, which saves 5 starts of machines; their time" in done.err
    assert "USD" not in done.err
    [check] = gate["checks"]
    assert (check["baseline"], check["value"], check["pairs"]) == (100, 90, 3)
    [bench] = Benches(Store()).benches()
    assert len({packed_job(trial.run) for trial in bench.trials}) == 1
    assert all(is_rehearsed(trial.run) for trial in bench.trials)
    if target == "vertex":
        again = rsctl("gate", *options)
        assert again.code == 7
        assert again.out.endswith("a rehearsal on this machine, which does not measure the cloud\n")
        assert len(Benches(Store()).benches()) == 1
        confirm = rsctl("gate", "@last", "--confirm", "3")
        assert confirm.code == 2
        assert "only `rsctl gate JOB --against main --rehearse` continues" in confirm.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rehearse",), "--rehearse needs --against"),
        (("--rehearse", "--against", "main", "--record", "h.jsonl"), "--rehearse makes none"),
        (("--against", "main", "--behaviour", "stockouts=1"), "--behaviour requires --rehearse"),
        (("--rehearse", "--against", "main", "-t", "process"), "rehears"),
    ],
)
def test_a_gate_that_cannot_be_rehearsed(
    tmp_path: Path, rsctl: Rsctl, words: tuple[str, ...], message: str
) -> None:
    repository(tmp_path)
    done = rsctl("gate", "job.yaml", *words)
    assert (done.code, message in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("target", "change", "setting", "is_packed", "note"),
    [
        ("vertex", ("", ""), (), True, None),
        ("sagemaker", ("", ""), (), True, None),
        ("vertex", ("", ""), ("bench.pack=false",), False, None),
        ("vertex", ("name: sides", "name: sides\nbench: {pack: false}"), (), False, None),
        (
            "vertex",
            ("script: train.py, launcher: once", "command: [date], launcher: none"),
            (),
            False,
            "rsctl-launch",
        ),
        ("sagemaker", ("timeout: 1m", "timeout: 20d"), (), False, "at most 28 days"),
    ],
)
def test_a_gate_in_a_cloud_packs_both_sides_unless_the_job_has_another_choice(
    tmp_path: Path,
    rsctl_home: Path,
    target: str,
    change: tuple[str, str],
    setting: tuple[str, ...],
    is_packed: bool,
    note: str | None,
) -> None:
    file = repository(tmp_path, SIDES.replace(*change) if change[0] else SIDES)
    candidate = open_candidate(file, target, set=setting, rehearse=Rehearsal("process"))
    assert candidate.prepared is not None
    prepared, plan = pair_and_pack(candidate.prepared, "main", target, 3)
    assert plan.is_packed is is_packed
    notes = [f.message for f in prepared.findings if f.message.startswith("not packed into one")]
    assert bool(notes) == (note is not None)
    assert note is None or note in notes[0]
