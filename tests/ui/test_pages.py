"""The pages as whole HTML: the page's script finds its places, links and data in it."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import pytest

from rsctl import __version__
from rsctl.api import Bench, Run, Store
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import ExitCode, JobState, RsctlError, error, warning
from rsctl.ui import routes
from rsctl.ui.keeper import Keeper
from rsctl.ui.run_view import View, bench_view, compare_view, run_view
from tests.cli.conftest import MadeRun, at
from tests.kit.deferred import Deferred
from tests.results.report.conftest import Make

testclient = Deferred("starlette.testclient")

LOG = """
    <section id="log-section">
    <h3>Log</h3>
    <div class="tools">
    <select id="log-replica" aria-label="Replica">
    <option value="">all replicas</option>
    <option value="worker-0"{chosen}>worker-0</option>
    <option value="worker-1">worker-1</option>
    </select>
    <input type="search" id="log-text" placeholder="Lines that contain …" \
aria-label="Lines that contain this text"{text} maxlength="200">
    <label>
    <input type="checkbox" id="log-errors"{errors}>standard error only</label>
    <label>
    <input type="checkbox" id="log-follow" checked="">follow</label>
    </div>
    <div id="log" class="log" tabindex="0" role="log" aria-label="Log">
    </div>
    </section>
"""


def lines(html: str) -> str:
    """HTML with one tag a line."""
    return html.replace("><", ">\n<")


def page(title: str, main: str, here: str = "", body: str = "") -> str:
    """A whole page with its frame."""
    current = {path: ' aria-current="page"' if path == here else "" for path in ("/", "/benches")}
    before = f"""\
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{title} · rsctl</title>
        <link rel="stylesheet" href="/assets/style.css">
        <link rel="icon" href="/assets/icon.svg">
        <script src="/assets/plot.js" defer>
        </script>
        <script src="/assets/app.js" defer>
        </script>
        </head>
        <body{body}>
        <header class="bar">
        <a class="brand" href="/">rsctl</a>
        <nav aria-label="Pages">
        <a href="/"{current["/"]}>Runs</a>
        <a href="/benches"{current["/benches"]}>Benches</a>
        </nav>
        <span class="live" id="live" role="status">connecting …</span>
        </header>
        <main>
        """
    after = f"""\
        </main>
        <footer>
        <p class="faint">rsctl {__version__}</p>
        </footer>
        </body>
        </html>
        """
    return dedent(before) + dedent(main).lstrip("\n") + dedent(after)


def parts(*names: str) -> str:
    return "".join(f'<div id="part-{name}">\n</div>\n' for name in names)


@pytest.fixture
def answer() -> Any:
    """A client of the application without its guard."""
    return testclient.TestClient(routes.make_app(Keeper()))


@pytest.fixture
def bench(make_run: Make) -> BenchRecord:
    """Half of a bench of two cells, twice each."""
    made = BenchRecord(
        bench="job-bench-aaaaaa", name="job", target="process", definition="x", created=at(0),
        ended=at(9), state=JobState.FAILED, repeat=2, cells=[{"run.args.<lr>": 1, "a": 2}, {}],
    )  # fmt: skip
    benches = Benches(Store())
    benches.claim(made)
    for cell, state in enumerate((JobState.SUCCEEDED, JobState.FAILED)):
        run = f"job-{cell}aaaaa"
        make_run(run, 1).succeed(9)
        reason = "out of <memory>" if cell else None
        trial = Trial(cell=cell, repetition=cell, run=run, state=state, reason=reason)
        benches.begin(made.bench, trial)
    return made


@pytest.mark.usefixtures("bench")
def test_a_list_has_its_filter_its_states_and_its_rows(answer: Any, make_run: Make) -> None:
    made: MadeRun = make_run("job-a<b>", 1, 1)
    for metric in ("loss", "node.cpu_percent", "throughput", "accuracy"):
        made.metric(2, metric, 1250.0)
    made.state(45, JobState.FAILED, exit_code=3, reason="<why>")
    main = """
        <div class="heading">
        <h1>Runs</h1>
        <form role="search" method="get" action="/">
        <input type="search" name="q" value="A&lt;" maxlength="200" \
placeholder="Name or target" aria-label="Name or target">
        <input type="hidden" name="state" value="failed">
        </form>
        </div>
        <div id="part-list">
        <nav class="chips" aria-label="States">
        <a href="/?q=A%3C">
        <span>all</span>
        <b>1</b>
        </a>
        <a href="/?q=A%3C&amp;state=running">
        <span class="dot running">running</span>
        <b>0</b>
        </a>
        <a href="/?q=A%3C&amp;state=failed" aria-current="true">
        <span class="dot failed">failed</span>
        <b>1</b>
        </a>
        <a href="/?q=A%3C&amp;state=succeeded">
        <span class="dot succeeded">succeeded</span>
        <b>0</b>
        </a>
        <a href="/?q=A%3C&amp;state=cancelled">
        <span class="dot cancelled">cancelled</span>
        <b>0</b>
        </a>
        </nav>
        <ul class="rows">
        <li>
        <label class="pick" title="Compare this run">
        <input type="checkbox" data-compare="job-a&lt;b&gt;">
        </label>
        <span class="name">
        <a href="/run/job-a%3Cb%3E">job-a&lt;b&gt;</a>
        <small class="faint">&lt;why&gt;</small>
        </span>
        <span class="state failed">failed</span>
        <span class="values">
        <span>accuracy <b>1250</b>
        </span>
        <span>loss <b>1250</b>
        </span>
        </span>
        <span class="time">
        <b>0:44</b>
        <small class="faint">2026-01-31 12:00 UTC</small>
        </span>
        </li>
        </ul>
        <nav class="pages" aria-label="Pages of the list">
        <span class="faint">1 to 1 of 1</span>
        </nav>
        </div>
        """
    found = answer.get("/?q=A%3C&state=failed&page=1&other=x")
    stream = ' data-stream="/events/runs?q=A%3C&amp;state=failed"'
    assert (found.status_code, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert lines(found.text) == page("Runs", main, "/", stream)


@pytest.mark.usefixtures("bench")
def test_a_list_of_benches_says_how_far_they_are(answer: Any) -> None:
    text = lines(answer.get("/benches?page=x&state=unknown").text)
    assert ' data-stream="/events/benches">' in text
    assert '<a href="/benches" aria-current="page">Benches</a>' in text
    assert '<form role="search" method="get" action="/benches">\n<input type="search" ' in text
    assert (
        dedent(
            """\
        <li>
        <label class="pick" title="Compare this bench">
        <input type="checkbox" data-compare="job-bench-aaaaaa">
        </label>
        <span class="name">
        <a href="/bench/job-bench-aaaaaa">job-bench-aaaaaa</a>
        <small class="faint">2 cells on process</small>
        </span>
        <span class="state failed">failed</span>
        <span class="values">
        <b>1 of 4</b> runs</span>
        <span class="time">
        <b>0:09</b>
        <small class="faint">2026-01-31 12:00 UTC</small>
        </span>
        </li>
        """
        )
        in text
    )


def test_a_row_says_where_and_in_which_attempt_a_run_is(
    answer: Any, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsctl.ui.lists.now", lambda: at(35))
    made: MadeRun = make_run(second=1)
    made.state(3, JobState.RUNNING, attempt=2)
    row = lines(answer.get("/").text).partition('<ul class="rows">')[2]
    assert '<small class="faint">process · attempt 2</small>' in row
    assert "<b>0:34</b>" in row  # until now


@pytest.mark.parametrize(
    ("query", "chosen", "text", "errors"),
    [
        ("", "", "", ""),
        ("?replica=worker-0", ' selected=""', "", ""),
        ("?replica=worker-0&text=%3Cx&errors=1", ' selected=""', ' value="&lt;x"', ' checked=""'),
    ],
)
def test_the_page_of_a_run_has_a_place_for_each_part(
    answer: Any, make_run: Make, query: str, chosen: str, text: str, errors: str
) -> None:
    make_run()
    heading = """\
        <div class="heading">
        <h1>job-aaaaaa</h1>
        <span id="state">
        <span class="state running">running</span>
        </span>
        <nav>
        <button type="button" id="cancel" class="danger" hidden="">Cancel</button>
        </nav>
        </div>
        """
    main = dedent(heading) + parts("outdated", "results", "problems", "replicas")
    main += dedent(LOG).lstrip("\n").format(chosen=chosen, text=text, errors=errors)
    main += parts("metrics", "timeline", "goodput", "machines")
    main += parts("gradients", "stragglers", "profiles", "facts")
    body = (
        f' data-stream="/events/run/job-aaaaaa{query.replace("&", "&amp;")}" data-state="running"'
        ' data-action="/cancel/run/job-aaaaaa" data-subject="job-aaaaaa"'
    )
    assert lines(answer.get(f"/run/job-aaaaaa{query}").text) == page("job-aaaaaa", main, "", body)


def test_the_page_of_a_bench_and_of_its_run(answer: Any, bench: BenchRecord) -> None:
    heading = """\
        <div class="heading">
        <h1>job-bench-aaaaaa</h1>
        <span id="state">
        <span class="state failed">failed</span>
        </span>
        <nav>
        <button type="button" id="cancel" class="danger" hidden="">Cancel</button>
        </nav>
        </div>
        """
    body = (
        ' data-stream="/events/bench/job-bench-aaaaaa" data-state="failed"'
        ' data-action="/cancel/bench/job-bench-aaaaaa" data-subject="job-bench-aaaaaa"'
    )
    main = dedent(heading) + parts("bench", "trials")
    assert lines(answer.get(f"/bench/{bench.bench}").text) == page(bench.bench, main, "", body)
    link = (
        '<a href="/bench/job-bench-aaaaaa" title="The bench of this run: job-bench-aaaaaa"'
        ' class="button">Bench</a>'
    )
    assert link in answer.get("/run/job-0aaaaa").text


@pytest.mark.usefixtures("bench")
def test_the_page_of_a_comparison_names_each_side_once(answer: Any) -> None:
    heading = '<div class="heading">\n<h1>Comparison</h1>\n</div>\n'
    body = ' data-stream="/events/compare?of=job-0aaaaa&amp;of=job-bench-aaaaaa"'
    found = answer.get("/compare?of=job-0aaaaa&of=job-bench-aaaaaa&of=job-0aaaaa")
    assert lines(found.text) == page("Comparison", heading + parts("comparison"), "", body)


UNKNOWN = "This {} does not exist, or is no longer in the list."
SELECT = "Select 2 to 20 runs or benches in the list."


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/run/none", 404, UNKNOWN.format("run")),
        ("/bench/none", 404, UNKNOWN.format("bench")),
        ("/events/run/none", 404, UNKNOWN.format("run")),
        ("/events/bench/none", 404, UNKNOWN.format("bench")),
        ("/compare?of=job-aaaaaa", 400, SELECT),
        ("/events/compare?of=job-aaaaaa&of=job-aaaaaa", 400, SELECT),
        ("/compare?" + "&".join(f"of=run-{n}" for n in range(21)), 400, SELECT),
        ("/compare?" + "&".join(f"of=r{n}" for n in range(20)), 404, "r0 is not a run or a bench."),
        ("/compare?of=job-aaaaaa&of=%3Cx%3E", 404, "&lt;x&gt; is not a run or a bench."),
        ("/assets/ui.css", 404, "This file does not exist."),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_a_problem_is_a_page(answer: Any, make_run: Make, path: str, status: int, why: str) -> None:
    make_run()
    main = f"""\
        <div class="heading">
        <h1>This did not work</h1>
        </div>
        <div class="nothing">
        <p>{why}</p>
        </div>
        """
    found = answer.get(path)
    assert (found.status_code, lines(found.text)) == (status, page("Problem", main))


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.ENVIRONMENT])
def test_an_error_of_the_store_says_what_to_do(
    answer: Any, monkeypatch: pytest.MonkeyPatch, code: ExitCode
) -> None:
    def fail() -> None:
        raise RsctlError(code, error("store", "cannot <read>", "free space"), error("store", "b"))

    monkeypatch.setattr(routes, "Store", fail)
    expected = 400 if code is ExitCode.USAGE else 503
    shown = answer.get("/run/x")
    assert shown.status_code == expected
    assert "<p>cannot &lt;read&gt; → free space</p><p>b</p>" in shown.text
    sent = answer.post("/cancel/run/x")
    assert (sent.status_code, sent.json()) == (
        expected,
        {"problem": ["cannot <read> → free space", "b"]},
    )


@pytest.mark.parametrize(
    ("name", "kind", "begins"),
    [
        ("assets/app.js", "text/javascript; charset=utf-8", "// Keeps a page up to date"),
        ("assets/plot.js", "text/javascript; charset=utf-8", "// "),
        ("assets/icon.svg", "image/svg+xml", "<svg "),
        ("favicon.ico", "image/svg+xml", "<svg "),
        ("assets/style.css", "text/css; charset=utf-8", ""),
    ],
)
def test_the_files_of_a_page(answer: Any, name: str, kind: str, begins: str) -> None:
    found = answer.get(f"/{name}")
    assert (found.status_code, found.headers["content-type"]) == (200, kind)
    assert found.text.startswith(begins)


def test_the_style_has_the_colours_of_reports_and_the_places_of_pages(answer: Any) -> None:
    style = answer.get("/assets/style.css").text
    assert [name in style for name in ("--c1:", ".tile", ".chips")] == [True] * 3


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("kind", ["run", "bench"])
def test_what_has_ended_is_not_cancelled(
    answer: Any,
    make_run: Make,
    bench: BenchRecord,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    is_final: bool,
) -> None:
    state = JobState.SUCCEEDED if is_final else JobState.RUNNING
    asked: list[str] = []
    for each in (Run, Bench):
        monkeypatch.setattr(each, "state", property(lambda _: state))
        monkeypatch.setattr(each, "request_cancel", lambda self: asked.append(self.id))
    name = bench.bench if kind == "bench" else make_run().run
    found = answer.post(f"/cancel/{kind}/{name}")
    assert (found.status_code, found.json()) == (202, {"requested": name})
    assert asked == ([] if is_final else [name])


def shown(made: MadeRun, *outdated: str) -> View:
    store = Store()
    record = store.get(made.run)
    assert record is not None
    return run_view(store, Run(record), [warning("x", text, "wait") for text in outdated])


def test_a_page_that_may_be_out_of_date_says_why(make_run: Make) -> None:
    made = make_run()
    assert shown(made).parts["outdated"] == ""
    assert lines(shown(made, "no <answer>").parts["outdated"]) == (
        '<div class="warning">\n<p>\n<strong>This page may be out of date</strong>\n</p>\n<ul>\n'
        "<li>no &lt;answer&gt; → wait</li>\n</ul>\n</div>"
    )


def test_each_chart_has_its_place(make_run: Make) -> None:
    """The page's script draws a chart where its number is."""
    made: MadeRun = make_run()
    for second in range(3, 9):
        for metric in ("loss", "accuracy"):
            made.metric(second, metric, 1 / second, step=second)
    view = shown(made)
    places = re.findall(r'<div class="plot" data-plot="(\d+)">', "".join(view.parts.values()))
    assert sorted(map(int, places)) == list(range(len(view.plots)))
    assert len(view.plots) >= 2


def test_each_replica_is_a_tile(make_run: Make) -> None:
    made: MadeRun = make_run(workers=3)
    made.state(2, JobState.RUNNING, replica="worker-0")
    for metric, step in (("loss", 1200), ("accuracy", 1100), ("lr", None)):
        made.metric(3, metric, 0.5, step=step)
    made.metric(3, "node.cpu_percent", 125.0)
    made.metric(4, "node.cpu_percent", 150.0)
    made.state(4, JobState.FAILED, replica="worker-1", exit_code=3, reason="<why>")
    made.state(5, JobState.SUCCEEDED, replica="worker-2", exit_code=0)
    assert lines(shown(made).parts["replicas"]) == dedent(
        """\
        <section>
        <h3>3 replicas</h3>
        <div class="tiles">
        <button type="button" class="tile running" data-replica="worker-0" \
title="running, since 12:00:02 UTC. CPU: 150 % of a core. Show its log.">
        <b>worker-0</b>
        <span>running</span>
        <small>step 1,200</small>
        </button>
        <button type="button" class="tile failed" data-replica="worker-1" \
title="&lt;why&gt;, since 12:00:04 UTC. Show its log.">
        <b>worker-1</b>
        <span>failed, exit 3</span>
        <small>\u00a0</small>
        </button>
        <button type="button" class="tile succeeded" data-replica="worker-2" \
title="succeeded, since 12:00:05 UTC. Show its log.">
        <b>worker-2</b>
        <span>succeeded</span>
        <small>\u00a0</small>
        </button>
        </div>
        </section>"""
    )


def test_each_part_has_its_place(answer: Any, make_run: Make) -> None:
    made: MadeRun = make_run()
    places = re.findall(r'id="part-(\w+)"', answer.get(f"/run/{made.run}").text)
    assert sorted(places) == sorted(shown(made).parts)


def test_each_colour_of_the_log_is_in_the_style(answer: Any) -> None:
    script = answer.get("/assets/app.js").text
    colors = re.findall(r'"(\w+)"', script.partition("COLORS = ")[2].partition(";")[0])
    style = answer.get("/assets/style.css").text
    assert [f".in-{color}{{" in style for color in colors] == [True] * 6


@pytest.mark.parametrize(
    ("count", "kind", "more"),
    [
        (0, None, ""),
        (16, "tiles", ""),
        (17, "tiles many", ""),
        (512, "tiles many", ""),
        (513, "tiles many", "1 more replica not shown"),
        (515, "tiles many", "3 more replicas not shown"),
    ],
)
def test_many_tiles_are_small_and_then_left_out(
    make_run: Make, count: int, kind: str | None, more: str
) -> None:
    made: MadeRun = make_run(workers=count)
    with made.store.transaction() as db:
        for replica in made.replicas:
            db.execute(
                "INSERT OR REPLACE INTO replicas (run, replica, state, since) VALUES (?, ?, ?, ?)",
                (made.run, replica, "running", at(2)),
            )
    text = shown(made).parts["replicas"]
    assert text.count("<button") == min(count, 512)
    assert (f'class="{kind}"' in text) == bool(count)
    assert ("not shown" in text) == bool(more)
    assert (f'</div><p class="faint">{more}</p></section>' in text) == bool(more)


def test_the_page_of_a_bench_lists_its_runs(bench: BenchRecord) -> None:
    found = Benches(Store()).get(bench.bench)
    assert found is not None
    view = bench_view(Store(), Bench(found))
    assert lines(view.parts["trials"]) == dedent(
        """\
        <section>
        <h3>Runs</h3>
        <div class="scroll" tabindex="0">
        <table class="data">
        <thead>
        <tr>
        <th scope="col">run</th>
        <th scope="col">state</th>
        <th scope="col">cell</th>
        <th scope="col">repetition</th>
        <th scope="col">reason</th>
        </tr>
        </thead>
        <tbody>
        <tr>
        <th scope="row">
        <a href="/run/job-0aaaaa">job-0aaaaa</a>
        </th>
        <td>
        <span class="state succeeded">succeeded</span>
        </td>
        <td>run.args.&lt;lr&gt;=1 a=2</td>
        <td>1</td>
        <td>
        </td>
        </tr>
        <tr>
        <th scope="row">
        <a href="/run/job-1aaaaa">job-1aaaaa</a>
        </th>
        <td>
        <span class="state failed">failed</span>
        </td>
        <td>the job</td>
        <td>2</td>
        <td>out of &lt;memory&gt;</td>
        </tr>
        </tbody>
        </table>
        </div>
        </section>"""
    )
    assert (list(view.parts), view.state, view.is_final) == (["bench", "trials"], "failed", True)


def test_a_comparison_is_final_when_all_sides_are(make_run: Make, bench: BenchRecord) -> None:
    made: MadeRun = make_run()
    before = compare_view(Store(), [made.run, bench.bench])
    made.succeed(9)
    after = compare_view(Store(), [made.run, bench.bench])
    assert (before.is_final, after.is_final, after.state) == (False, True, "")
    assert after.parts["comparison"].startswith("<section><h2>Comparison</h2>")
    with pytest.raises(RsctlError, match="none"):
        compare_view(Store(), [made.run, "none"])
