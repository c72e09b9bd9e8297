"""`rsctl report`: what stands in the file."""

from __future__ import annotations

import math
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from rsctl.bench.history_files import append_record
from rsctl.findings import JobState
from rsctl.installation import install_command
from rsctl.results.report import palette
from rsctl.results.report.canvas import Drawing, Marks, Text, file_svg, page_svg
from rsctl.results.report.canvas import Path as Line
from rsctl.results.report.history_section import CHARTS, add_history
from rsctl.results.report.html import NONE
from rsctl.results.report.page import Page
from rsctl.runs.stream.metrics import MetricSpec
from tests.bench.test_history import record, series_of
from tests.cli.conftest import Cli, MadeRun
from tests.cli.test_gate import STEADY
from tests.cli.test_gate import record as record_bench
from tests.results.report.conftest import Make


def text_of(rsctl: Cli, *arguments: str) -> str:
    done = rsctl("report", *arguments)
    assert (done.code, done.out, done.err[-300:] if done.code else "") == (0, "", "")
    return (rsctl.folder / "report.html").read_text()


def titles(page: str) -> list[str]:
    """The titles of the charts."""
    return re.findall(r"<figcaption>([^<]*)", page)


def parsed(page: str) -> ElementTree.Element:
    """The page as a tree: all that it has must be nested as it should be."""
    body = page.removeprefix("<!doctype html>\n")
    return ElementTree.fromstring(re.sub(r"(<meta [^>]*)>", r"\1/>", body))


def test_the_file_needs_nothing_runs_nothing_and_follows_the_colours_of_the_reader(
    rsctl: Cli, whole_run: MadeRun
) -> None:
    """Colours but for heat maps, which are the same on light and dark pages."""
    page = text_of(rsctl, "@last")
    parsed(page)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].split("; ")[:3] == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
    ]
    assert not re.search(r"<script|javascript:|\son\w+=|<link|<iframe|@import", page)
    assert set(re.findall(r'(?:href|src)="([^"#]*)', page)) <= {""}
    ids = re.findall(r'\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([\w-]+)', page)) <= set(ids)
    used = set(re.findall(r"var\(--(\w+)\)", page))
    light, dark = re.search(r":root\{([^}]*)\}@media [^{]*\{:root\{([^}]*)\}", page).groups()  # type: ignore[union-attr]
    for colors in (light, dark):
        assert used <= set(re.findall(r"--(\w+):#", colors))
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert re.findall(r"#[0-9a-f]{6}", drawings) == []


def test_a_run_that_has_nothing(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    page = text_of(rsctl, "@last")
    assert titles(page) == ["States of the job and its replicas"]
    assert "No gradients were exchanged through reducers" in page
    assert "No node has reported its resource usage." in page
    parsed(page)


def test_secrets_are_null(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cr3t-value")
    (rsctl.folder / "src" / "train.py").write_text("print('x')\n")
    job = (
        "name: job\nrun: {command: [python3, train.py], launcher: none, env: {KEY: '${KEY}'}}\n"
        "image: {source: src}\n"
    )
    assert rsctl("submit", rsctl.write(job), "-q").code == 0
    page = text_of(rsctl, "@last")
    assert "s3cr3t-value" not in page
    assert '"KEY": null' in page.replace("&quot;", '"')


def test_benches_are_compared_with_the_verdict_of_their_gate(rsctl: Cli) -> None:
    gate = {"max_regression": {"throughput": "5%"}}
    sides = [record_bench(name, STEADY, gate=gate) for name in ("job-bench-aa", "job-bench-bb")]
    page = text_of(rsctl, *sides)
    assert "Effect on throughput" in titles(page)
    assert "Verdict by the job file's gate" in unescape(page)
    assert page.count("<h2>Bench ") == 2


def test_few_differences_of_two_runs_are_not_folded_away(rsctl: Cli) -> None:
    name = rsctl.write(
        "name: job\nimage: {source: src}\nmetrics: {loss: {regex: 'loss=(.*)'}}\n"
        "run: {script: train.py, launcher: once, args: {lr: 0.05}}\n"
    )
    assert rsctl("submit", name, "-q").code == 0
    assert rsctl("submit", name, "-q", "--set", "run.args.lr=0.3").code == 0
    first, last = (run["run"] for run in reversed(rsctl("list", "-o", "json").json["runs"]))
    tree = parsed(text_of(rsctl, first, last))
    folded = {cell for part in tree.iterfind(".//details") for cell in part.iterfind(".//tr")}
    rows = [row for row in tree.iterfind(".//tr") if row[0].text == "run.args.lr"]
    assert [[cell.text for cell in row] for row in rows] == [["run.args.lr", "0.05", "0.3"]]
    assert not folded.intersection(rows)


def test_a_hundred_runs_stay_below_two_megabytes(rsctl: Cli, make_run: Make) -> None:
    names = []
    names_of_nodes = ("node.cpu_percent", "node.rss_bytes", "node.net_tx_bytes")
    for number in range(100):
        made = make_run(f"job-{number:06}", workers=8)
        made.metrics(
            (3 + step / 2, name, value, {"step": step, "replica": replica})
            for step in range(40)
            for replica in made.replicas
            for name, value in (
                ("loss", math.sin(step * number)),
                *((name, 1e6 * step) for name in names_of_nodes),
            )
        )
        made.succeed(40)
        names.append(made.run)
    page = text_of(rsctl, *names)
    assert len(page.encode()) < 2_000_000
    assert "96 runs without a section" in page
    assert "job-000099" in page


@pytest.mark.parametrize("form", ["svg", "png"])
def test_charts_as_files(rsctl: Cli, whole_run: MadeRun, form: str) -> None:
    done = rsctl("report", "@last", "--charts", "charts", "--chart-format", form)
    files = sorted((rsctl.folder / "charts").iterdir())
    assert done.code == 0
    assert done.err.splitlines()[-1] == f"charts: {len(files)} files"
    assert files[0].name == f"01-loss-over-steps.{form}"
    if form == "png":
        assert files[0].read_bytes().startswith(b"\x89PNG")
    else:
        assert "loss over steps" in files[0].read_text()
        assert ElementTree.parse(files[0]).getroot().tag.endswith("svg")


def test_standard_output(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    done = rsctl.process("report", "@last", "-o", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("<!doctype html>\n")
    assert not (rsctl.folder / "report.html").exists()


def test_a_file_that_cannot_be_written(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    (rsctl.folder / "file").write_text("mine")
    done = rsctl("report", "@last", "-o", "file/report.html")
    assert done.code == 3
    assert "error: cannot write file/report.html" in done.err
    assert [path.name for path in rsctl.folder.iterdir() if path.name.startswith(".")] == []


def test_what_is_not_there(rsctl: Cli) -> None:
    done = rsctl("report", "job-zzzzzz")
    assert done.code == 2
    assert "'job-zzzzzz' is not a run, a bench or a file" in done.err


def test_only_png_files_need_matplotlib(
    rsctl: Cli, whole_run: MadeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    done = rsctl("report", "@last", "--charts", "charts")
    assert (done.code, Path("report.html").exists()) == (0, True)
    Path("report.html").unlink()
    done = rsctl("report", "@last", "--charts", "charts", "--chart-format", "png")
    assert done.code == 3
    assert "error: charts as PNG files need matplotlib" in done.err
    assert install_command("report") in done.err
    assert "--chart-format svg" in done.err
    assert not Path("report.html").exists()


VALUES = [
    [1.0],
    [0.0],
    [1.0, 1.0],
    [-1.0, -2.0],
    [1e308, -1e308],
    [5e-324, 1e-320],
    [1e-300, 1e300],
    [math.nan, 1.0, math.inf, -math.inf],
    [math.nan],
]


@pytest.mark.parametrize("steps", [None, [0, 0, 0, 0], [-5, 5, 7, 9], [2**62, 2**62 + 1, 0, 1]])
@pytest.mark.filterwarnings("error")
def test_any_values_can_be_drawn(rsctl: Cli, make_run: Make, steps: list[int] | None) -> None:
    run = make_run()
    names = [f"loss-{number}" for number in range(len(VALUES))]
    declared = msgspec.json.encode(dict.fromkeys(names, MetricSpec(goal="min", unit="nats")))
    with run.store.transaction() as db:
        db.execute("UPDATE runs SET metrics_spec=? WHERE id=?", (declared.decode(), run.run))
    for name, values in zip(names, VALUES, strict=True):
        for index, value in enumerate(values):
            run.metric(2 + index, name, value, step=steps[index] if steps else None)
    run.succeed(9)
    page = text_of(rsctl, "@last")
    parsed(page)
    axes = ["steps", "time"] if steps else ["time"]
    drawable = names[:-1]  # the last has no number
    assert [title for title in titles(page) if title.startswith("loss")] == [
        f"{name} over {axis}" for name in drawable for axis in axes
    ]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.filterwarnings("error")
def test_any_values_of_a_machine_can_be_drawn(
    rsctl: Cli, make_run: Make, values: list[float]
) -> None:
    run = make_run()
    for index, value in enumerate(values):
        run.metric(2 + index, "node.rss_bytes", value)
    run.succeed(9)
    parsed(text_of(rsctl, "@last"))


def test_a_run_that_goes_on(rsctl: Cli, make_run: Make) -> None:
    made = make_run()
    made.state(2, JobState.RUNNING, replica="worker-0")
    made.metric(3, "loss", 1.0)
    lock = made.folder.lock()
    assert "state running" in text_of(rsctl, "@last")
    assert lock


def test_a_drawing_in_a_page_and_in_a_file() -> None:
    shapes = [
        Line([(1, 2.04), (3, 99)], palette.INK, 2, dashes=(4, 2), is_clipped=True),
        Marks([(1, 2)], "o", 4, palette.SERIES[0], opacity=0.5),
        Text(1, 2, "<b>&\x1b[1mx", 11, anchor="middle", has_halo=True),
    ]
    drawing = Drawing(10, 20, (0, 0, 10, 20), shapes)
    assert page_svg(drawing, "c1-", 'a "title"') == (
        '<svg viewBox="0 0 10.0 20.0" role="img" aria-label="a &quot;title&quot;">'
        '<defs><clipPath id="c1-box"><path d="M0.0 0.0L10.0 0.0L10.0 20.0L0.0 20.0Z"/></clipPath>'
        '</defs><path d="M1.0 2.0L3.0 99.0" fill="none" stroke="var(--ink)" stroke-width="2" '
        'stroke-linejoin="round" stroke-dasharray="8 4" clip-path="url(#c1-box)"/>'
        '<path d="M1.0 2.0h0" stroke="var(--c1)" stroke-width="4" stroke-linecap="round" '
        'opacity="0.5"/><text x="1.0" y="2.0" font-size="11" fill="var(--ink)" '
        'text-anchor="middle" stroke="var(--paper)" stroke-width="3" paint-order="stroke">'
        "&lt;b&gt;&amp;x</text></svg>"
    )
    file = file_svg(drawing)
    assert "var(" not in file
    assert "#0072b2" in file
    assert ElementTree.fromstring(file).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_history(rsctl: Cli) -> None:
    values = [100.0, 101, 99, 100, 101, 99, 100, 100, 90, 91, 89, 90, 91, 89, 90, 90]
    for number, value in enumerate(values):
        append_record(record(number, [value, value - 1, value + 1]), "h.jsonl")
        append_record(record(number % 3, [7.0], f"x{number}", metric="<b>loss</b>"), "h.jsonl")
    done = rsctl("report", "--history", "h.jsonl", "--charts", "charts")
    assert (done.code, done.err.splitlines()[1]) == (0, "charts: 2 files")
    page = (rsctl.folder / "report.html").read_text()
    parsed(page)
    assert titles(page) == [
        "throughput (workers.count=2)",
        "&lt;b&gt;loss&lt;/b&gt; (workers.count=2)",
    ]
    assert "from 1 history." in page
    table = next(t for t in parsed(page).iterfind(".//table") if t[0][0][0].text == "metric")
    assert [[cell.text for cell in row][:3] for row in table[1]] == [
        ["throughput", "workers.count=2", "16"],
        ["<b>loss</b>", "workers.count=2", "3"],
    ]
    assert "throughput (x/s) of 16 commits; steps: -10 % at 0000000." in page
    assert "<b>loss" not in page
    assert "Steps need at least 8 commits." in page
    steps = page[page.index("Steps, latest first") :]
    row = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", steps)
    assert row[9:14] == ["0000000000", "2026-01-09", "-10 %", "worse", "&gt; 99.9 %"]


def test_series_of_several_jobs_and_machines_are_told_apart_in_a_table() -> None:
    page = Page()
    records = [record(0), record(1, machine="Xeon"), record(2, of="other", job="other")]
    add_history(page, "h.jsonl", series_of(records))
    table = next(parsed(page.html("t", (), "")).iterfind(".//table"))
    assert [cell.text for cell in table[0][0]] == [
        *("job", "metric", "cell", "condition", "commits", "latest commit", "level", "steps")
    ]
    common = ("throughput", "workers.count=2")
    numbers = ("1", "100 x/s", "100 x/s", "unknown")
    assert [["".join(cell.itertext()) for cell in row] for row in table[1]] == [
        ["job", *common, "machine EPYC", *numbers],
        ["job", *common, "machine Xeon", *numbers],
        ["other", *common, NONE, *numbers],
    ]


@pytest.mark.parametrize(("more", "text"), [(1, "1 more series not drawn."), (2, "2 more series ")])
def test_the_series_that_are_not_drawn_are_counted(more: int, text: str) -> None:
    page = Page()
    names = [f"job-{number}" for number in range(CHARTS + more)]
    add_history(page, "h.jsonl", series_of([record(0, of=name, job=name) for name in names]))
    assert f'<p class="faint">{text}' in page.html("t", (), "")


def test_a_report_of_nothing(rsctl: Cli) -> None:
    done = rsctl("report")
    assert done.code == 2
    assert "Missing argument 'RUN|BENCH...', or --history WHERE." in done.err
