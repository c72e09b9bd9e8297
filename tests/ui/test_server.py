"""What the server of `rsctl ui` answers, and to whom."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from rsctl.api import LogEvent, Run
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.installation import install_command
from rsctl.runs.store import Store
from rsctl.ui.server import Served, serve
from rsctl.ui.streams import LINES
from tests.cli.conftest import Cli, MadeRun, at
from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.results.report.conftest import Make


class Browser:
    """Sends requests with the headers that it is given."""

    def __init__(self, url: str) -> None:
        self.parts = urlsplit(url)
        self.host = self.parts.netloc
        self.cookie = ""

    def __call__(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.parts.port or 0, timeout=30)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {})}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        return connection.getresponse()

    def log_in(self) -> HTTPResponse:
        answer = self(f"/?{self.parts.query}")
        self.cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        return answer


@pytest.fixture
def browser(served: Served) -> Browser:
    return Browser(served.url)


def events(answer: HTTPResponse) -> Iterator[tuple[str, object]]:
    """The events of a stream, as they come."""
    name = ""
    while line := answer.readline().decode():
        if line.startswith("event: "):
            name = line[7:].strip()
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def test_a_header_without_an_end_is_cut_off(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other users of this machine can connect. httptools, which uvicorn would take where it is
    installed, keeps a header of any length; and each line in a terminal is one of theirs.
    """
    auto = SimpleNamespace(AutoHTTPProtocol=lambda **_: asyncio.Protocol())
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.auto", auto)
    with serve() as server:
        address = "127.0.0.1", urlsplit(server.url).port or 0
        with socket.create_connection(address, DEADLINE_SECONDS) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nX: " + bytes(100_000))
            assert stranger.recv(12) == b"HTTP/1.1 400"
    assert capsys.readouterr().err == ""


def test_only_the_address_with_the_token_opens_the_page(
    browser: Browser, make_run: Make, served: Served
) -> None:
    make_run().succeed(2)
    for path in ("/", "/?token=wrong", "/run/job-aaaaaa", "/events/runs", "/assets/app.js"):
        answer = browser(path)
        assert answer.status == 403
        assert b"job-aaaaaa" not in answer.read()
    answer = browser.log_in()
    cookie = answer.getheader("set-cookie") or ""
    assert re.fullmatch(r"rsctl-\d+=[\w-]{43}; Path=/; HttpOnly; SameSite=Strict", cookie)
    assert browser.parts.query.removeprefix("token=") not in cookie
    assert answer.getheader("refresh") == "0; url=/"
    page = browser("/")
    assert page.status == 200
    assert b'href="/run/job-aaaaaa"' in page.read()
    policy = page.getheader("content-security-policy") or ""
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert page.getheader("cache-control") == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
def test_another_name_for_loopback_is_refused(browser: Browser, host: str) -> None:
    browser.log_in()
    assert browser("/", Host=host).status == 421


def test_another_page_can_neither_read_nor_cancel(browser: Browser, make_run: Make) -> None:
    make_run()
    path, own = "/cancel/run/job-aaaaaa", f"http://{browser.host}"
    mark = {"X_Rsctl_Action": "cancel"}
    assert browser(path, "POST", Origin=own, **mark).status == 403  # no cookie
    browser.log_in()
    assert browser("/events/runs", Origin="http://evil.example").status == 403
    assert browser("/", Origin="null").status == 403
    assert browser(path, "POST", Origin="http://127.0.0.1:1", **mark).status == 403
    assert browser(path, "POST", **mark).status == 403
    assert browser(path, "POST", Origin=own).status == 403
    assert browser(path, "PUT", Origin=own, **mark).status == 405
    assert browser(path).status == 405  # a link cannot cancel
    answer = browser("/cancel/run/unknown", "POST", Origin=own, **mark)
    assert answer.status == 404
    expected = "This run does not exist, or is no longer in the list."
    assert json.loads(answer.read()) == {"problem": [expected]}


def test_a_thousand_runs_are_listed_by_pages(browser: Browser, make_run: Make) -> None:
    made = make_run()
    with made.store.transaction() as db:
        columns = "name, target, state, created, plan, metrics_spec, settings, spec"
        for number in range(999):
            db.execute(
                f"INSERT INTO runs (id, url, ended, {columns}) SELECT ?, ?, created, {columns}"
                " FROM runs WHERE id=?",
                (f"copy-{number:03}", f"process://copy-{number:03}", made.run),
            )
        db.execute("UPDATE runs SET state='failed' WHERE id='copy-500'")
    browser.log_in()
    page = browser("/").read().decode()
    assert page.count("data-compare=") == 50
    assert "1 to 50 of 1,000" in page
    assert page.index("copy-998") < page.index("copy-949")
    last = browser("/?page=999").read().decode()
    assert "951 to 1,000 of 1,000" in last
    assert 'href="/run/job-aaaaaa"' in last
    found = browser("/?q=COPY+50&state=failed").read().decode()
    assert re.findall(r'href="/run/([\w-]+)"', found) == ["copy-500"]
    assert "No run matches" in browser("/?q=%3Cscript%3E").read().decode()


def test_the_stream_has_the_page_and_the_chosen_lines(browser: Browser, make_run: Make) -> None:
    made: MadeRun = make_run()
    made.state(1, JobState.RUNNING)
    made.log(2, "step 1 loss=0.5")
    made.log(3, "\x1b[31mNaN (\x07 in worker", "worker-1", "e")
    made.log(4, "step 2", "worker-1", "e")
    made.log(4.5, '{"rsctl": "telemetry", "nan (": 5}', "worker-1", "e")
    made.metric(5, "loss", 0.5, step=1)
    made.metric(6, "loss", 0.25, step=2)
    made.succeed(9)
    browser.log_in()
    found = dict(events(browser(f"/events/run/{made.run}?errors=1&text=nan+(")))
    assert found["log"] == {
        "left": 0, "lines": [["12:00:03", "worker-1", 1, "NaN (\\x07 in worker"]],
    }  # fmt: skip
    assert found["end"] == {}
    first = next(events(browser(f"/events/run/{made.run}")))
    name, view = first
    assert name == "parts"
    assert isinstance(view, dict)
    assert (view["state"], view["final"]) == ("succeeded", True)
    assert "0.25" in view["parts"]["results"]
    line = view["plots"]["0"]["lines"][0]
    assert (line["label"], line["points"]) == ("worker-0", [[1.0, 0.5], [2.0, 0.25]])


def test_a_run_without_machines_says_why(browser: Browser) -> None:
    made = MadeRun("job-aaaaaa", target="vertex")
    made.state(1, JobState.QUEUED, reason="no <machines> of this type")
    browser.log_in()
    name, view = next(events(browser(f"/events/run/{made.run}")))
    assert name == "parts"
    assert isinstance(view, dict)
    shown = view["parts"]["replicas"]
    assert re.search(r"<strong>Waiting </strong>[\d:]+: no &lt;machines&gt; of this type", shown)


def test_what_is_saved_of_a_job_stays_out(browser: Browser, make_run: Make) -> None:
    made: MadeRun = make_run()
    with made.store.transaction() as db:
        plan = '{"run": "x", "pools": [], "request": {"env": {"TOKEN": "hunter2"}}}'
        db.execute("UPDATE runs SET spec='env: {A: hunter2}', plan=?, settings=?",
                   (plan, '["run.env.A=hunter2"]'))  # fmt: skip
    made.succeed(3)
    browser.log_in()
    for path in (f"/run/{made.run}", f"/events/run/{made.run}", "/"):
        assert b"hunter2" not in browser(path).read1(1 << 20)


def test_runs_of_a_bench_show_their_cell_and_link_to_it(browser: Browser, make_run: Make) -> None:
    bench = BenchRecord(
        bench="job-bench-aaaaaa", name="job", target="process", definition="x", created=at(0),
        ended=at(9), state=JobState.SUCCEEDED, repeat=3, cells=[{"run.args.<lr>": 1}],
        spec={"run": {"env": {"A": "hunter2"}}},
    )  # fmt: skip
    benches = Benches(Store())
    benches.claim(bench)
    for repetition, loss in enumerate((1.0, 2.0, 4.0)):
        made = make_run(f"job-{repetition}aaaaa", 1)
        made.metric(2, "loss", loss)
        made.succeed(5 + repetition)
        trial = Trial(cell=0, repetition=repetition, run=made.run, state=JobState.SUCCEEDED)
        benches.begin(bench.bench, trial)
    browser.log_in()
    link = '<a href="/bench/job-bench-aaaaaa">job-bench-aaaaaa</a>'
    assert f"run.args.&lt;lr&gt;=1 #3 of {link}" in browser("/").read().decode()
    assert 'href="/bench/job-bench-aaaaaa"' in browser("/run/job-0aaaaa").read().decode()
    _, view = next(events(browser("/events/bench/job-bench-aaaaaa")))
    assert isinstance(view, dict)
    assert "hunter2" not in str(view)  # the page has no job file
    assert "Bench job-bench-aaaaaa" not in view["parts"]["bench"]  # the heading says it
    dots = [p["rows"][0] for p in view["plots"].values() if "dots" in str(p)]
    assert {"dots": [1.0, 2.0, 4.0], "median": 2.0}.items() <= dots[0].items()
    of = "of=job-0aaaaa&of=job-1aaaaa"
    _, view = next(events(browser(f"/events/compare?{of}")))
    assert isinstance(view, dict)
    assert '<a href="/run/job-0aaaaa">job-0aaaaa</a>' in view["parts"]["comparison"]


def test_a_long_log_says_that_it_has_earlier_lines(browser: Browser, make_run: Make) -> None:
    made = make_run(workers=1)
    for number in range(LINES):
        made.log(2 + number / 1000, f"line {number}")
    made.succeed(9)
    browser.log_in()
    found = [text for name, text in events(browser(f"/events/run/{made.run}")) if name == "log"]
    assert "earlier" not in str(found)
    made.log(3, "the last")
    found = [text for name, text in events(browser(f"/events/run/{made.run}")) if name == "log"]
    assert found[0] == {"left": 0, "lines": [], "earlier": f"earlier lines: rsctl logs {made.run}"}
    shown = [line[3] for batch in found for line in batch["lines"]]  # type: ignore[index, attr-defined]
    assert (len(shown), shown[0], shown[-1]) == (LINES, "line 1", "the last")


def _has(found: list[int], number: int) -> bool:
    return len(found) == number


def test_browsers_that_go_away_end_their_streams(
    browser: Browser, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they keep the run's files open, and the right to collect its log, which belongs to
    a thread.
    """
    halt, numbers = threading.Event(), count()
    threads: dict[int, set[int]] = {}
    ended: list[int] = []

    def endless(*_: object, **__: object) -> Iterator[list[LogEvent]]:
        number = next(numbers)
        threads[number] = set()
        try:
            while True:
                threads[number].add(threading.get_ident())
                yield []
                halt.wait(0.2)  # it is here that a browser goes away
        finally:
            threads[number].add(threading.get_ident())
            ended.append(number)

    monkeypatch.setattr(Run, "log_batches", endless)
    made: MadeRun = make_run()
    browser.log_in()
    gc.disable()  # which would end them some time later
    try:
        opened = [browser(f"/events/run/{made.run}") for _ in range(4)]
        for number, stream in enumerate(opened, start=1):
            found = events(stream)
            assert [next(found)[0] for _ in range(3)] == ["parts", "log", "parts"]
            stream.close()
            wait_until(partial(_has, ended, number))
    finally:
        gc.enable()
    assert sorted(ended) == sorted(threads)
    assert {len(used) for used in threads.values()} == {1}


def test_the_command_prints_its_address_and_ends_with_ctrl_c(rsctl: Cli) -> None:
    with subprocess.Popen(
        rsctl.argv("ui"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        browser = Browser(url)
        browser.log_in()
        stream = browser("/events/runs")
        stream.readline()
        port = str(browser.parts.port)
        taken = rsctl("ui", "--port", port)
        assert taken.code == 3
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in taken.err
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, out) == (0, "")
    assert err == ("The page is served until Ctrl-C. The address contains the access token.\n")


def test_without_the_extra_it_says_what_to_install(rsctl: Cli, tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text("raise ImportError")
    done = rsctl.process("ui", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.code == 3
    assert "rsctl ui needs starlette and uvicorn" in done.err
    assert install_command("ui") in done.err
