"""Commands that wait for a cloud say so, and an interrupted `rsctl cancel` says what it did."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import NoReturn

import pytest

from rsctl.cli import silence
from rsctl.findings import ExitCode, JobState, RsctlError, error, warning
from rsctl.runs.unknown_result import ResultUnknown
from rsctl.targets.vertex.target import TARGET as VERTEX

from .conftest import Cli, MadeRun, at

RUN = "job-aaaaaa"


class SilentCloud:
    """A run on Vertex AI whose calls wait until the user was told, or are interrupted."""

    def __init__(self, made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made, self._patch = made, monkeypatch
        self._told = Event()
        shown = silence.print_message

        def tell(line: str) -> None:
            shown(line)
            self._told.set()

        monkeypatch.setattr(silence, "_SECONDS", 60.0)
        monkeypatch.setattr(silence, "print_message", tell)
        self.cancelled: list[str] = []
        monkeypatch.setattr(VERTEX, "cancel", self.cancelled.append)
        for name in ("reconcile", "collect"):
            monkeypatch.setattr(VERTEX, name, lambda _run: None)

    def waits(self, name: str, is_interrupted: bool = False) -> None:
        """Have a call of the target wait for the line."""

        def call(_run: str) -> None:
            assert self._told.wait(30)
            if is_interrupted:
                raise KeyboardInterrupt

        self._patch.setattr(silence, "_SECONDS", 0.01)
        self._patch.setattr(VERTEX, name, call)

    def accepts_and_is_interrupted(self) -> None:
        """Have a cancellation be accepted before the interruption."""

        def call(_run: str) -> None:
            self._made.state(5, JobState.CANCELLING)
            raise KeyboardInterrupt

        self._patch.setattr(VERTEX, "cancel", call)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, make_run: Callable[..., MadeRun]) -> SilentCloud:
    return SilentCloud(make_run(RUN, target="vertex"), monkeypatch)


@pytest.mark.parametrize(
    "command",
    ["status @last", "list", "get @last", "logs @last", "logs @last --failed", "metrics @last"],
)
def test_the_wait_for_a_cloud_is_told(rsctl: Cli, cloud: SilentCloud, command: str) -> None:
    cloud.waits("collect" if command.startswith(("logs", "metrics")) else "reconcile")
    assert rsctl(*command.split()).err.startswith("waiting for Vertex AI\n")
    assert "waiting" not in rsctl(*command.split(), "--quiet").err


def test_an_answer_and_a_local_run_need_no_line(
    rsctl: Cli, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(RUN, target="process")
    assert rsctl("status", "@last").code == 0
    monkeypatch.setattr(silence, "_SECONDS", 0.0)
    assert "waiting" not in rsctl("status", "@last").err


def test_a_silent_cloud_receives_the_cancellation_first(rsctl: Cli, cloud: SilentCloud) -> None:
    """A cloud that tells no state may still end the job."""
    cloud.waits("reconcile", is_interrupted=True)
    done = rsctl("cancel", RUN)
    assert cloud.cancelled == [RUN]
    assert (done.code, done.err) == (
        130,
        f"waiting for Vertex AI: whether {RUN} is cancelled is not known yet\n"
        f"error: interrupted: whether {RUN} is cancelled is unknown\n"
        f"    -> rsctl status {RUN}\n",
    )


def test_a_cancellation_interrupted_before_the_answer(rsctl: Cli, cloud: SilentCloud) -> None:
    cloud.waits("cancel", is_interrupted=True)
    done = rsctl("cancel", RUN, "-o", "json")
    message = f"interrupted: whether {RUN} is cancelled is unknown"
    assert (done.code, done.err) == (
        130,
        f"waiting for Vertex AI: whether {RUN} is cancelled is not known yet\n"
        f"error: {message}\n    -> rsctl status {RUN}\n",
    )
    assert done.json["findings"][0]["message"] == message


def test_a_cancellation_interrupted_after_the_answer(rsctl: Cli, cloud: SilentCloud) -> None:
    cloud.accepts_and_is_interrupted()
    done = rsctl("cancel", RUN)
    assert (done.code, done.err) == (
        130,
        f"error: interrupted: {RUN} is being cancelled\n    -> rsctl status {RUN}\n",
    )


def expired(_run: str) -> NoReturn:
    raise RsctlError(ExitCode.ENVIRONMENT, error("google", "they have expired", "log in"))


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
@pytest.mark.parametrize("command", ["report -o file", "export --format json -o file.json"])
def test_with_expired_credentials_what_is_stored_is_written(
    rsctl: Cli,
    make_run: Callable[..., MadeRun],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    state: JobState,
) -> None:
    """Also of a run that has ended and whose log is not all here."""
    made = make_run(RUN, target="vertex")
    made.store.locate(RUN, "vertex://p/r/7")
    made.state(2, state)
    made.log(3, "step 1 loss 0.5")
    made.log(4, "step 2 loss 0.25", replica="worker-1")
    made.metric(3, "loss", 0.5)
    for name in ("reconcile", "collect"):
        monkeypatch.setattr(VERTEX, name, expired)
    done = rsctl(*command.split(), RUN)
    assert (done.code, done.err.splitlines()[:3]) == (
        3,
        [
            f"{RUN} may be out of date; its newest line here is of {at(4)}:",
            "error: they have expired",
            "    -> log in",
        ],
    )
    assert done.err.count("they have expired") == 1
    assert "0.5" in (rsctl.folder / command.split()[-1]).read_text()
    for name in ("reconcile", "collect"):
        monkeypatch.setattr(VERTEX, name, lambda _run: None)
    assert rsctl(*command.split(), RUN).code == 0


def silent(_run: str) -> NoReturn:
    raise RsctlError(ExitCode.ENVIRONMENT, warning("network", "there is no answer"))


@pytest.mark.parametrize("command", ["metrics", "metrics --plot", "track", "debug"])
def test_without_an_answer_of_the_cloud_that_is_told_once(
    rsctl: Cli, cloud: SilentCloud, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(VERTEX, "reconcile", silent)
    done = rsctl(*command.split(), RUN)
    assert done.err.startswith(f"{RUN} may be out of date:\nwarning: there is no answer\n")
    assert done.err.count("there is no answer") == 1


@pytest.mark.parametrize("command", ["report -o file", "export --format json -o file.json"])
def test_without_an_answer_of_the_cloud_what_is_stored_is_written(
    rsctl: Cli, cloud: SilentCloud, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(VERTEX, "reconcile", silent)
    done = rsctl(*command.split(), RUN)
    assert done.code == 3
    first, second = done.err.splitlines()[:2]
    assert first.startswith(f"{RUN} may be out of date; its newest line here is of ")
    assert second == "warning: there is no answer"
    assert (rsctl.folder / command.split()[-1]).is_file()


def test_expired_credentials_are_told_once_and_that_the_job_continues(
    rsctl: Cli, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, url = make_run(RUN, target="vertex"), "vertex://p/r/7"
    made.store.locate(RUN, url)
    made.state(2, JobState.RUNNING)
    for name in ("reconcile", "collect", "cancel"):
        monkeypatch.setattr(VERTEX, name, expired)
    done = rsctl("cancel", RUN)
    assert (done.code, done.out, done.err) == (
        3,
        "",
        "error: they have expired\n    -> log in\n"
        f"error: the result of {RUN} is unknown; its job was accepted, continues, and is billed: "
        f"{url}\n    -> watch it: rsctl logs -f {RUN}   cancel it: rsctl cancel {RUN}\n",
    )
    assert rsctl("cancel", RUN, "-o", "json").json["findings"][1]["code"] == "result-unknown"
    monkeypatch.setattr(VERTEX, "events", lambda run, *_, **__: expired(run))
    watched = rsctl("watch", RUN)
    assert (watched.code, watched.err) == (9, done.err)
    logs = ("logs", "logs -f", "logs --failed")
    for command in (*logs, "metrics", "metrics -f", "metrics --plot", "track", "debug"):
        shown = rsctl(*command.split(), RUN)
        assert shown.err.startswith("error: they have expired\n    -> log in\n")
        assert shown.err.count("they have expired") == 1


def test_a_cancellation_with_an_unknown_result_says_so_once(
    rsctl: Cli, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_run(RUN, target="vertex")
    made.store.locate(RUN, "vertex://p/r/7")
    made.state(2, JobState.RUNNING)

    def lost(_run: str) -> NoReturn:
        why = error("network", "the service did not answer")
        raise ResultUnknown(made.store.find(RUN), why)

    monkeypatch.setattr(VERTEX, "cancel", lambda _run: None)
    monkeypatch.setattr(VERTEX, "reconcile", lost)
    done = rsctl("cancel", RUN)
    assert (done.code, done.err.count("is unknown")) == (9, 1)
