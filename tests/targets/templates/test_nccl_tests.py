"""The template that runs NVIDIA's nccl-tests: its readers, and a whole job with a stand-in."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from rsctl.data import templates_folder

from ..conftest import Rsctl
from .test_all import OPTIONS

REAL = Path(__file__).parents[2] / "fixtures" / "real" / "nccl-tests.txt"
STAND_IN = """\
#!{python}
import json, os, sys
if sys.argv[1:] == ["-h"]:
    print("USAGE: all_reduce_perf [-J,--output_file <file>]" if {can_report} else "USAGE:")
    sys.exit(0)
print(open("table.txt").read())
if {can_report}:
    json.dump({report}, open(sys.argv[sys.argv.index("-J") + 1], "w"))
"""
# The keys that writeBenchmarkLinePreamble, writeBenchmarkLineBody and writeResultFooter write:
# https://github.com/NVIDIA/nccl-tests, src/util.cu at 0fdb00a3f4339efc1176771a9c97db5438bd3f7f.
REPORT: dict[str, Any] = {
    "version": 2,
    "args": ["all_reduce_perf"],
    "env": ["TOKEN=hush"],
    "nccl_version": 22703,
    "results": [
        {
            **{"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1"},
            "out_of_place": {"time": 27.756, "alg_bw": 37.778, "bus_bw": 66.112, "nwrong": 0.0},
            "in_place": {"time": 27.491, "alg_bw": 38.142, "bus_bw": 66.749, "nwrong": 0.0},
            **{"actual_iterations": 20, "experiment_name": "AllReduce"},
        }
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 66.43, "okay": "unchecked"},
    "errors": [],
}


@pytest.fixture(scope="module")
def reader() -> Any:
    path = templates_folder() / "nccl-tests" / "nccl_tests.py"
    spec = spec_from_file_location("nccl_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published(source: str) -> list[str]:
    """The lines of one source of the fixture."""
    blocks = REAL.read_text().split("=== ")
    return next(block for block in blocks if source in block).splitlines()[1:]


@pytest.mark.parametrize(
    ("source", "results"),
    [
        (
            "Mooncake/pull/3484",
            [
                (32768, 18.66, 1.76, 3.07),
                (1048576, 27.76, 37.78, 66.11),
                (33554432, 195.4, 171.72, 300.51),
            ],
        ),
        (
            "rccl/pull/2078",
            [(8589934592, 44734, 192.02, 360.04), (17179869184, 89235, 192.52, 360.98)],
        ),
        ("aws-k8s-tester/pull/503", [(8, 12.9, 0, 0), (32, 22.25, 0, 0)]),
        ("nccl-tests/issues/82", [(8, 45.82, 0, 0)]),
    ],
)
def test_published_tables_are_read(reader: Any, source: str, results: list[Any]) -> None:
    assert reader.read_table(published(source)) == (results, 0)


def test_wrong_values_are_counted(reader: Any) -> None:
    assert reader.read_table(["# Out of bounds values : 7 FAILED"]) == ([], 7)
    report = {"results": [{"out_of_place": None}], "out_of_bounds": {"count": 7, "okay": "false"}}
    assert reader.read_report(report) == ([], 7)


def test_metrics_are_named_by_size(reader: Any) -> None:
    results = [reader.Result(size, 1.0, 2.0, 3.0) for size in (1000, 1024, 96 << 20, 1 << 30)]
    names = [name for name, _ in reader.metrics(results) if name.startswith("busbw")]
    assert names == ["busbw.1000B", "busbw.1KiB", "busbw.96MiB", "busbw.1GiB", "busbw.avg"]


@pytest.mark.parametrize("can_report", [True, False])
def test_a_job_reports_the_results_as_metrics(rsctl: Rsctl, can_report: bool) -> None:
    assert rsctl("init", "nccl-tests", "mine").exit_code == 0
    folder = rsctl.folder / "mine"
    (folder / "table.txt").write_text("\n".join(published("Mooncake/pull/3484")))
    program = folder / "all_reduce_perf"
    text = STAND_IN.format(python=sys.executable, can_report=can_report, report=REPORT)
    program.write_text(text)
    program.chmod(0o755)
    settings = (
        "--set",
        "run.args=[./all_reduce_perf, -b, 1M]",
        "--set",
        "workers.accelerator=null",
    )
    done = rsctl("submit", "mine/job.yaml", "-t", "process", "-o", "json", *settings)
    assert done.exit_code == 0, done.stderr
    metrics = {name: statistics["last"] for name, statistics in done.result["metrics"].items()}
    assert metrics["busbw.1MiB"] == (66.112 if can_report else 66.11)
    assert ("busbw.32MiB" in metrics) is not can_report
    assert "hush" not in json.dumps(done.events)


@pytest.mark.parametrize("target", ["compose", "vertex", "sagemaker"])
def test_on_several_nodes_it_is_planned_for_mpi(rsctl: Rsctl, target: str) -> None:
    assert rsctl("init", "nccl-tests", "mine").exit_code == 0
    settings = ("--set", "run.launcher=mpi", "--set", "workers.count=2")
    settings += ("--set", "run.args=[all_reduce_perf_mpi, -b, 1K]", "--set", "workers.processes=8")
    done = rsctl("plan", "mine/job.yaml", "-t", target, *OPTIONS[target], *settings, "-o", "json")
    plan = json.loads(done.stdout)
    assert plan["world_size"] == 16
    words = ["--launcher", "mpi", "--processes", "8", "--python", "--", "nccl_tests.py"]
    assert json.dumps([*words, "all_reduce_perf_mpi"])[1:-1] in json.dumps(plan["request"])
    assert "RSCTL_TOKEN" in json.dumps(plan["request"])
    assert [f for f in plan["findings"] if f["severity"] == "error"] == []


def test_processes_of_one_machine_are_refused_as_nodes(rsctl: Rsctl) -> None:
    job = rsctl.write_job(run={"command": ["a"], "launcher": "mpi"}, workers={"count": 2})
    done = rsctl("plan", job, "-t", "process")
    assert done.exit_code == 2
    assert "mpirun treats the nodes of target process as one" in done.stderr
    assert "set workers.count: 1 and workers.processes, or use target compose" in done.stderr


def test_a_machine_without_mpirun_is_told_before_the_start(rsctl: Rsctl) -> None:
    job = rsctl.write_job(run={"command": ["a"], "launcher": "mpi"})
    done = rsctl("submit", job, "-t", "process", PATH="/nowhere")
    assert done.exit_code != 0
    assert "launcher mpi needs Open MPI's mpirun, which this machine does not have" in done.stderr


def test_only_the_first_rank_reports(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    words = reader.command(sys.executable, ["-b", "1K"], Path("report"))
    assert words == [sys.executable, "-b", "1K", "-g", "1"]
