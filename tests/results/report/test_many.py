"""Reports of runs with many GPUs and many replicas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

import msgspec
import pytest

from rsctl.findings import JobState
from rsctl.results.report.build import make_report
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, MetricEvent
from tests.cli.conftest import Cli, MadeRun, at
from tests.results.report.conftest import Make
from tests.results.report.test_report import parsed, text_of


def figure(page: str, title: str) -> ElementTree.Element:
    return next(f for f in parsed(page).iterfind(".//figure") if f[0].text == title)


def cells(figure: ElementTree.Element) -> list[list[str | None]]:
    return [[cell.text for cell in row] for row in figure.iterfind(".//tbody/tr")]


def height(figure: ElementTree.Element) -> float:
    """Of the drawing, which is 388 wide."""
    drawing = figure.find("./svg")
    if drawing is None:
        drawing = figure.find("./div[@class='narrow']/svg")
    assert drawing is not None
    return float(drawing.attrib["viewBox"].split()[3])


@pytest.fixture
def big_run(make_run: Make) -> MadeRun:
    """64 workers of which the last one fails first, and one that is late at each step."""
    made = make_run(workers=64)
    for replica in made.replicas:
        made.state(2, JobState.RUNNING, replica=replica)
        for step in range(3):
            late = 2 if replica == "worker-17" else 0
            made.metric(5 + 3 * step + late, "loss", 1.0, step=step, replica=replica)
    lines = ["ValueError: x"]
    failure = Failure(
        replica="worker-63", time=at(19), exit_code=1, rank=63, lines=lines, causes=[]
    )
    return made.fail(20, failure)


def test_all_of_64_replicas_are_drawn_on_one_page(rsctl: Cli, big_run: MadeRun) -> None:
    page = text_of(rsctl, "@last")
    states = figure(page, "States of the job and its replicas")
    drawn = [text.text for text in states.iterfind("./div[@class='narrow']/svg//text")]
    assert [name for name in big_run.replicas if name not in drawn] == []
    assert "more rows" not in "".join(states.itertext())
    assert height(states) < 2.2 * 388  # printed at half the width of a page


def test_of_many_replicas_those_furthest_behind_are_shown(rsctl: Cli, big_run: MadeRun) -> None:
    page = text_of(rsctl, "@last")
    behind = figure(page, "How far each replica is behind the first at the same step")
    assert cells(behind)[0] == ["worker-17", "2"]
    assert len(cells(behind)) == 20
    assert "The 20 longest of 64." in "".join(behind.itertext())


def test_of_more_than_are_drawn_the_one_that_failed_is(rsctl: Cli, make_run: Make) -> None:
    made = make_run(workers=200)
    for replica in made.replicas:
        made.state(2, JobState.RUNNING, replica=replica)
    failure = Failure(replica="worker-199", time=at(8), exit_code=1, lines=[], causes=[])
    made.fail(9, failure)
    states = figure(text_of(rsctl, "@last"), "States of the job and its replicas")
    drawn = [text.text for text in states.iterfind("./div[@class='narrow']/svg//text")]
    assert drawn.index("worker-199") < drawn.index("worker-0")
    assert "Not drawn: 71 more rows." in "".join(states.itertext())


def plan(made: MadeRun, nodes: int, ranks: int) -> None:
    pools = [
        {"role": "worker", "count": nodes, "gbps": 10},
        {"role": "reducer", "count": nodes, "gbps": 10},
    ]
    text = msgspec.json.encode({"run": made.run, "pools": pools, "world_size": ranks}).decode()
    with made.store.transaction() as db:
        db.execute("UPDATE runs SET plan=? WHERE id=?", (text, made.run))


def exchange(made: MadeRun) -> None:
    """Four workers that have each sent 100 GB of gradients to reducers."""
    for replica in made.replicas:
        for name, value in (
            ("operations", 10),
            ("reduced_bytes", 1e11),
            ("sent_bytes", 1e11),
            ("busy_seconds", 100),
        ):
            made.metric(5, f"node.transport.{name}", value, replica=replica)
    made.succeed(20)


def test_gradients_stand_beside_what_a_ring_would_need(rsctl: Cli, make_run: Make) -> None:
    made = make_run(workers=4)
    plan(made, nodes=4, ranks=4)
    exchange(made)
    page = text_of(rsctl, "@last")
    sent = figure(page, "Gradient bytes sent")
    assert cells(sent)[3:] == [["worker-3", "100"], ["worker in ring", "150"]]
    assert "2 (n - 1) / n of the bytes (model)" in "".join(sent.itertext())
    assert [row[0] for row in cells(figure(page, "Time of all gradients"))] == [
        "measured, the slowest rank",
        "the minimum that the links allow with these reducers",
        "model: a ring of the workers with the same delays",
    ]
    assert re.search(r"a ring would have needed \(model\)</th><td>[0-9.]+ s \(1\.\d+ x", page)


@pytest.mark.parametrize(
    ("nodes", "ranks", "why"),
    [
        (4, 32, "the model covers only workers with one rank each"),
        (1, 1, "a single worker has no ring"),
    ],
)
def test_why_there_is_no_ring(rsctl: Cli, make_run: Make, nodes: int, ranks: int, why: str) -> None:
    made = make_run(workers=nodes)
    plan(made, nodes, ranks)
    exchange(made)
    page = text_of(rsctl, "@last")
    assert re.search(rf"a ring would have needed \(model\)</th><td[^>]*>unknown: {why}<", page)
    assert "worker in ring" not in page


class CountingStore(Store):
    """Counts how often the values of each run are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def metrics(self, run: str, after: int = 0) -> Iterator[tuple[int, MetricEvent]]:
        self.reads[run] += 1
        return super().metrics(run, after)


@pytest.mark.parametrize(
    ("runs", "whole", "read_again"),
    [(6, "0 1 2 3 4 5", ""), (7, "6 0 1 2", "6"), (8, "6 7 0 1", "6 7")],
)
def test_of_many_runs_the_values_of_few_are_kept(
    make_run: Make, runs: int, whole: str, read_again: str
) -> None:
    """Sections are of those first that failed, whose values are read again after the first six."""
    failure = Failure(replica="worker-0", time=at(8), exit_code=1, lines=[], causes=[])
    for number in range(runs):
        made = make_run(f"job-{number}", workers=1)
        made.metric(5, "loss", 1.0, step=1)
        made.fail(9, failure) if number > 5 else made.succeed(9)
    store = CountingStore()
    found = [store.find(f"job-{number}") for number in range(runs)]
    report = make_report(store, found, {})
    assert "<title>rsctl report: job-0, job-1, job-2 …</title>" in report.html
    assert f" from {runs} runs.</p>" in report.html
    sections = re.findall(r"<h2>Run job-(\d)", report.html)
    assert " ".join(sections) == whole
    assert report.left_out == [run.run for run in found if run.run[-1] not in sections]
    assert {run[-1]: count for run, count in store.reads.items() if count > 1} == (
        dict.fromkeys(read_again.split(), 2)
    )
