"""The benchmarks measure what they say; how long anything takes is not looked at."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks import __main__ as program
from benchmarks import intake, stream
from benchmarks.made_run import check, make_run
from benchmarks.measure import Command, Failed, measure, rsctl
from benchmarks.quick import QUICK
from benchmarks.report import Report

ROOT = Path(__file__).parents[2]


def test_benchmarks_import_names_that_exist() -> None:
    """No test runs most benchmarks."""
    for file in ROOT.glob("benchmarks/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rsctl."):
                exec(ast.unparse(node), {})


def test_a_row_is_median_min_and_max() -> None:
    report = Report("sleep", "of cats")
    report.add("at night", "h", [3.0, 1.0, 2.5], "8")
    report.add("at noon", "s", [12345.6])
    report.notes.append("purring")
    assert report.text() == (
        "sleep: of cats\n"
        "          unit  median     min     max  budget\n"
        "at night  h       2.50    1.00    3.00       8\n"
        "at noon   s     12,346  12,346  12,346\n"
        "purring\n"
    )


def test_a_command_is_charged_for_its_own_memory_and_for_what_it_leaves_running() -> None:
    ballast = bytearray(b"x") * 100_000_000
    loop = "import time\nwhile time.process_time() < 0.3: pass"
    background = Command(["bash", "-c", f"exec {sys.executable} -c '{loop}' &"])
    usage = measure(background)
    assert usage.left_cpu >= 0.3 > usage.cpu
    assert usage.peak < 50_000_000 < len(ballast)


def test_a_command_that_fails_has_no_measurement() -> None:
    with pytest.raises(Failed, match=r"false exited with 1"):
        measure(Command(["false"]))


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_lost_a_repeated_and_a_strange_line_are_noticed(tmp_path: Path, output: str) -> None:
    make_run("made", 3, 300)
    shown, is_json = tmp_path / "shown", output == "json"
    measure(rsctl("logs", "made", "-o", output), shown)
    check(shown, is_json, 300)
    lines = shown.read_bytes().splitlines(keepends=True)
    for wrong in (lines[:-1], lines[1:], lines[:5] + lines[4:], lines[::-1]):
        shown.write_bytes(b"".join(wrong))
        with pytest.raises(Failed):
            check(shown, is_json, 300)


def test_stream_and_intake(rsctl_home: Path) -> None:
    rsctl_home.mkdir()
    report = stream.run(1, lines=1000)
    assert {row.unit for row in report.rows} == {"lines/s", "wall s", "CPU s", "peak MB"}
    assert len(report.rows) == 2 * 3 * 4
    assert len(intake.run(1, size=100_000).rows) == 2 * 3


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "benchmarks", *arguments]
    environ = {**os.environ, **environment}
    return subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True)


def test_the_command_line() -> None:
    done = call("submit", "--runs", "1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    [found] = msgspec.json.decode(done.stdout)["benchmarks"]
    report = msgspec.convert(found, Report)
    assert (report.name, {row.unit for row in report.rows}) == ("submit", {"wall s", "CPU s"})
    wrong = call("sumbit")
    assert wrong.returncode == 2
    assert "no benchmark 'sumbit'" in wrong.stderr


def test_every_benchmark_has_a_quick_form() -> None:
    programs = {path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")}
    assert QUICK.keys() == {*program._NAMES, *program._MORE, *programs, "gate"}


def test_what_cannot_run_here_is_skipped_with_the_reason(tmp_path: Path) -> None:
    done = call("--quick", "image", "-o", "json", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "image: skipped, because it needs Docker\n")
    assert msgspec.json.decode(done.stdout)["benchmarks"] == []
