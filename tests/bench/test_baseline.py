"""Baselines: written, reviewed, read again, and what is broken about them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from rsctl.bench.baseline import encode_baseline, make_baseline, read_baseline, write_baseline
from rsctl.bench.baseline_files import is_location
from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.findings import ExitCode, RsctlError

CELL = {"workers.count": 2}


def measured() -> Results:
    """A bench of one cell."""
    return Results(
        label="job-bench-1",
        kind="bench",
        fingerprint=Fingerprint(
            [CellPrint(CELL, {"target": "process"})],
            {"throughput": {"aggregate": "median"}},
            {"torch": "2.8.0"},
        ),
        series=[
            Series(
                name="throughput", unit="x/s", goal="max", cell=CELL, values=[1.0, 2.0], logged=7
            ),
            Series(name="run.queue", unit="s", goal="min", cell=CELL, values=[1.0, 2.0]),
            Series(name="run.time", unit="s", goal="min", cell=CELL, values=[9.0, 8.0]),
        ],
        cells=[CellRuns(cell=CELL, runs=["job-1", "job-2"], wanted=2)],
        made="2026-01-01T00:00:00.000000Z",
    )


def test_what_stands_in_it() -> None:
    assert json.loads(encode_baseline(make_baseline(measured(), ["throughput"]))) == {
        "version": 1,
        "fingerprint": {
            "cells": [{"cell": CELL, "fixed": {"target": "process"}}],
            "metrics": {"throughput": {"aggregate": "median"}},
            "shown": {"torch": "2.8.0"},
        },
        "made": {"of": "job-bench-1", "time": "2026-01-01T00:00:00.000000Z"},
        "metrics": [
            {
                "name": "throughput",
                "unit": "x/s",
                "goal": "max",
                "cell": CELL,
                "values": [1, 2],
                "logged": 7,
            },
            {"name": "run.time", "unit": "s", "goal": "min", "cell": CELL, "values": [9, 8]},
        ],
    }


def test_a_required_metric_of_the_runs_is_kept() -> None:
    """Later gates compare with it."""
    made = make_baseline(measured(), ["run.queue"])
    assert [metric.name for metric in made.metrics] == ["throughput", "run.queue", "run.time"]


def test_written_and_read(tmp_path: Path) -> None:
    place = write_baseline(make_baseline(measured()), "bench/baseline.json", str(tmp_path))
    assert place == str(tmp_path / "bench" / "baseline.json")
    again = read_baseline("bench/baseline.json", str(tmp_path))
    assert again.fingerprint == measured().fingerprint
    assert again.find("throughput", CELL) == measured().series[0]
    assert (again.kind, again.of) == ("baseline", "job-bench-1")


@pytest.mark.parametrize("name", ["throughput", "loss"])
@pytest.mark.parametrize("reason", ["job-2 failed", "job-2: 1 of 40 values are not finite"])
def test_a_baseline_of_runs_without_a_value_is_refused(name: str, reason: str) -> None:
    """A run that has ended with NaN is not missing."""
    results = measured()
    results.series[0].values = [1.0, None]
    results.series[0].reasons = [reason]
    with pytest.raises(RsctlError) as caught:
        make_baseline(results, [name])
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE
    [finding] = caught.value.findings
    assert (finding.code, finding.remedy) == (
        "baseline",
        "run the missing runs, or measure again with --new, then write the baseline",
    )


def test_a_baseline_of_nothing_is_refused() -> None:
    results = measured()
    results.series = []
    with pytest.raises(RsctlError) as caught:
        make_baseline(results)
    message = f"{results.label} has no data for any metric of workers.count=2"
    assert caught.value.findings[0].message == message


def test_a_baseline_without_one_of_its_cells_is_refused() -> None:
    results = measured()
    results.cells.append(CellRuns(cell={"workers.count": 4}, lost=["job-3 failed"]))
    with pytest.raises(RsctlError, match=r"for any metric of .*=4: job-3 failed"):
        make_baseline(results)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ("\udcff", "malformed"),
        ('{"version": 1, "metrics": [{"name": "\udcff"}]}', "can't decode byte 0xff"),
        ('{"version": 2, "metrics": []}', "its version is 2, but this rsctl reads 1"),
        ('{"version": 1}', "missing required field `metrics`"),
        ('{"version": 1, "metrics": [{"name": "a", "values": ["x"]}]}', "Expected `float | null`"),
        ('{"version": 1, "metrics": [{"name": "a", "values": [NaN]}]}', "malformed"),
        (
            '{"version": 1, "metrics": [{"name": "a", "values": []}, {"name": "a", "values": []}]}',
            "it has two entries of a for one cell",
        ),
        ('{"version": 1, "made": {"x": ' + "[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "b.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RsctlError) as caught:
        read_baseline("b.json", str(tmp_path))
    assert caught.value.exit_code is ExitCode.USAGE
    message = caught.value.findings[0].message
    assert message.startswith("b.json is not a valid baseline: ")
    assert why.lower() in message.lower()


def test_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is for the current folder, where a job file may be elsewhere."""
    (tmp_path / "baseline.json").write_text("{}")
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(RsctlError) as caught:
        read_baseline("basline.json", str(tmp_path))
    [finding] = caught.value.findings
    assert finding.message == "cannot read the baseline basline.json: No such file or directory"
    assert finding.remedy == (
        "did you mean 'baseline.json'? otherwise create one: rsctl gate BENCH --baseline "
        f"{tmp_path.name}/basline.json --update-baseline"
    )
    with pytest.raises(RsctlError, match="Is a directory") as caught:
        read_baseline(tmp_path.name)
    assert (caught.value.findings[0].remedy or "").startswith("create one: ")
    with pytest.raises(RsctlError, match="create one: rsctl gate BENCH --baseline 'no folder/b'"):
        read_baseline("no folder/b")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose main has a baseline that the working tree has changed."""
    folder = tmp_path / "repository"
    (folder / "job").mkdir(parents=True)
    place = folder / "bench" / "baseline.json"
    write_baseline(make_baseline(measured()), str(place))
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    place.write_text("{}")
    return folder


def test_a_commits_baseline_is_not_the_working_trees(repository: Path) -> None:
    found = read_baseline("git:main:bench/baseline.json", str(repository / "job"))
    assert found.find("throughput", CELL) == measured().series[0]


def test_an_updated_one_is_written_to_the_working_tree(repository: Path) -> None:
    place = "git:main:bench/baseline.json"
    written = write_baseline(make_baseline(measured()), place, str(repository / "job"))
    assert os.path.realpath(written) == os.path.realpath(repository / "bench" / "baseline.json")
    assert read_baseline("bench/baseline.json", str(repository)).series


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("git:nobranch:bench/baseline.json", "cannot read git:nobranch:bench/baseline.json: "),
        ("git:main:bench/none.json", "cannot read git:main:bench/none.json: "),
        ("git:--output=x:bench/baseline.json", "is not in the form git:REF:PATH"),
        ("git:main:../outside.json", "is not in the form git:REF:PATH"),
        ("git:main", "is not in the form git:REF:PATH"),
        ("git::x", "is not in the form git:REF:PATH"),
    ],
)
def test_what_git_does_not_have(repository: Path, place: str, message: str) -> None:
    with pytest.raises(RsctlError) as caught:
        read_baseline(place, str(repository))
    assert message in caught.value.findings[0].message
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("reference", "is_one"),
    [
        ("gs://b/x", True),
        ("s3://b/x", True),
        ("git:main:x", True),
        ("bench/baseline.json", True),
        ("x.json", True),
        ("@last", False),
        ("job-bench-7f3k2a", False),
        ("vertex://p/us-central1/7", False),
        ("slurm://cluster/7", False),
    ],
)
def test_locations(reference: str, is_one: bool) -> None:
    assert is_location(reference) is is_one
