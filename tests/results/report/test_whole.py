"""Figures and pages of reports, whole: open the files of `whole/` in a browser.

Where one differs as it should, copy the file that the failure names over it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState, error
from rsctl.results.report import palette
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    Chart,
    ChartLine,
    ChartMark,
    DotChart,
    HeatMap,
    HistoryChart,
    HistoryStep,
    IntervalChart,
    LineChart,
    Span,
    Timeline,
    TimelineRow,
)
from rsctl.results.report.drawing import file_bytes
from rsctl.results.report.page import Page
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure
from rsctl.runs.stream.metrics import MetricSpec
from tests.cli.conftest import Cli, MadeRun, at
from tests.results.report.conftest import Make
from tests.results.report.test_report import text_of

EXPECTED = Path(__file__).with_name("whole")
LONG = "a <name> " * 9

LINES = LineChart(
    "loss <x>",
    "step",
    "loss (nats)",
    [
        ChartLine("worker-0", [(0, 3.0), (10, 2.0), (20, 1.5), (30, 1.25)]),
        ChartLine("worker-1\x07", [(0, 2.5), (10, math.nan), (20, 1.75)]),
    ],
    note="A note.",
    reference=ChartLine("ideal", [(0, 3.0), (30, 0.5)]),
    others=[ChartLine("other", [(0, 1.0), (30, 2.75)])],
)
SPEED = MetricSpec("speed=(.*)", goal="max", unit="samples/s")
BARS = [Bar("first", 12.5, 11.0, 14.25), Bar(LONG, 1250.0), Bar("none", None)]
SPANS = [Span(0, 60, "queued"), Span(60, 90, "starting"), Span(90, 400, "running")]
CHARTS: dict[str, Chart] = {
    "lines": LINES,
    "one-line": LineChart("t", "x", "y", [ChartLine("a", [(n / 4, n * n / 7) for n in range(41)])]),
    "log": LineChart("t", "x", "y", [ChartLine("a", [(n, 10.0**n) for n in range(5)])]),
    "decades": LineChart("t", "x", "y", [ChartLine("a", [(n, 10.0**n) for n in range(9)])]),
    "from-zero": LineChart(
        "t", "x", "y", [ChartLine("a", [(1000, 0.5), (1500.5, 0.75)])], from_zero=True
    ),
    "far": LineChart(
        "t",
        "x",
        "y",
        [
            ChartLine("a", [*((n, float(n)) for n in range(11)), (11, 1e5), (12, -1e5)]),
            ChartLine("b", [(0, 4.0), (12, 4.5)]),
        ],
    ),
    "flat": LineChart("t", "x", "y", [ChartLine("a", [(1e6, 5.0), (2e6, 5.0)])]),
    "tiny": LineChart("t", "x", "y", [ChartLine("a", [(0, 1e-7), (1, 3e-7)])]),
    "band": LineChart(
        "t", "x", "y", [ChartLine(str(n), [(0, float(n)), (60, 2.0 * n)]) for n in range(9)]
    ),
    "one-value": LineChart("t", "x", "y", [ChartLine(str(n), [(3, float(n))]) for n in range(10)]),
    "bars": BarChart("t", "seconds", BARS),
    "many-bars": BarChart("t", "x", [Bar(f"r{n}", n / 2) for n in range(13)]),
    "dots": DotChart("t", "x", [("a", [3.0, 1.0, 1.5]), (LONG, []), ("c", [2.0])]),
    "intervals": IntervalChart("t", "%", [*BARS, Bar("worse", -40.0, -55.0, -25.0)]),
    "timeline": Timeline(
        "States",
        [
            TimelineRow("job", [*SPANS, Span(400, 401, "odd")], [ChartMark(95, "first metric")]),
            TimelineRow(
                "worker-0", SPANS[1:], [ChartMark(400, "failed"), ChartMark(300, "odd mark")]
            ),
        ],
        note="Another note.",
    ),
    "long-timeline": Timeline("t", [TimelineRow("job", [Span(-60, 10801, "running")])]),
    "heat-map": HeatMap(
        "t", "s", "lr", ["1", "2"], "batch", ["a", LONG], [[1.0, None], [2.5, 1000.0]]
    ),
    "dense-heat-map": HeatMap(
        "t",
        "",
        "r",
        [f"r{n}" for n in range(13)],
        "c",
        ["even", "odd"],
        [[float((2 * n + odd) % 21) for odd in (0, 1)] for n in range(13)],
    ),
    "wide-heat-map": HeatMap("t", "", "r", ["a"], "c", [*"uvwxyz"], [[7.0] * 6]),
    "dense-timeline": Timeline(
        "t",
        [
            TimelineRow(f"r{n}", [Span(n, n + 1, "start")], [ChartMark(n + 1, "failed")])
            for n in range(13)
        ],
    ),
    "all-kinds": Timeline(
        "t",
        [
            TimelineRow(
                "a",
                [
                    Span(n, n + 1, kind)
                    for n, kind in enumerate(
                        (
                            "queued",
                            "queue",
                            "starting",
                            "start",
                            "to the first metric",
                            "running",
                            "training",
                            "cancelling",
                        )
                    )
                ],
                [
                    ChartMark(n, kind)
                    for n, kind in enumerate(
                        (
                            "first metric",
                            "succeeded",
                            "failed",
                            "expired",
                            "cancelled",
                        )
                    )
                ],
            )
        ],
    ),
    "eight-lines": LineChart(
        "t", "x", "y", [ChartLine(str(n), [(0, float(n)), (1, 8.0 - n)]) for n in range(8)]
    ),
    "history": HistoryChart(
        "t",
        "commit",
        "samples/s",
        [f"{n:07}" for n in range(9)],
        [[100.0 + n, 101.0 + n] for n in range(6)] + [[80.0, 81.0, 82.5]] * 3,
        levels=[(0, 5, 103.0), (6, 8, 81.0)],
        steps=[HistoryStep(5, 6, "-21 %")],
    ),
}


def lines(html: str) -> str:
    """HTML with one shape, block or row of a table a line."""
    parts = "path|text|rect|circle|defs|tr|h[1-6]|div|p|li|figure|details|section|nav|main|footer"
    return re.sub(rf"><(?=({parts})\b)", ">\n<", html) + "\n"


def compare(name: str, found: str, folder: Path) -> None:
    """Compare a text with the file of this name."""
    new = folder / name
    new.write_text(found)
    known = EXPECTED / name
    expected = known.read_text() if known.exists() else ""
    assert found == expected, f"{known} differs: {new}"


@pytest.mark.parametrize("name", CHARTS)
def test_a_figure(name: str, tmp_path: Path) -> None:
    made = Page()
    figures = made.figures([CHARTS[name]])
    assert figures is not None
    compare(f"{name}.html", lines(figures), tmp_path)


@pytest.mark.parametrize(
    "name",
    ["lines", "far", "band", "bars", "timeline", "heat-map", "history", "all-kinds", "eight-lines"],
)
def test_a_file_of_its_own(name: str, tmp_path: Path) -> None:
    compare(f"{name}.svg", lines(file_bytes(CHARTS[name], "svg").decode()), tmp_path)


def test_the_colours_of_light_and_dark_pages(tmp_path: Path) -> None:
    parts = (palette.css(is_dark=False), palette.css(is_dark=True), palette.classes())
    found = "\n".join(re.sub("[;}](?=[.-])", r"\g<0>\n", part) for part in parts)
    compare("palette.css", f"{found}\n", tmp_path)


def shown(page: str) -> str:
    """The content of a page without its style, its version, its date, and shapes in drawings."""
    body = page[page.index("<body>") :]
    body = re.sub(r"<svg.*?</svg>", drawn_words, body, flags=re.DOTALL)
    return re.sub(r"rsctl [0-9][^ <]*|Created [0-9-]+ [0-9:]+ UTC", "...", lines(body))


def drawn_words(drawing: re.Match[str]) -> str:
    """A drawing's title, labels of axes and ticks."""
    words = re.findall(r"<(?:text|title)\b[^>]*>([^<]+)<", drawing[0])
    return f"<p>drawing: {' | '.join(words)}</p>" if words else ""


def test_the_page_of_a_run(rsctl: Cli, whole_run: MadeRun, tmp_path: Path) -> None:
    compare("run.html", shown(text_of(rsctl, whole_run.run)), tmp_path)


def test_the_page_of_a_run_that_failed(rsctl: Cli, make_run: Make, tmp_path: Path) -> None:
    made = make_run(workers=3)
    made.metric(3, "loss", 0.5, step=1)
    made.fail(
        9,
        Failure(
            replica="worker-1",
            time=at(8.5),
            exit_code=137,
            rank=3,
            lines=["Traceback (most recent call last):", "MemoryError: <x>"],
            causes=[error("memory", "out of <memory>", "use a smaller batch")],
        ),
    )
    compare("failed.html", shown(text_of(rsctl, made.run)), tmp_path)


def test_the_page_of_a_bench_of_more_ranks(rsctl: Cli, make_run: Make, tmp_path: Path) -> None:
    """Throughput and its efficiency by ranks, with reducers and without."""
    cells = [{"workers.count": w, "reducers.count": r} for r in (0, 2) for w in (1, 2, 4)]
    bench = BenchRecord(
        bench="job-bench-aaaaaa", name="job", target="process", definition="x", created=at(0),
        ended=at(59), state=JobState.SUCCEEDED, repeat=1, cells=cells,
        spec={"run": {"script": "train.py"}},
    )  # fmt: skip
    benches = Benches(Store())
    benches.claim(bench)
    for index, cell in enumerate(cells):
        workers, reducers = cell.values()
        made = make_run(
            f"job-{index}aaaaa", 1, index, metrics_spec={"speed": SPEED}, world_size=8 * workers
        )
        for step in range(6):
            lost = (0.25 - reducers / 16) * (workers - 1)
            made.metric(20 + step, "speed", 100 * (workers - lost) + step, step=step)
        made.succeed(30)
        benches.begin(
            bench.bench, Trial(cell=index, repetition=0, run=made.run, state=JobState.SUCCEEDED)
        )
    compare("ranks.html", shown(text_of(rsctl, bench.bench)), tmp_path)


def test_the_page_of_a_bench_beside_a_run(rsctl: Cli, make_run: Make, tmp_path: Path) -> None:
    bench = BenchRecord(
        bench="job-bench-aaaaaa", name="job", target="process", definition="x", created=at(0),
        ended=at(59), state=JobState.FAILED, repeat=3,
        cells=[{"run.args.lr": lr, "run.args.kind": k} for lr in (1, 2) for k in ("a", "b")],
        spec={"run": {"script": "train.py"}},
    )  # fmt: skip
    benches = Benches(Store())
    benches.claim(bench)
    for cell in range(4):
        for repetition in range(3):
            made = make_run(f"job-{cell}{repetition}aaaa", 1, 3 * cell + repetition)
            for step in range(3):
                value = 10.0 * (cell + 1) + repetition + step / 8
                made.metric(20 + step, "loss", value, step=step)
            is_last = (cell, repetition) == (3, 2)
            state = JobState.FAILED if is_last else JobState.SUCCEEDED
            if is_last:
                made.fail(40, Failure(replica="worker-0", time=at(39), exit_code=1))
            else:
                made.succeed(40 + cell)
            trial = Trial(cell=cell, repetition=repetition, run=made.run, state=state)
            benches.begin(bench.bench, trial)
    single = make_run("job-single", 1)
    single.metric(5, "loss", 15.0, step=1)
    single.succeed(30)
    compare("bench.html", shown(text_of(rsctl, bench.bench)), tmp_path)
    compare("comparison.html", shown(text_of(rsctl, single.run, "job-00aaaa")), tmp_path)
