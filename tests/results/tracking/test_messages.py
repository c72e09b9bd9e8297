"""The texts of messages and of what trackers have not received, whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.bench.records import BenchRecord, Trial
from rsctl.findings import Finding, JobState, warning
from rsctl.job.tracking import PlannedTracker, TrackingPlan
from rsctl.results.tracking import background, messages
from rsctl.results.tracking.cursor import Cursor, CursorFile, make_tracking_folder
from rsctl.results.tracking.messages import Message, bench_message, run_message
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import run_directory
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import Failure
from tests.results.tracking.conftest import at

STALL = warning("stall", "no progress for 600 s", "rsctl debug job-a")
MEMORY = warning("memory", "out of memory", "use a smaller batch")
FAILURE = Failure(replica="worker-1", time=at(49), exit_code=1)


def ended(state: JobState = JobState.FAILED, **fields: Any) -> RunRecord:
    known = {"plan": {}, "ended": at(50), "created": at(0), "metrics_spec": {}}
    return RunRecord(
        run="job-a",
        name="job",
        target="process",
        url="process://job-a",
        state=state,
        **{**known, **fields},
    )


@pytest.mark.parametrize(
    ("run", "why", "body", "kind"),
    [
        (ended(JobState.SUCCEEDED), None, "\nnext: rsctl report job-a", "success"),
        (ended(JobState.SUCCEEDED, reason="x"), None, "\nnext: rsctl report job-a", "success"),
        (ended(), None, "\nnext: rsctl logs job-a", "failure"),
        (ended(reason="why"), None, "\nwhy\nnext: rsctl logs job-a", "failure"),
        (
            ended(JobState.EXPIRED, reason="too  long"),
            None,
            "\ntoo long\nnext: rsctl logs job-a",
            "failure",
        ),
        (
            ended(reason="why", first_failure=FAILURE),
            None,
            "\nworker-1 failed first: exit code 1\nnext: rsctl logs --failed job-a",
            "failure",
        ),
        (
            ended(first_failure=replace(FAILURE, causes=[MEMORY])),
            None,
            "\nworker-1 failed first: exit code 1; out of memory -> use a smaller batch"
            "\nnext: rsctl logs --failed job-a",
            "failure",
        ),
        (
            ended(JobState.RUNNING, ended=None, first_failure=FAILURE),
            STALL,
            "\nno progress for 600 s -> rsctl debug job-a\nnext: rsctl debug job-a",
            "warning",
        ),
    ],
)
def test_a_message_about_a_run(
    monkeypatch: pytest.MonkeyPatch, run: RunRecord, why: Finding | None, body: str, kind: str
) -> None:
    monkeypatch.setattr(messages, "now", lambda: at(50))
    state = run.state.value if why is None else "stalled"
    head = f"job-a on process {state} after 0:50"
    assert run_message(run, state, why) == Message(f"job {state}", head + body, kind)


def test_a_message_has_the_cost_and_says_that_it_is_a_rehearsal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "cost_of", lambda _: (1012.5, None))
    folder = run_directory("job-a")
    folder.mkdir(parents=True)
    (folder / "rehearsal.json").write_text("{}")
    first = run_message(ended(), "failed").body.splitlines()[0]
    assert first == "job-a on process, a rehearsal failed after 0:50, 1,012.50 USD"


SECRETS = {"KEY": None, "OPEN": "open value", "SHORT": None, "UNSET": None}


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("a\tb \n c", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("<b> @all `x`", "\u2039b\u203a \uff20all 'x'"),
        ("see https://x.example/a?b, or HTTP://y", "see (a URL) or (a URL)"),
        ("www.x.example/a Www.y [Errno 2] [a](b)", "(a URL) (a URL) [Errno 2] [a] (b)"),
        ("no url:// here", "no url:// here"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "\u2026"),
        ("it is hunter2 and again hunter2", "it is *** and again ***"),
        ("open value, abc", "open value, abc"),
        ("password=letmein", "password=***"),
    ],
)
def test_what_a_job_says_is_one_harmless_line(
    monkeypatch: pytest.MonkeyPatch, reason: str, shown: str
) -> None:
    for name, value in {"KEY": "hunter2", "OPEN": "open value", "SHORT": "abc"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("UNSET", raising=False)
    body = run_message(ended(reason=reason, plan={"env": SECRETS}), "failed").body
    assert body.split("\n")[1:-1] == [shown]


def test_a_secret_of_four_characters_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "abcd")
    run = ended(reason="it is abcd", plan={"env": {"KEY": None}})
    assert run_message(run, "failed").body.split("\n")[1] == "it is ***"


def test_a_secret_from_a_variable_of_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan names the script's variable, the job file the one in this environment."""
    values = {"HF_TOKEN_OF_CI": "hunter22", "TEAM": "vision", "LOGIN_OF_CI": "swordfish"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    spec = (
        "run:\n  env:\n    PIN: '${PIN}'\n    HF_TOKEN: '${HF_TOKEN_OF_CI}'\n"
        "    AUTHORIZATION: 'Bearer ${LOGIN_OF_CI}'\n  args: {SPINNER: '${TEAM}'}\n"
    )
    env = dict.fromkeys(("PIN", "HF_TOKEN", "AUTHORIZATION"))
    run = ended(reason="vision: not hunter22, swordfish", plan={"env": env}, spec=spec)
    assert run_message(run, "failed").body.split("\n")[1] == "vision: not ***, ***"
    trial = Trial(cell=0, repetition=0, run="job-a", state=JobState.FAILED, reason=run.reason)
    bench = BenchRecord(
        bench="job-bench-1", name="job", target="vertex", definition="x", created=at(0),
        state=JobState.FAILED, cells=[{}], repeat=1, trials=[trial], text=spec,
    )  # fmt: skip
    assert "job-a: vision: not ***, ***\n" in bench_message(bench).body


def test_secrets_that_are_alike_or_have_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"A": "abcd", "B": "abcd  efgh", "C": "line one\n line two\n}\n"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    reason = "{abcd} abcd  efgh, abcd\tefgh, line two"
    run = ended(reason=reason, plan={"env": dict.fromkeys(values)})
    assert run_message(run, "failed").body.split("\n")[1] == "{***} ***, ***, ***"


@pytest.mark.parametrize(
    ("states", "state", "body", "kind"),
    [
        ([("succeeded", None)], JobState.SUCCEEDED, "runs: 1 succeeded", "success"),
        (
            [("failed", "out of <memory>"), ("succeeded", None), ("failed", "x")],
            JobState.FAILED,
            "runs: 2 failed, 1 succeeded\nrun-0: out of \u2039memory\u203a",
            "failure",
        ),
        (
            [("cancelled", "x"), ("expired", None)],
            JobState.CANCELLED,
            "runs: 1 cancelled, 1 expired\nrun-1: expired",
            "failure",
        ),
    ],
)
@pytest.mark.parametrize("is_rehearsed", [False, True])
def test_a_message_about_a_bench(
    monkeypatch: pytest.MonkeyPatch,
    states: list[tuple[str, str | None]],
    state: JobState,
    body: str,
    kind: str,
    is_rehearsed: bool,
) -> None:
    monkeypatch.setattr(messages, "now", lambda: at(40))
    trials = [
        Trial(cell=0, repetition=n, run=f"run-{n}", state=JobState(each), reason=reason)
        for n, (each, reason) in enumerate(states)
    ]
    bench = BenchRecord(
        bench="job-bench-1", name="job", target="vertex", definition="x", created=at(0),
        state=state, cells=[{}], repeat=3, trials=trials, rehearsed=is_rehearsed,
    )  # fmt: skip
    place = "job-bench-1 on vertex" + (", a rehearsal" if is_rehearsed else "")
    text = f"{place} {state.value} after 0:40: {body}\nnext: rsctl bench status job-bench-1"
    assert bench_message(bench) == Message(f"job bench {state.value}", text, kind)


def tracked(state: JobState, tracker: PlannedTracker, cursor: Cursor) -> RunRecord:
    """A run with one tracker that has come as far as a cursor."""
    plan = TrackingPlan(trackers=[tracker], parameters={})
    RunFolder("job-a").path.mkdir(parents=True)
    make_tracking_folder("job-a")
    CursorFile("job-a", 0).write(cursor)
    return ended(state, plan={"tracking": msgspec.to_builtins(plan)})


BOARD = PlannedTracker(kind="tensorboard", location="tb")
REMOTE = PlannedTracker(kind="mlflow", location="https://x")
HOOK = PlannedTracker(kind="notify", location="${HOOK}", events=["failed"])


@pytest.mark.parametrize(
    ("tracker", "cursor", "state", "missing", "problems"),
    [
        (BOARD, Cursor(is_complete=True, problem="x"), "failed", [], []),
        (
            BOARD,
            Cursor(problem="down"),
            "failed",
            [
                "tensorboard tb has not received all data: down"
                "   to send the rest later: rsctl track job-a"
            ],
            [],
        ),
        (
            REMOTE,
            Cursor(),
            "failed",
            ["data is still being sent to mlflow https://x in the background"],
            [],
        ),
        (HOOK, Cursor(is_complete=True), "failed", [], []),
        (HOOK, Cursor(), "running", [], []),
        (
            HOOK,
            Cursor(),
            "failed",
            ["a message is still being sent to ${HOOK} in the background"],
            [],
        ),
        (
            HOOK,
            Cursor(problem="refused", is_complete=True),
            "failed",
            ["notify ${HOOK}: refused"],
            ["notify ${HOOK}: refused"],
        ),
        (
            HOOK,
            Cursor(problem="not set"),
            "failed",
            ["notify ${HOOK}: not set   to try again: rsctl track job-a"],
            ["notify ${HOOK}: not set   to try again: rsctl track job-a"],
        ),
    ],
)
def test_what_a_tracker_has_not_received(
    tracker: PlannedTracker, cursor: Cursor, state: str, missing: list[str], problems: list[str]
) -> None:
    run = tracked(JobState(state), tracker, cursor)
    assert background.missing_lines(run) == missing
    assert background.new_problems(run) == problems
    assert background.new_problems(run) == []  # each is shown once
    assert background.missing_lines(run) == missing


def test_a_rehearsal_is_sent_to_this_machine_and_people_alone() -> None:
    for number, (tracker, sent) in enumerate(
        [(BOARD, True), (REMOTE, False), (HOOK, True),
         (PlannedTracker(kind="tensorboard", location="gs://b"), False)]
    ):  # fmt: skip
        name = f"job-{number}"
        run = replace(ended(), run=name)
        assert background.is_sent(run, tracker)
        folder = run_directory(name)
        folder.mkdir(parents=True)
        (folder / "rehearsal.json").write_text("{}")
        assert background.is_sent(run, tracker) is sent


def test_where_the_data_of_a_rehearsal_is_not_sent() -> None:
    run = tracked(JobState.FAILED, REMOTE, Cursor())
    (run_directory("job-a") / "rehearsal.json").write_text("{}")
    line = "data of a rehearsal is not sent to mlflow https://x"
    assert background.missing_lines(run) == [line]


@pytest.mark.parametrize(
    ("cursor", "is_started"),
    [
        (Cursor(), True),
        (Cursor(is_complete=True), False),
        (Cursor(problem="down", tried=at(0)), True),
        (Cursor(problem="down", tried=at(1)), False),
        (Cursor(problem=None, tried=at(59)), True),
    ],
)
@pytest.mark.parametrize("state", ["failed", "running"])
def test_unsent_data_is_sent_later_unless_a_tracker_has_just_failed(
    monkeypatch: pytest.MonkeyPatch, cursor: Cursor, is_started: bool, state: str
) -> None:
    started: list[tuple[list[str], bool]] = []
    monkeypatch.setattr(background, "now", lambda: "2026-01-31T12:01:00.000000Z")
    monkeypatch.setattr(background, "start", lambda runs, follow: started.append((runs, follow)))
    assert background.resume(tracked(JobState(state), REMOTE, cursor)) is is_started
    assert started == ([(["job-a"], state == "running")] if is_started else [])
