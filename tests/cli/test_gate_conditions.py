"""`rsctl gate JOB` with a baseline of another measurement: the plan shows it, nothing runs."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from .conftest import Cli
from .test_gate_against import Repository

__all__ = ["repository"]


@pytest.fixture
def repository(rsctl: Cli, runs_end_with_the_test: None) -> Repository:
    """A job with arguments and one run of each cell, and its baseline on the main branch."""
    made = Repository(rsctl)
    made.one_pair()
    made.change("launcher: once", "launcher: once, args: {lr: 0.05, epochs: 3}", made.job)
    return made


def with_baseline(repository: Repository, location: str) -> Repository:
    done = repository.rsctl(
        *("gate", "bench/job.yaml", "--baseline", location, "--update-baseline", "--repeat", "1")
    )
    assert done.code == 0, done.err
    repository.commit("baseline")
    return repository


def command_of(done: Any) -> list[str]:
    """The command that the remedy names, as a person types it."""
    found = re.search(r"-> make a baseline of this job: (rsctl .*?)(, and .*)?$", done.err, re.M)
    assert found, done.err
    return shlex.split(found[1])[1:]


@pytest.mark.parametrize("location", ["baseline.json", "git:main:baseline.json"])
def test_other_arguments_are_refused_before_the_first_run(
    repository: Repository, location: str
) -> None:
    with_baseline(repository, location)
    before = len(repository.runs)
    gate = ("gate", "bench/job.yaml", "--baseline", location, "--set", "run.args.lr=0.3")
    done = repository.rsctl(*gate, "--allow-inconclusive")
    assert done.code == 2
    assert (
        f"error: the conditions of {location} differ, so nothing is run: "
        "run.args.lr: 0.05 -> 0.3\n" in done.err
    )
    assert len(repository.runs) == before
    command = command_of(done)
    assert repository.rsctl(*command).code == 0, command
    repository.commit("another baseline")
    assert repository.rsctl(*gate).code in (0, 8)  # one run is too few


def test_other_cells_are_refused_before_the_first_run(repository: Repository) -> None:
    repository.job.write_text(repository.job.read_text() + "matrix: {run.args.lr: [0.1, 0.2]}\n")
    with_baseline(repository, "baseline.json")
    before = len(repository.runs)
    repository.change("[0.1, 0.2]", "[0.2, 0.4]", repository.job)
    gate = ("gate", "bench/job.yaml", "--baseline", "baseline.json")
    done = repository.rsctl(*gate)
    assert done.code == 2
    assert "the baseline has no cell run.args.lr=0.4; the job has no cell run.args.lr=0.1" in (
        done.err
    )
    assert len(repository.runs) == before
    assert repository.rsctl(*command_of(done)).code == 0


def test_another_machine_is_refused_before_the_first_run(repository: Repository) -> None:
    """As where a pipeline's runner gates by the baseline of a developer's machine."""
    with_baseline(repository, "baseline.json")
    file = repository.path / "baseline.json"
    made = json.loads(file.read_text())
    [fixed] = [cell["fixed"] for cell in made["fingerprint"]["cells"]]
    here, fixed["machine"] = fixed["machine"], "EPYC, 96 cores, 2.0 GHz"
    file.write_text(json.dumps(made))
    before = len(repository.runs)
    gate = ("gate", "bench/job.yaml", "--baseline", "baseline.json", "--repeat", "1")
    done = repository.rsctl(*gate)
    assert (done.code, len(repository.runs)) == (2, before)
    assert f"so nothing is run: machine: EPYC, 96 cores, 2.0 GHz -> {here}\n" in done.err
    assert repository.rsctl(*command_of(done)).code == 0
    assert repository.rsctl(*gate).code == 8  # one run is too few


def test_a_metric_without_data_in_the_baseline_is_refused_before_the_first_run(
    repository: Repository,
) -> None:
    """As for a metric that is gated from now on; a curve needs the steps of the baseline."""
    with_baseline(repository, "baseline.json")
    before = len(repository.runs)
    gate = ("gate", "bench/job.yaml", "--baseline", "baseline.json", "--repeat", "1")
    more = ("--max-regression", "run.first_step=5%", "--max-regression", "curve.throughput=5%")
    done = repository.rsctl(*gate, *more)
    assert (done.code, len(repository.runs)) == (2, before)
    assert (
        "error: the conditions of baseline.json differ, so nothing is run: the baseline has no "
        "data for run.first_step; the baseline has no data for curve.throughput\n" in done.err
    )
    assert repository.rsctl(*gate, *more, "--allow-inconclusive").code == 0
    assert len(repository.runs) > before
    assert repository.rsctl(*command_of(done)).code == 0
    assert repository.rsctl(*gate, *more).code == 8  # one run is too few


def test_a_bench_as_the_baseline(repository: Repository) -> None:
    assert repository.rsctl("bench", "run", "bench/job.yaml").code == 0
    bench = repository.rsctl("bench", "list", "-o", "json").json["benches"][0]["bench"]
    done = repository.rsctl(
        "gate", "bench/job.yaml", "--baseline", bench, "--set", "workers.count=2"
    )
    assert done.code == 2
    assert "workers: 1 -> 2; world size: 1 -> 2" in done.err
    assert done.err.rstrip().endswith(", and give the ID of the bench as --baseline")
    assert command_of(done)[:2] == ["bench", "run"]


def test_a_history_of_other_conditions(repository: Repository) -> None:
    repository.commit("arguments")
    done = repository.rsctl("gate", "bench/job.yaml", "--record", "../my h.jsonl")
    assert done.code == 0
    assert "recorded only: to compare it, add --history '../my h.jsonl'\n" in done.err
    before = len(repository.runs)
    repository.change("lr: 0.05", "lr: 0.3", repository.job)
    repository.commit("faster")
    gate = ("gate", "bench/job.yaml", "--history", "../my h.jsonl")
    done = repository.rsctl(*gate)
    assert (done.code, len(repository.runs)) == (2, before)
    assert "nothing is run: run.args.lr: 0.05 -> 0.3\n" in done.err
    command = command_of(done)
    assert "--record" in command
    repository.rsctl(*command)
    assert len(repository.runs) > before
    assert repository.rsctl(*gate).code in (0, 8)
