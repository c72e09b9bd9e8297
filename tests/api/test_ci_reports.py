"""The files of a bench that CI systems read."""

from __future__ import annotations

import json
from pathlib import Path

from rsctl.api import ci_reports
from rsctl.api.ci_reports import CiReport, announce_reports, write_reports
from rsctl.bench.results import CellRuns, Results, Series


def results() -> Results:
    series = [
        Series(name="speed", goal="max", values=[1.0, 2.0]),
        Series(name="loss", goal="min", values=[0.5, 0.4]),
        Series(name="run.time", goal="min", values=[1.0, 1.0]),
    ]
    return Results(label="b-1", kind="bench", series=series, cells=[CellRuns(runs=["a", "b"])])


def test_no_values_of_an_earlier_bench_remain(tmp_path: Path) -> None:
    """A CI system would take them for those of a bench that fails before it has reports."""
    kinds = [kind for kind in ci_reports.CI_REPORTS if kind != "junit"]
    folder = tmp_path / "reports"
    folder.mkdir()
    reports = [CiReport(kind, str(folder / kind)) for kind in kinds]
    write_reports(reports, "job", results())
    (folder / "github-benchmark").write_text("another file")
    announce_reports(reports, "job", [{}], ["speed"])
    assert [path.name for path in folder.iterdir()] == ["github-benchmark"]


def test_each_report_for_ci_has_its_file(tmp_path: Path) -> None:
    reports = [CiReport(kind, str(tmp_path / kind)) for kind in ci_reports.CI_REPORTS]
    announce_reports(reports, "job", [{}], ["speed"])
    assert [path.name for path in tmp_path.iterdir()] == ["junit"]
    announced = (tmp_path / "junit").read_text()
    write_reports(reports, "job", results())
    assert (tmp_path / "junit").read_text() != announced
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "bencher",
        "github-benchmark.bigger.json",
        "github-benchmark.smaller.json",
        "html",
        "junit",
        "markdown",
        "metrics",
    ]
    bigger = json.loads((tmp_path / "github-benchmark.bigger.json").read_text())
    assert [entry["name"].split()[0] for entry in bigger] == ["speed"]
    assert "run.time" not in (tmp_path / "metrics").read_text()
