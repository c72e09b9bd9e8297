"""Messages about runs, sent by Apprise itself to a server on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rsctl import api
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import Finding, JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.results.tracking import apprise_urls
from rsctl.results.tracking.background import missing_lines, new_problems
from rsctl.results.tracking.bench_notifications import bench_messages, send_regressed
from rsctl.results.tracking.messages import Message
from rsctl.results.tracking.notifications import NotificationSender
from rsctl.results.tracking.process import send_bench
from rsctl.runs.folder import RunFolder
from rsctl.runs.recorder import Recorder
from rsctl.runs.store import Store
from rsctl.runs.stream.events import now
from rsctl.runs.tracker import TrackerError
from tests.kit import command_forks
from tests.kit.certificates import own_certificate
from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.results.tracking.conftest import TrackedJob

SECRET = "hunter2-hunter2"
JOB = 'name: job\nrun: {command: ["true"], launcher: once}\nnotify: [{url: "${HOOK}"}]\n'


class Hook:
    """A server that keeps the messages that it gets, and answers when it is released."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.released = Event()
        self.released.set()
        self.status = 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                hook.messages.append({name: body[name] for name in ("title", "message", "type")})
                hook.released.wait(60)
                self.send_response(hook.status)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://user:{SECRET}@127.0.0.1:{self.server.server_port}/"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    found = Hook()
    monkeypatch.setenv("HOOK", found.url)
    yield found
    found.released.set()
    found.server.shutdown()
    found.server.server_close()


class NotifiedJob(TrackedJob):
    """A run with one receiver of messages."""

    def __init__(self, *events: str, run: str = "job-a") -> None:
        tracker = PlannedTracker(kind="notify", location="${HOOK}", events=list(events))
        super().__init__(tracker, run)

    def sender(self) -> NotificationSender:
        return NotificationSender(self.store, self.run, 0, self.tracker)

    def stall(self, message: str) -> None:
        recorder = Recorder(RunFolder(self.run), self.store)
        remedy = f"to see what each rank does: rsctl debug {self.run}"
        stall = Finding(severity="warning", code="stall", message=message, remedy=remedy)
        recorder.finding(stall)
        recorder.close()


def test_each_event_is_sent_once_by_any_number_of_processes(hook: Hook) -> None:
    job = NotifiedJob("failed", "stalled")
    job.stall("the job has made no progress for 600 s")
    job.send()
    job.send()
    job.end(JobState.FAILED, "out of <!channel> memory, see https://evil/x, password=letmein")
    job.send()
    job.send()
    head = "job-a on process"
    stalled, failed = hook.messages
    assert stalled["title"] == "job stalled"
    assert stalled["message"].splitlines()[1:] == [
        "the job has made no progress for 600 s -> to see what each rank does: rsctl debug job-a",
        "next: rsctl debug job-a",
    ]
    assert failed == {
        "title": "job failed",
        "message": f"{head} failed after 0:50\n"
        "out of \u2039!channel\u203a memory, see (a URL) password=***\n"
        "next: rsctl logs job-a",
        "type": "failure",
    }


def test_only_the_chosen_events_are_sent(hook: Hook) -> None:
    job = NotifiedJob("failed")
    job.end()
    assert job.send().cursor.is_complete
    assert hook.messages == []


def test_a_dead_endpoint_is_one_warning_without_the_url(hook: Hook) -> None:
    hook.server.shutdown()
    hook.server.server_close()
    job = NotifiedJob("succeeded")
    job.end()
    assert job.send().cursor.is_complete
    run = job.store.get(job.run)
    assert run is not None
    line = (
        "notify ${HOOK}: the message about 'succeeded' was not sent: the server refuses the "
        "connection"
    )
    assert new_problems(run) == [line]
    assert new_problems(run) == []
    assert missing_lines(run) == [line]


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (500, "the server answers with status 500"),
        (404, "the server answers with status 404"),
        (301, "the server redirects to another address, status 301"),
    ],
)
def test_a_message_that_the_server_does_not_take_has_the_status(
    hook: Hook, status: int, why: str
) -> None:
    """A client follows a redirect of a POST by a GET, which has no message."""
    hook.status = status
    job = NotifiedJob("succeeded")
    job.end()
    problem = job.send().cursor.problem
    assert problem == f"the message about 'succeeded' was not sent: {why}"


def test_messages_that_are_sent_together_keep_their_own_reasons(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those to two receivers of a run, each of which has a thread of the process."""
    statuses, logged = {"first": 500, "second": 404}, Event()
    hook.released.clear()

    def notify(receivers: Any, title: str, **_: object) -> bool:
        receivers[0].logger.warning("Failed to send: error=%s.", statuses[title])
        if title == "first":
            logged.set()
            hook.released.wait(DEADLINE_SECONDS)
        return False

    def why(title: str) -> str:
        with pytest.raises(TrackerError) as caught:
            apprise_urls.send_message("${HOOK}", Message(title=title, body="", type="info"))
        return str(caught.value)

    monkeypatch.setattr("apprise.Apprise.notify", notify)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(why, "first")
        assert logged.wait(DEADLINE_SECONDS)
        assert why("second") == "the server answers with status 404"
        hook.released.set()
        assert first.result() == "the server answers with status 500"


def test_a_line_that_apprise_logs_wrongly_loses_no_message(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def notify(receivers: Any, **_: object) -> bool:
        receivers[0].logger.debug("sent %d of %d", "one")
        return True

    monkeypatch.setattr("apprise.Apprise.notify", notify)
    apprise_urls.send_message("${HOOK}", Message(title="t", body="b", type="info"))


def test_a_server_that_this_machine_does_not_trust_is_named_as_such(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.server.socket = own_certificate(tmp_path).wrap_socket(hook.server.socket, server_side=True)
    monkeypatch.setenv("HOOK", hook.url.replace("json://", "jsons://"))
    job = NotifiedJob("succeeded")
    job.end()
    problem = job.send().cursor.problem or ""
    assert problem.endswith("this machine does not trust the certificate of the server")


def test_a_slow_endpoint_has_a_time_limit(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_urls, "SECONDS", 0.2)
    hook.released.clear()
    job = NotifiedJob("succeeded")
    job.end()
    problem = job.send().cursor.problem
    assert problem == "the message about 'succeeded' was not sent: no answer within 0.2 s"
    job.send()
    assert len(hook.messages) == 1


def test_a_message_waits_for_an_environment_that_has_the_url(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = NotifiedJob("succeeded")
    job.end()
    monkeypatch.delenv("HOOK")
    sender = job.sender()
    with pytest.raises(Exception, match="HOOK is not set") as problem:
        sender.step()
    sender.failed(str(problem.value))
    monkeypatch.setenv("HOOK", hook.url)
    sent = job.send()
    assert [each["title"] for each in hook.messages] == ["job succeeded"]
    assert sent.cursor.problem is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (None, "the environment variable HOOK is not set, so no message can be sent"),
        (f"nonsense:{SECRET}", "the value of HOOK is not a URL, so no message can be sent"),
    ],
)
def test_validate_and_doctor_say_why_no_message_can_be_sent(
    url: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if url:
        monkeypatch.setenv("HOOK", url)
    file = api.load(tmp_path / "job.yaml", text=JOB)
    found = [each for each in api.validate(file) if each.code == "notify"]
    assert [(each.severity, each.path, each.message) for each in found] == [
        ("warning", "notify[0].url", message)
    ]
    assert _doctor(file) == [("error", message)]


def test_only_doctor_asks_apprise_about_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f"nonsense://{SECRET}")
    (tmp_path / "job.yaml").write_text(JOB)
    show = "import sys; from rsctl.api import validate; print(validate('job.yaml'));"
    show += "print('apprise' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", show], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[]", "False"]
    file = api.load(tmp_path / "job.yaml", text=JOB)
    assert _doctor(file) == [("error", "Apprise does not understand the URL in HOOK")]


def _doctor(file: api.JobFile) -> list[tuple[str, str]]:
    checks = [c for c in api.check_environment(file) if c.name.startswith("notify")]
    return [(check.verdict, check.message) for check in checks]


@pytest.mark.parametrize(
    "value",
    [
        f'[{{url: "json://u:{SECRET}@host"}}]',
        f"json://u:{SECRET}@host",
        f"[json://u:{SECRET}@host]",
        f'[{{url: "json://u:{SECRET}@${{HOST}}"}}]',
        f"{{url: json://u:{SECRET}@host}}",
    ],
)
def test_a_url_in_the_file_is_refused_and_not_repeated(value: str, tmp_path: Path) -> None:
    text = JOB.replace('[{url: "${HOOK}"}]', value)
    found = api.validate(api.load(tmp_path / "job.yaml", text=text, strict=False))
    errors = [each for each in found if each.is_error]
    assert [each.code for each in errors] == ["secret"]
    assert "set an environment variable to the URL" in str(errors[0].remedy)
    assert SECRET not in repr(found)


def test_a_killed_follower_leaves_a_message_that_is_sent_once(
    hook: Hook, tmp_path: Path, command_server: Path
) -> None:
    text = JOB.replace('command: ["true"]', "script: wait.py").replace(
        '"${HOOK}"', '"${HOOK}", on: [succeeded]'
    )
    (tmp_path / "wait.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}):\n"
        "    time.sleep(0.05)\n"
    )
    (tmp_path / "job.yaml").write_text(text)
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    follower = command_forks.Command(command_server, "submit", "job.yaml", cwd=tmp_path, **nothing)
    wait_until(lambda: [each for each in _runs() if each.state is JobState.RUNNING])
    os.kill(follower.pid, signal.SIGKILL)
    follower.wait()
    (tmp_path / "go").touch()
    assert command_forks.run(command_server, "watch", "@last", cwd=tmp_path).code == 0
    wait_until(lambda: hook.messages)
    (run,) = _runs()
    assert [each["title"] for each in hook.messages] == ["job succeeded"]
    files = [each for each in RunFolder(run.run).path.rglob("*") if each.is_file()]
    assert [each for each in files if SECRET.encode() in each.read_bytes()] == []


BENCH = """
name: job
run:
  command: [bash, -c, "echo loss=$LOSS; exit $CODE"]
  env: {LOSS: "1", CODE: "0"}
  launcher: once
metrics: {loss: {regex: 'loss=(.*)', goal: min}}
notify: [{url: "${HOOK}", on: [failed, succeeded, regressed]}]
"""


def test_a_bench_sends_one_message(hook: Hook, tmp_path: Path, command_server: Path) -> None:
    """When it has ended, and again when further runs have ended it."""
    cells = "matrix: {run.env.CODE: ['0', '3']}\n"
    (tmp_path / "job.yaml").write_text(BENCH + cells)
    bench_run = ("bench", "run", "job.yaml", "-r", "1", "-p", "2")
    done = command_forks.run(command_server, *bench_run, cwd=tmp_path)
    assert (done.code, "trackers have not received" in done.err) == (1, False)
    wait_until(lambda: hook.messages)
    (bench,) = api.benches()
    failed = next(trial for trial in bench.record.latest().values() if trial.exit_code)
    head, cause, following = hook.messages[0]["message"].splitlines()
    assert head.startswith(f"{bench.id} on process failed after 0:")
    assert head.endswith(": runs: 1 succeeded, 1 failed")
    assert cause == f"{failed.run}: {failed.reason or 'failed'}"
    assert following == f"next: rsctl bench status {bench.id}"
    assert command_forks.run(command_server, *bench_run, cwd=tmp_path).code == 1
    wait_until(lambda: hook.messages[1:])
    assert [each["title"] for each in hook.messages] == ["job bench failed"] * 2


def test_the_sender_of_a_bench_that_continues_does_not_see_its_earlier_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(BENCH.replace('"0"}', '"3"}').replace("${HOOK}", "${URL}"))
    monkeypatch.setenv("URL", "json://localhost/")
    monkeypatch.chdir(tmp_path)
    seen: list[JobState] = []
    monkeypatch.setattr(
        "rsctl.results.tracking.background.start_bench",
        lambda bench: seen.append(api.bench(bench).state),
    )
    for _ in range(2):
        assert api.run_bench("job.yaml").state is JobState.FAILED
    assert seen == [JobState.RUNNING] * 2


def test_messages_about_a_bench_do_not_wait_for_the_end_of_a_run(hook: Hook) -> None:
    jobs = [NotifiedJob("stalled", run=f"job-{name}") for name in "ab"]
    benches = Benches(jobs[0].store)
    spec = {"notify": [{"url": "${HOOK}"}]}
    bench = BenchRecord(
        bench="b-bench", name="b", target="process", definition="d", created=now(), cells=[{}],
        state=JobState.RUNNING, spec=spec,
    )  # fmt: skip
    benches.claim(bench)
    for number, job in enumerate(jobs):
        benches.begin(bench.bench, Trial(cell=0, repetition=number, run=job.run))
    BenchFolder(bench.bench).path.mkdir(parents=True)
    locks = [BenchFolder(bench.bench).lock(), *(RunFolder(job.run).lock() for job in jobs)]
    sending = Thread(target=send_bench, args=(bench.bench,))
    sending.start()
    jobs[1].stall("the job has made no progress for 600 s")
    wait_until(lambda: hook.messages)
    benches.enter(bench.bench, JobState.FAILED, now())
    wait_until(lambda: hook.messages[1:])
    assert [each["title"] for each in hook.messages] == ["job stalled", "b bench failed"]
    for job in jobs:
        job.end()
    sending.join(DEADLINE_SECONDS)
    assert not sending.is_alive()
    for lock in locks:
        os.close(lock)


@pytest.fixture
def gate(tmp_path: Path, command_server: Path) -> Callable[..., int]:
    """Judges the job with this loss by a baseline whose loss is 1; the exit code."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "job.yaml").write_text(BENCH.replace("failed, succeeded, ", ""))

    def run(baseline: str, *words: str) -> int:
        rules = ("-r", "3", "-p", "3", "--max-regression", "loss=5%", "-b", f"../{baseline}")
        command = ("gate", "job.yaml", *rules, *words)
        return command_forks.run(command_server, *command, cwd=tmp_path / "work").code

    assert run("one.json", "--update-baseline") == 0
    shutil.copy(tmp_path / "one.json", tmp_path / "two.json")
    return run


WORSE = ("--set", "run.env.LOSS=2")


def test_a_regression_is_sent_once_for_each_baseline(hook: Hook, gate: Callable[..., int]) -> None:
    assert [gate("one.json", *WORSE) for _ in range(2)] == [7, 7]
    wait_until(lambda: hook.messages)
    assert gate("two.json", *WORSE) == 7
    wait_until(lambda: hook.messages[1:])
    bench = api.bench("@last").id
    assert hook.messages[0] == {
        "title": "job regressed",
        "message": f"{bench} regressed against ../one.json\nloss: +100 % [+100, +100]\n"
        f"next: rsctl report {bench}",
        "type": "failure",
    }
    assert [each["message"].splitlines()[0] for each in hook.messages] == [
        f"{bench} regressed against ../one.json",
        f"{bench} regressed against ../two.json",
    ]


def test_a_regression_without_a_url_stays_due(
    hook: Hook, gate: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code of the gate does not depend on it."""
    monkeypatch.delenv("HOOK")
    assert gate("one.json", *WORSE) == 7
    bench = api.bench("@last").id
    why = "the environment variable HOOK is not set, so no message can be sent"
    wait_until(lambda: why in str(bench_messages(bench, "regressed")))
    monkeypatch.setenv("HOOK", hook.url)
    send_regressed(bench)
    assert [each["title"] for each in hook.messages] == ["job regressed"]


def _runs() -> list[api.RunRecord]:
    store = Store()
    found = store.runs()
    store.close()
    return found
