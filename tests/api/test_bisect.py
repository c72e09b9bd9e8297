"""Bisections by recorded runs: what is measured, and what stays of it."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl import api
from rsctl.api.prune.items import PruneLimits
from rsctl.api.prune.prune import Prune
from rsctl.bench.checkouts import check_out, checkouts
from rsctl.bench.records import Benches, Trial
from rsctl.findings import ExitCode, JobState, error
from rsctl.runs.home import home
from rsctl.runs.store import Store
from tests.bench.test_git_files import git
from tests.cli.test_gate import record_run

JOB = """
name: digits
target: process
run: {script: train.py, launcher: once}
matrix: {run.args.n: [1, 2, 3]}
metrics: {throughput: {goal: max, unit: x/s}}
gate: {max_regression: {throughput: 5%}, repeat: 3}
"""
SPEEDS = [{1: 100, 2: 100, 3: 100}] * 3 + [{1: 100, 2: 80, 3: 93}] * 4


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven commits, of which the fourth makes the second cell much slower, and the third a bit."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    git(folder, "init", "-q", "-b", "main")
    (folder / "job.yaml").write_text(JOB)
    for number, speeds in enumerate(SPEEDS):
        (folder / "train.py").write_text(f"# {number}\n")
        (folder / "speeds.json").write_text(json.dumps(speeds))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"change {number}")
    return folder


class Machine:
    """Records the runs of a bench by what its commit says, and which cells it has measured."""

    def __init__(self) -> None:
        self.measured: list[tuple[str, list[int]]] = []
        self.exit_code: ExitCode | None = None

    def __call__(self, prepared: api.PreparedBench, bench: api.Bench) -> None:
        folder = Path(bench.record.file).parent
        speeds = json.loads((folder / "speeds.json").read_text())
        cells = [cell["run.args.n"] for cell in bench.record.cells]
        self.measured.append((folder.name, cells))
        store = Store()
        for cell, number in enumerate(cells):
            for repetition in range(bench.record.repeat):
                run = f"{bench.id}-{cell}-{repetition}"
                if store.get(run) is not None:  # the bench is continued
                    continue
                value = speeds.get(str(number))
                state = JobState.FAILED if value is None else JobState.SUCCEEDED
                at = value and value * (1 + repetition / 200)
                record_run(store, run, state, at, prepared.metric_specs)
                done = Trial(
                    cell=cell,
                    repetition=repetition,
                    run=run,
                    state=state,
                    exit_code=int(state.exit_code if value else self.exit_code or state.exit_code),
                )
                Benches(store).begin(bench.id, done)
        store.close()


def test_only_the_worst_cell_is_searched(repository: Path) -> None:
    machine = Machine()
    search = api.prepare_bisect("job.yaml", good="HEAD~6")
    assert search.most_runs == (2 * 3 + 3) * 3
    found = search.run(machine)
    assert found.headline.endswith("is the first bad commit: change 3")
    assert found.cell == "throughput (run.args.n=2)"
    ends = [git(repository, "rev-parse", ref) for ref in ("HEAD~6", "HEAD")]
    assert [cells for name, cells in machine.measured if name in ends] == [[1, 2, 3]] * 2
    between = [cells for name, cells in machine.measured if name not in ends]
    assert between
    assert all(cells == [2] for cells in between)


def test_a_cell_that_is_given_is_measured_alone(repository: Path) -> None:
    machine = Machine()
    search = api.prepare_bisect("job.yaml", good="HEAD~6", cells=["run.args.n=3"])
    found = search.run(machine)
    assert (found.cell, found.first_bad and found.first_bad.subject) == (
        "throughput (run.args.n=3)",
        "change 3",
    )
    assert all(cells == [3] for _, cells in machine.measured)
    for given, message in (("run.args.n=4", "no cell with run.args.n=4"), ("x", "not KEY=VALUE")):
        with pytest.raises(api.RsctlError, match=message):
            api.prepare_bisect("job.yaml", good="HEAD~6", cells=[given])


def test_allowed_regressions_of_cells_say_what_is_searched(repository: Path) -> None:
    """Those of the working tree's job file; the commits need not have them."""
    of_cell = "cells: [{cell: {run.args.n: %d}, max_regression: {throughput: 30%%}}], repeat: 5"
    job = repository / "job.yaml"
    job.write_text(JOB.replace("repeat: 3", of_cell % 2))
    found = api.prepare_bisect("job.yaml", good="HEAD~6").run(Machine())
    assert (found.cell, found.headline[11:]) == (
        "throughput (run.args.n=3)",
        "is the first bad commit: change 3",
    )
    wide = ["throughput[run.args.n=3]=9%"]
    with pytest.raises(api.RsctlError, match="is not worse than") as caught:
        api.prepare_bisect("job.yaml", good="HEAD~6", max_regression=wide).run(Machine())
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE
    job.write_text(JOB.replace("repeat: 3", of_cell % 4))
    with pytest.raises(api.RsctlError, match="no cell of the matrix has"):
        api.prepare_bisect("job.yaml", good="HEAD~6")


def test_a_cell_with_a_lower_limit_is_searched(repository: Path) -> None:
    wide = ["throughput=30%", "throughput[run.args.n=3]=2%"]
    found = api.prepare_bisect("job.yaml", good="HEAD~6", max_regression=wide, repeat=5).run(
        Machine()
    )
    assert (found.cell, found.first_bad and found.first_bad.subject) == (
        "throughput (run.args.n=3)",
        "change 3",
    )


class Curves(Machine):
    """Logs a value for each step; at two of them, which differ by commit, it is a little lower."""

    def __call__(self, prepared: api.PreparedBench, bench: api.Bench) -> None:
        super().__call__(prepared, bench)
        folder = Path(bench.record.file).parent
        low = int((folder / "train.py").read_text()[2:])
        with closing(Store()) as store:
            for trial in Benches(store).find(bench.id).trials:
                [(_, first)] = store.metrics(trial.run)
                for step in range(32):
                    value = first.value * (0.99 if step // 2 == low else 1.0)
                    time = f"2026-01-01T00:00:{step:02}.000000Z"
                    event = replace(first, time=time, step=step, value=value)
                    store.add_metrics(trial.run, [event])


def test_curves_are_searched_whichever_their_worst_part_is(repository: Path) -> None:
    curve = "curve.throughput"
    limit, cell = [f"{curve}=5%"], ["run.args.n=2"]
    search = api.prepare_bisect(
        "job.yaml", good="HEAD~6", metrics=[curve], max_regression=limit, cells=cell
    )
    found = search.run(Curves())
    assert found.headline.endswith("is the first bad commit: change 3"), found


def test_other_cells_may_fail_between_the_ends(repository: Path) -> None:
    """They are not run there, so that their failure does not hide the commit."""
    speeds = repository / "speeds.json"
    for number, text in enumerate(('{"2": 80}', '{"2": 60}', '{"1": 100, "2": 60, "3": 100}')):
        speeds.write_text(text)
        git(repository, "commit", "-qam", f"later {number}")
    found = api.prepare_bisect("job.yaml", good="HEAD~3", max_regression=["throughput=5%"]).run(
        Machine()
    )
    assert found.first_bad is not None
    assert found.first_bad.subject == "later 1"


def test_the_arguments_are_those_of_other_functions(repository: Path) -> None:
    search = api.prepare_bisect(
        Path("job.yaml"),
        "process",
        good="HEAD~6",
        set={"run.env.N": "1"},
        max_regression={"throughput": "5%"},
        cells=("run.args.n=2",),
    )
    assert (search.target, search.settings) == ("process", ['run.env.N="1"'])
    assert search.run(Machine()).cell == "throughput (run.args.n=2)"


def test_the_files_of_commits_do_not_stay(repository: Path) -> None:
    """But for those that were there before, and those of a search that has no answer."""
    kept = check_out("HEAD~6", str(repository))
    search = api.prepare_bisect("job.yaml", good="HEAD~6")
    with pytest.raises(KeyboardInterrupt):
        search.run(_interrupt)
    (repository / "speeds.json").write_text("{}")
    git(repository, "commit", "-qam", "fails")
    (repository / "speeds.json").write_text(json.dumps(SPEEDS[-1]))
    git(repository, "commit", "-qam", "repaired")
    hidden = api.prepare_bisect("job.yaml", good="HEAD~1")
    with pytest.raises(api.RsctlError, match="cannot be measured"):
        hidden.run(Machine())
    found = search.run(Machine())
    assert found.first_bad is not None
    assert kept.folder in checkouts()
    assert len(checkouts()) == 2  # that of the failed end
    assert not list(home().glob("bisect/*"))


def test_what_an_unfinished_search_leaves_is_pruned(repository: Path) -> None:
    speeds = repository / "speeds.json"
    for text in ('{"1": 50, "2": 50, "3": 50}', "{}", '{"1": 30, "2": 30, "3": 30}'):
        speeds.write_text(text)
        git(repository, "commit", "-qam", text)
    found = api.prepare_bisect("job.yaml", good="HEAD~2").run(Machine())
    assert [probe.mark for probe in found.suspects] == ["skipped", "bad"]
    [state] = home().glob("bisect/*")
    for limits, count in ((PruneLimits(3600, 0), 0), (PruneLimits(0, 0), 1)):
        for path in (*state.iterdir(), state):
            os.utime(path, (time.time() - 1800, time.time() - 1800))
        with closing(Store()) as store:
            prune = Prune(store, limits)
            prune.select(False, None)
            prune.remove(None)
        assert sum(item.kind == "bisect" for item in prune.items) == count
    assert not state.exists()


def test_a_commit_that_was_skipped_is_not_tried_again(repository: Path) -> None:
    speeds = repository / "speeds.json"
    for text in ('{"1": 50, "2": 50, "3": 50}', "{}", '{"1": 30, "2": 30, "3": 30}'):
        speeds.write_text(text)
        git(repository, "commit", "-qam", text)
    broken, bad = (git(repository, "rev-parse", ref)[:10] for ref in ("HEAD~1", "HEAD"))
    first, second, of_other_settings = Machine(), Machine(), Machine()
    found = api.prepare_bisect("job.yaml", good="HEAD~2").run(first)
    assert found.headline == (
        f"the first bad commit is one of {broken}, {bad}: not all of them could be measured"
    )
    assert (found.first_bad, found.suspects[0].reason != "") == (None, True)
    again = api.prepare_bisect("job.yaml", good="HEAD~2").run(second)
    assert (again.headline, again.suspects) == (found.headline, found.suspects)
    api.prepare_bisect("job.yaml", good="HEAD~2", set=["run.env.A=1"]).run(of_other_settings)
    tried = [
        any(name.startswith(broken) for name, _ in machine.measured)
        for machine in (first, second, of_other_settings)
    ]
    assert tried == [True, False, True]


@pytest.mark.parametrize(
    ("given", "message", "remedy"),
    [
        (
            {},
            "the good commit is unknown",
            "give --good REF, or --history WHERE, whose last step for the worse is searched",
        ),
        (
            {"good": "HEAD~6", "metrics": ["loss", "acc"]},
            "loss, acc has no allowed regression",
            "give --max-regression METRIC=5%",
        ),
        ({"good": "HEAD"}, "there are no commits between HEAD and HEAD", None),
    ],
)
def test_what_cannot_be_searched(
    repository: Path, given: dict[str, Any], message: str, remedy: str | None
) -> None:
    with pytest.raises(api.RsctlError) as refused:
        api.prepare_bisect("job.yaml", **given)
    assert refused.value.findings == (error("bisect", message, remedy),)
    assert refused.value.exit_code is ExitCode.USAGE
    with pytest.raises(api.RsctlError) as refused:
        api.prepare_bisect("none.yaml", **given)
    finding = error(
        "bisect", "cannot read none.yaml: it does not exist", "give the path of a job file"
    )
    assert refused.value.findings == (finding,)
    (repository / "job.yaml").write_text(JOB.replace("max_regression: {throughput: 5%}, ", ""))
    with pytest.raises(api.RsctlError, match="no metric has an allowed regression"):
        api.prepare_bisect("job.yaml", good="HEAD~1")


def test_an_end_that_cannot_be_measured(repository: Path) -> None:
    (repository / "speeds.json").write_text("{}")
    git(repository, "commit", "-qam", "broken")
    with pytest.raises(api.RsctlError, match="cannot be measured") as caught:
        api.prepare_bisect("job.yaml", good="HEAD~7").run(Machine())
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE


def test_a_failure_outside_of_the_job_is_no_property_of_a_commit(repository: Path) -> None:
    speeds = repository / "speeds.json"
    for text in ('{"1": 50, "2": 50, "3": 50}', "{}", '{"1": 30, "2": 30, "3": 30}'):
        speeds.write_text(text)
        git(repository, "commit", "-qam", text)
    machine = Machine()
    machine.exit_code = ExitCode.ENVIRONMENT
    with pytest.raises(api.RsctlError) as caught:
        api.prepare_bisect("job.yaml", good="HEAD~2").run(machine)
    [finding] = caught.value.findings
    assert (caught.value.exit_code, finding.code) == (ExitCode.ENVIRONMENT, "bisect")
    assert " failed for a reason outside of the job: " in finding.message
    assert finding.remedy == ("remove the reason, then run the same command again to continue")
    assert not list(home().glob("bisect/*/*"))  # the commit is not skipped


def _interrupt(prepared: api.PreparedBench, bench: api.Bench) -> None:
    del prepared, bench
    raise KeyboardInterrupt


def test_the_history_of_a_job_is_read_unless_the_good_commit_is_given(repository: Path) -> None:
    (repository / "job.yaml").write_text(JOB.replace("{max_reg", "{history: none.jsonl, max_reg"))
    assert len(api.prepare_bisect("job.yaml", good="HEAD~2").commits) == 3
    for given in ({}, {"history": "other.jsonl"}):
        name = given.get("history", "none.jsonl")
        with pytest.raises(api.RsctlError, match=f"cannot read the history .*{name}"):
            api.prepare_bisect("job.yaml", **given)
