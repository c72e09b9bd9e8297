"""Reports of jobs that try to run something in the reader's browser."""

from __future__ import annotations

import re
from pathlib import Path

from rsctl.runs.stream.metrics import MetricSpec
from tests.cli.conftest import Cli
from tests.kit.browser import browse, needs_browser
from tests.results.report.conftest import Make
from tests.results.report.test_report import parsed

MARK = "document.title='taken'"
EVIL = [
    f"</pre></script><script>{MARK}</script>",
    f"<svg onload={MARK}><image href=x onerror={MARK}>",
    f'"><img src=x onerror="{MARK}">',
    f"&lt;script&gt;{MARK}&#x3c;/script&#x3e;",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x00\x01 \u202e rtl \ufffe \ud800",
    "$\\frac{x$ {x} %s ${HOME}",
    f'</style></title></svg><a href="javascript:{MARK}">',
]
TRAIN = f"""
import os, sys, time
out = sys.stdout.buffer
number = int(os.environ["RSCTL_REPLICA"].rpartition("-")[2])
out.write(b'{{"rsctl": "metrics", "step": 1, "loss": 0.5}}\\n')
if number == 1:
    for line in {EVIL[:4]!r}:
        out.write(line.encode() + b"\\n")
    out.write(b"\\x1b[31mred\\x1b[0m \\x1b]0;t\\x07 \\x00 \\xff\\xfe\\n")
    out.write(b"A" * 1_000_000 + b"\\n")
    out.write({EVIL[0]!r}.encode() + b"\\n")
    out.flush()
    sys.exit(3)
out.flush()
time.sleep(60)
"""
JOB = f"""
name: hostile
run:
  command: [python3, train.py]
  launcher: none
  env: {{EVIL: "{EVIL[0]}"}}
  args: ["--x={EVIL[1]}"]
workers: {{count: 2}}
image: {{source: src}}
metrics: {{loss: {{goal: min, unit: "<b>$x^2$"}}}}
"""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def assert_harmless(page: str) -> None:
    """The page is nested as it should be, and has nothing that could run."""
    tree = parsed(page)
    tags = {element.tag for element in tree.iter()}
    assert tags <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "header",
            "nav",
            "main",
            "section",
            "footer",
        ),
        *("section", "footer"),
        *("h1", "h2", "h3", "p", "a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"),
        *("div", "span", "strong", "pre", "details", "summary", "figure", "figcaption"),
        *("svg", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect"),
    }
    attributes = {name for element in tree.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcdoc")]
    assert all(element.get("href", "#").startswith("#") for element in tree.iter())
    assert not CONTROL.search(page)


@needs_browser
def test_what_a_job_logs_is_text(rsctl: Cli, tmp_path: Path) -> None:
    """A job that really runs, and fails, and logs all of it: nothing of it runs in a browser."""
    (rsctl.folder / "src" / "train.py").write_text(TRAIN)
    assert rsctl("submit", rsctl.write(JOB), "-q").code == 1
    assert rsctl("report", "@last", "--charts", "charts").code == 0
    file = rsctl.folder / "report.html"
    page = file.read_text()
    assert_harmless(page)
    assert len(page) < 200_000
    assert "&lt;/pre&gt;&lt;/script&gt;&lt;script&gt;document" in page
    assert "AAA … (262,144 characters)" in page
    shown = browse(file, tmp_path / "profile", "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", shown)
    assert title
    assert title[1].startswith("rsctl report: hostile-")
    assert "<script" not in shown
    single = shown.count("One value, no line: ")
    assert shown.count("<figure") == shown.count('<svg viewBox="0 0 388') + single


def test_names_and_units_are_text(rsctl: Cli, make_run: Make) -> None:
    """Whatever the store has: other versions and other programs may have written it."""
    made = make_run()
    specs = {text: MetricSpec(goal="max", unit=text) for text in EVIL[:4]}
    with made.store.transaction() as db:
        import msgspec

        row = (msgspec.json.encode(specs).decode(), EVIL[2], made.run)
        db.execute("UPDATE runs SET metrics_spec=?, name=? WHERE id=?", row)
    for second, text in enumerate(EVIL[:4] + EVIL[5:], 2):
        made.metric(second, text, float(second), step=second, replica=text)
        made.metric(second, f"cloud.{text}", 1.0, replica=text)
        made.metric(second, "node.cpu_percent", 1.0, replica=text)
    made.succeed(20)
    assert rsctl("report", "@last", "--charts", "charts").code == 0
    assert_harmless((rsctl.folder / "report.html").read_text())
    names = [path.name for path in (rsctl.folder / "charts").iterdir()]
    assert all(re.fullmatch(r"[a-z0-9-]+\.svg", name) for name in names)


@needs_browser
def test_the_policy_holds_where_escaping_would_fail(
    rsctl: Cli, make_run: Make, tmp_path: Path
) -> None:
    make_run().succeed(2)
    assert rsctl("report", "@last").code == 0
    file = rsctl.folder / "report.html"
    script = f'<script>{MARK}</script><img src=x onerror="{MARK}">'
    file.write_text(file.read_text().replace("<main>", f"<main>{script}"))
    page = browse(file, tmp_path / "profile", "--dump-dom")
    assert "<title>taken</title>" not in page
    assert "<title>rsctl report: job-aaaaaa</title>" in page
