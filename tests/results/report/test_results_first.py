"""What readers look for first: results at the top, several runs in one chart, honest lines."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from rsctl.findings import JobState, error
from rsctl.results.report.charts import ChartLine, LineChart
from rsctl.results.report.descriptions import describe
from rsctl.results.report.reading import readings_of
from rsctl.results.report.scales import beyond_note, scale_of
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Failure, MetricEvent
from rsctl.runs.stream.metrics import MetricSpec
from tests.cli.conftest import Cli, MadeRun, at
from tests.kit.browser import needs_browser
from tests.kit.live_browser import browser
from tests.results.report.conftest import Make
from tests.results.report.made_charts import curves
from tests.results.report.test_report import parsed, text_of


def cards(page: str) -> dict[str, list[str]]:
    """The values of the first cards of a page, by their titles."""
    found = parsed(page).find(".//div[@class='cards']")
    assert found is not None
    texts = [["".join(part.itertext()) for part in card] for card in found]
    return {title: rest for title, *rest in texts}


def figure(page: str, title: str) -> ElementTree.Element:
    figures = parsed(page).iterfind(".//figure")
    return next(each for each in figures if each[0].text == title)


def declare(made: MadeRun, specs: dict[str, MetricSpec]) -> None:
    with made.store.transaction() as db:
        row = (msgspec.json.encode(specs).decode(), made.run)
        db.execute("UPDATE runs SET metrics_spec=? WHERE id=?", row)


@pytest.mark.parametrize(
    ("plan", "cost"),
    [
        ({"cost": {"per_hour": 3600.0, "seconds": 60.0, "spot": False}},
         ["29.00 USD", "from the catalogue's prices"]),
        ({"cost": {"per_hour": None, "seconds": 60.0, "spot": False, "unknown": "no price"}},
         ["unknown", "no price"]),
    ],
)  # fmt: skip
def test_a_run_that_is_billed_opens_with_its_cost(
    rsctl: Cli, make_run: Make, plan: dict[str, object], cost: list[str]
) -> None:
    make_run(target="vertex", **plan).succeed(30)
    assert cards(text_of(rsctl, "@last"))["cost"] == cost


@needs_browser
def test_a_printed_page_has_all_columns(rsctl: Cli, make_run: Make, tmp_path: Path) -> None:
    """A table that scrolls on a screen was cut at the edge of the paper."""
    for number in range(2):
        made = make_run(f"job-{number:06}", second=15 * number)
        for name in ("loss", "throughput", "validation/top1_accuracy"):
            for step in range(2):
                made.metric(15 * number + 3 + step, name, 12345.6, step=step)
        made.succeed(15 * number + 12)
    text_of(rsctl, "job-000000", "job-000001")
    with browser(tmp_path / "profile") as tab:
        tab.look(720)
        tab.open((rsctl.folder / "report.html").as_uri())
        tab.until("document.querySelectorAll('main table').length > 1")
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert tab.value("document.documentElement.scrollWidth") == 720


def test_values_of_one_time_are_not_a_saw(rsctl: Cli, make_run: Make) -> None:
    """A cloud's log has one time for many lines: they stay in the order of their arrival."""
    made = make_run()
    values = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]
    for index, value in enumerate(values):
        made.metric(3 + index // 4, "loss", value)
    made.succeed(9)
    page = text_of(rsctl, "@last")
    rows = [
        [cell.text for cell in row]
        for row in figure(page, "loss over time").iterfind(".//tbody/tr")
    ]
    assert [row[-1] for row in rows] == ["9", "8", "7", "6", "5", "4", "3", "2"]


def test_one_value_far_away_does_not_flatten_a_chart() -> None:
    points = [(float(x), 2 - x / 100) for x in range(100)]
    lines = [ChartLine("a", points), ChartLine("b", [*points[:50], (50.0, 1e308), *points[51:]])]
    chart = LineChart("loss", "step", "loss", lines)
    scale = scale_of(chart)
    assert (scale.beyond, scale.is_log) == (1, False)
    assert 1.01 > scale.low > 0.9
    assert 2.0 < scale.high < 2.2
    assert beyond_note(chart) == (
        "1 value beyond the axis, marked at its end: the farthest is 1e+308 of b at 50."
    )


@pytest.mark.parametrize(
    "values",
    [
        [10 * math.exp(-x / 10) + 0.1 for x in range(100)],
        [float(x) for x in range(100)],
        [1.0] * 50 + [3.0] * 50,
        [1e-8 * 10 ** (x / 20) for x in range(100)],
        [0.0, 1e308],
    ],
)
def test_ordinary_values_are_all_within_the_axis(values: list[float]) -> None:
    line = ChartLine("a", [(float(x), y) for x, y in enumerate(values)])
    assert scale_of(LineChart("t", "x", "y", [line])).beyond == 0


def test_a_chart_is_described_beyond_its_title() -> None:
    line = ChartLine("worker-0", [(0.0, 3.0), (1.0, 0.5), (2.0, 1.0)])
    assert describe(LineChart("loss over steps", "step", "loss (nats)", [line])) == (
        "Line chart: loss over steps. loss (nats) over step. worker-0: from 3 to 1, lowest 0.5, "
        "highest 3."
    )


def test_a_running_run_is_drawn_until_now(rsctl: Cli, make_run: Make) -> None:
    made = make_run()
    made.state(1, JobState.RUNNING)
    lock = made.folder.lock()
    page = text_of(rsctl, "@last")
    row = [cell.text for cell in figure(page, "States of the job and its replicas").iterfind(
        ".//tbody/tr[2]/*")]  # fmt: skip
    assert row[:3] == ["the job", "running", "1.0"]
    assert float(row[3] or 0) > 1e6  # it began in January of 2026
    assert lock


def test_many_metrics_never_hide_what_is_measured_of_every_run(rsctl: Cli, make_run: Make) -> None:
    made = make_run()
    made.state(2, JobState.RUNNING)
    made.metrics((3.0, f"m{number:03}", 1.0, {}) for number in range(80))
    made.succeed(30)
    page = text_of(rsctl, "@last")
    rows = [row[0].text for row in parsed(page).iterfind(".//tbody/tr")]
    assert "run.total" in rows
    assert "m058" in rows
    assert "m070" not in rows
    assert "68 more metrics not drawn" in page


def test_one_is_not_plural(rsctl: Cli, make_run: Make) -> None:
    made = make_run(workers=1)
    made.metric(3, "loss", math.nan, step=4)
    made.metric(4, "loss", 1.0, step=5)
    made.succeed(30)
    page = text_of(rsctl, "@last")
    assert "Not drawn: 1 value that is not finite, the first nan at step 4." in page
    assert "States of 1 replica<" in page
    assert not re.search(r"\b1 \w+s (more|without|left|are)\b|\b1 (runs|values|rows)\b", page)


def test_the_many_that_fail_in_the_wake_of_the_first_are_counted(
    rsctl: Cli, make_run: Make
) -> None:
    failure = Failure(replica="worker-3", time=at(8), exit_code=1, lines=[], causes=[])
    made = make_run(workers=64)
    for replica in made.replicas:
        made.state(8, JobState.FAILED, replica=replica, exit_code=1)
    made.fail(9, failure)
    shown = ", ".join(f"worker-{rank}" for rank in range(9) if rank != 3)
    named = f"s a result, these failed: {shown} and 55 more"
    assert f"A{named}" in text_of(rsctl, "@last")
    assert rsctl("status", "@last").out.splitlines()[-1] == f"a{named}"


@pytest.mark.parametrize(
    ("code", "ending", "victims"),
    [
        ("stall", "stalled", False),
        ("watch", "was ended by a rule of watch", False),
        ("early-end", "left early", True),
        ("collective-mismatch", "failed first: exit code 1", True),
    ],
)
def test_the_guilty_is_no_victim(
    rsctl: Cli, make_run: Make, code: str, ending: str, victims: bool
) -> None:
    """All are in the report as in `status`."""
    cause = error(code, "rank 0 (worker-0) waits for worker-2", None)
    made = make_run(workers=3)
    made.fail(9, Failure(replica="worker-1", time=at(8), exit_code=1, causes=[cause]))
    page, status = text_of(rsctl, "@last"), rsctl("status", "@last").out
    assert f"worker-1 {ending} at " in page
    assert f"worker-1 {ending} at " in status
    assert ("As a result, these failed: worker-2<" in page) is victims
    assert status.endswith("as a result, these failed: worker-2\n") is victims
    assert page.count("As a result, these failed") == victims


def events(count: int) -> list[MetricEvent]:
    made = []
    for step in range(count):
        value = -5.0 if step == 1234 else 1e9 if step == 4321 else math.sin(step)
        made.append(MetricEvent(time=at(step / 1000), replica="worker-0", name="loss",
                                value=value, step=step))  # fmt: skip
    return made


def test_of_a_long_series_no_spike_is_lost(make_run: Make) -> None:
    run = Store().get(make_run().run)
    assert run is not None
    curve = readings_of(run, events(50_000)).curves["loss"]["worker-0"]
    kept = curve.events()
    assert len(kept) < 2000
    assert curve.count == 50_000
    assert {0, 1234, 4321, 49_999} <= {event.step for event in kept}
    assert [event.step for event in kept] == sorted(event.step or 0 for event in kept)
    steps = [event.step or 0 for event in kept]
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) < 50_000 / 100  # evenly spread


def test_samples_of_thinned_values_are_those_of_all(rsctl: Cli, make_run: Make) -> None:
    made = make_run()
    declare(made, {"loss": MetricSpec(goal="min", aggregate="mean", warmup="0 steps")})
    made.store.add_metrics(made.run, events(5000))
    made.succeed(30)
    page = parsed(text_of(rsctl, "@last"))
    rows = [[cell.text for cell in row] for row in page.iterfind(".//tr")]
    row = next(row for row in rows if row[0] == "loss" and len(row) == 7)
    assert row[1:3] == ["-0.6639", "-5"]
    assert row[5] == "5,000 of 5,000"


def test_the_last_of_values_of_one_time_is_the_one_that_came_last(
    rsctl: Cli, make_run: Make
) -> None:
    made = make_run()
    declare(made, {"loss": MetricSpec(goal="min")})
    for step, value in enumerate([1.0, math.nan, 0.25, 0.75, 0.5]):
        made.metric(3, "loss", value, step=step)
    made.succeed(30)
    assert cards(text_of(rsctl, "@last"))["loss"] == [
        "0.5",
        "last value, at step 4; best 0.25 at step 2",
    ]
    events = [
        MetricEvent(time=at(1), replica="worker-0", name="loss", value=(-1.0) ** n * n, step=n)
        for n in range(5000)
    ]
    run = made.store.get(made.run)
    assert run is not None
    kept = readings_of(run, events).headline_series()["loss"]
    assert [event.step for event in kept] == sorted(event.step or 0 for event in kept)


@pytest.mark.parametrize(
    ("series", "values", "kept"),
    [
        # a series has at most 800 stretches, each with its lowest and its highest value
        *((1, 1600, 1600), (1, 1601, 801), (1, 3200, 1600), (1, 3201, 801)),
        # many series share 120,000 values, but each has at least 24 stretches
        *((1000, 121, 61), (3000, 49, 25)),
    ],
)
def test_the_values_that_a_report_keeps(series: int, values: int, kept: int) -> None:
    """In little memory, however many there are."""
    record = curves("a", {}).run
    names = [f"node.m{number}" for number in range(series)]
    found = readings_of(
        record,
        (
            MetricEvent(time=at(1), replica="worker-0", name=name, value=step % 7, step=step)
            for step in range(values)
            for name in names
        ),
    ).curves
    assert {len(found[name]["worker-0"].events()) for name in names} == {kept}
