"""The page in a real browser: many runs and replicas, and a live job that is hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.runs.store import Store
from rsctl.ui.server import Served, serve
from tests.cli.conftest import Cli, at
from tests.kit.browser import needs_browser
from tests.kit.live_browser import Tab, browser
from tests.results.report.conftest import Make
from tests.results.report.test_hostile import CONTROL, EVIL, MARK

READY = "document.body?.dataset.ready === '1'"
LINES = "[...document.querySelectorAll('#log p')].map(p => p.lastChild.textContent)"
TRAIN = f"""
import os, sys, time
out = sys.stdout.buffer
number = int(os.environ["RSCTL_REPLICA"].rpartition("-")[2])
for step in range(1, 4):
    out.write(b'{{"rsctl": "metrics", "step": %d, "loss": 0.5}}\\n' % step)
for line in {EVIL[:4]!r}:
    out.write(line.encode() + b"\\n")
out.write({MARK!r}.encode() + b"\\x1b[31mred\\x1b[0m \\x1b]0;t\\x07 \\x00 \\xff\\xfe\\n")
out.write(b"A" * 1_000_000 + b"\\n")
out.write(b"the last line of %d\\n" % number)
out.flush()
time.sleep(300)
"""
JOB = f"""
name: hostile
run: {{command: [python3, train.py], launcher: none, env: {{EVIL: "{EVIL[0]}"}}}}
workers: {{count: 2}}
image: {{source: src}}
metrics: {{loss: {{goal: min, unit: "<b>$x^2$"}}}}
"""

pytestmark = needs_browser


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(opened: Tab, served: Served) -> Iterator[Tab]:
    """A tab without cookies; the test's page leaves it before its server ends."""
    opened.look(1200)
    yield opened
    opened.open("about:blank")
    opened.until("location.href === 'about:blank'")
    opened.call("Network.clearBrowserCookies")
    opened.problems.clear()


def log_in(tab: Tab, served: Served) -> None:
    tab.open(served.url)
    tab.until(f"{READY} && location.search === ''")


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_hostile_job_is_shown_and_cancelled(rsctl: Cli, served: Served, tab: Tab) -> None:
    (rsctl.folder / "src" / "train.py").write_text(TRAIN)
    assert rsctl("submit", rsctl.write(JOB), "--detach", "-q").code == 0
    run = rsctl("list", "-o", "json").json["runs"][0]["run"]
    log_in(tab, served)
    tab.value(f"document.querySelector('a[href=\"/run/{run}\"]').click()")
    tab.until(f"{READY} && {LINES}.filter(t => t.startsWith('the last line')).length === 2")
    lines = tab.value(LINES)
    assert sorted(line for line in lines if line in EVIL) == sorted(2 * EVIL[:4])
    assert not [line for line in lines if CONTROL.search(line)]
    assert max(map(len, lines)) < 5000
    assert tab.until("document.querySelectorAll('.drawing .line').length") > 1
    # A click on a replica shows its log alone.
    tab.until("document.querySelectorAll('[data-replica]').length === 2")
    tab.value("document.querySelector('[data-replica=\"worker-1\"]').click()")
    tab.until(f"{LINES}.includes('the last line of 1')")
    tab.until(f"!{LINES}.includes('the last line of 0')")
    assert tab.value("location.search") == "?replica=worker-1"
    tab.value("document.getElementById('cancel').click()")
    tab.until("document.getElementById('state').textContent === 'cancelled'")
    tab.until("document.getElementById('live').textContent === 'ended'")
    assert tab.value("document.getElementById('cancel').hidden")
    assert tab.value("document.title") == f"cancelled · {run} · rsctl"
    assert tab.value("document.querySelectorAll('script:not([src]), img, iframe').length") == 0
    assert tab.problems == []
    assert rsctl("status", run, "-o", "json").json["state"] == "cancelled"


def test_a_page_says_why_it_is_not_connected(make_run: Make, tab: Tab) -> None:
    live = "document.getElementById('live').textContent"
    made = make_run()
    with serve() as first:
        log_in(tab, first)
        port = int(first.address.rstrip("/").rpartition(":")[2])
        tab.until(f"{live} === 'live'")
    tab.until(f"{live} === 'not connected: is rsctl ui still running?'")
    with serve(port) as second:
        expected = "rsctl ui was started again: open the address that it printed"
        tab.until(f"{live} === '{expected}'")
        log_in(tab, second)
        tab.open(f"{second.address}run/{made.run}")
        tab.until(f"{READY} && location.pathname !== '/'")
        made.store.forget(made.run)
        tab.value("isEnded = false; connect()")
        tab.until(f"{live} === 'no longer exists'")


def test_the_bench_of_a_run_is_within_its_row_and_a_search_may_find_nothing(
    make_run: Make, served: Served, tab: Tab
) -> None:
    cell = {"run.args.learning_rate": 0.00001, "run.args.batch_size": 128}
    bench = BenchRecord(
        bench="sweep-bench-aaaaaa", name="sweep", target="process", definition="d",
        created=at(0), cells=[cell], state=JobState.RUNNING,
    )  # fmt: skip
    Benches(Store()).claim(bench)
    make_run("sweep-aaaaaa").succeed(9)
    Benches(Store()).begin(bench.bench, Trial(cell=0, repetition=0, run="sweep-aaaaaa"))
    link = "document.querySelector('.name small a')"
    log_in(tab, served)
    tab.until(f"{link} !== null")
    box = "getBoundingClientRect()"
    assert tab.value(f"{link}.{box}.right <= {link}.parentElement.{box}.right")
    assert tab.value(f"{link}.{box}.bottom <= {link}.parentElement.{box}.bottom")
    tab.open(f"{served.address}run/sweep-aaaaaa?text=nothing")
    tab.until("document.getElementById('log')?.dataset.empty === 'No line matches.'")


def test_values_that_are_close_together_are_told_apart(
    make_run: Make, served: Served, tab: Tab
) -> None:
    made = close = make_run()
    made.metrics(
        (3 + number, name, value, {"step": 12_345_678 + number})
        for number in range(30)
        for name, value in (("tokens", 12_345_678 + 13 * number), ("part", 1 - number * 1e-8))
    )
    made.succeed(50)
    bench = BenchRecord(
        bench="job-bench-aaaaaa", name="job", target="process", definition="d", created=at(0),
        cells=[{}], repeat=2, state=JobState.SUCCEEDED,
    )  # fmt: skip
    Benches(Store()).claim(bench)
    for repetition, run in enumerate(("job-bbbbbb", "job-cccccc")):
        made = make_run(run)
        made.metric(5, "speed", 1000.0 + repetition, step=1)
        made.succeed(9)
        trial = Trial(cell=0, repetition=repetition, run=run, state=JobState.SUCCEEDED)
        Benches(Store()).begin(bench.bench, trial)
    across = "[...document.querySelectorAll('.drawing')].map(d => [...d.querySelectorAll('{}')]"
    log_in(tab, served)
    tab.open(f"{served.address}run/{close.run}")
    tab.until(f"{READY} && document.querySelectorAll('.drawing .line').length >= 4")
    for axis in (".end", ".middle"):
        for labels in tab.value(across.format(axis) + ".map(t => t.textContent))"):
            assert len(set(labels)) == len(labels), labels
    for points in tab.value(across.format(".line") + ".map(l => l.getAttribute('d')))"):
        for line in points:
            assert len(set(re.findall(r"[\d.]+ [\d.]+", line))) == 30
    first = "document.querySelector('.drawing')"
    tab.value(
        f"{first}.dispatchEvent(new PointerEvent('pointermove', {{clientX: "
        f"{first}.getBoundingClientRect().left + 200}}))"
    )
    shown = tab.value(f"{first}.querySelector('.mark').textContent")
    assert re.fullmatch(r"step: 12,345,6\d\d12,34[56],\d\d\d", shown), shown
    tab.open(f"{served.address}bench/{bench.bench}")
    tab.until(f"{READY} && document.querySelector('.drawing circle') !== null")
    dots = "document.querySelectorAll('.drawing circle')"
    assert tab.value(f"{dots}[1].cx.baseVal.value - {dots}[0].cx.baseVal.value") > 300


def test_64_replicas_and_a_comparison(rsctl: Cli, make_run: Make, served: Served, tab: Tab) -> None:
    for name in ("job-aaaaaa", "job-bbbbbb"):
        made = make_run(name, 64)
        for replica in made.replicas:
            made.state(2, JobState.RUNNING, replica=replica)
        made.metrics(
            (3 + step, "loss", 1 / (step + number + 1), {"step": step, "replica": replica})
            for step in range(20)
            for number, replica in enumerate(made.replicas)
        )
        made.succeed(30)
    tab.look(390, 844)
    log_in(tab, served)
    box = "document.querySelector('[data-compare=\"job-aaaaaa\"]')"
    tab.value(f"{box}.focus()")
    make_run("job-cccccc", 1)
    tab.until("document.querySelectorAll('[data-compare]').length === 3")
    assert tab.value(f"document.activeElement === {box}")  # it is another element now
    for name in ("job-aaaaaa", "job-bbbbbb"):
        tab.value(f"document.querySelector('[data-compare=\"{name}\"]').click()")
    link = tab.until("document.querySelector('#compare a')?.getAttribute('href')")
    assert sorted(re.findall(r"of=([\w-]+)", link)) == ["job-aaaaaa", "job-bbbbbb"]
    tab.open(f"{served.address}run/job-aaaaaa")
    tab.until(f"{READY} && document.querySelectorAll('.tile').length === 64")
    tab.until("document.querySelectorAll('.drawing').length >= 3")
    width = "document.documentElement.scrollWidth"
    assert tab.value(width) == 390
    tab.open(served.address.rstrip("/") + link)
    tab.until(f"{READY} && document.querySelectorAll('.drawing .line').length >= 2")
    assert tab.value(width) == 390
    assert tab.problems == []
