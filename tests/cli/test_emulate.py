"""`rsctl emulate`: a cloud in the foreground."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.cli.emulate import parse_fault
from rsctl.findings import ExitCode
from rsctl.targets.managed.emulator.faults import Fault
from tests.kit.polling import DEADLINE_SECONDS

from .conftest import Cli

VERTEX = ("emulate", "vertex", "--runner", "process")


@pytest.fixture
def serving(rsctl: Cli) -> Iterator[subprocess.Popen[str]]:
    yield from serve(rsctl, *VERTEX, "-o", "json")


def serve(rsctl: Cli, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(rsctl.argv(*arguments), text=True, **pipes)  # type: ignore[call-overload]
    yield process
    process.kill()
    process.communicate()


def read_json(process: subprocess.Popen[str]) -> dict[str, object]:
    """The document that is printed while the process goes on."""
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            return dict(json.loads(text))
    raise AssertionError(process.communicate()[1])


def test_it_serves_until_it_is_interrupted(serving: subprocess.Popen[str]) -> None:
    said = read_json(serving)
    assert (said["cloud"], said["runner"]) == ("vertex", "process")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(
            f"{said['url']}/v1/projects/rehearsal/locations/us-central1/customJobs"
        )
    assert refused.value.code == 401
    assert "rsctl emulator" in refused.value.headers["Server"]
    serving.send_signal(signal.SIGINT)
    _, talk = serving.communicate(timeout=DEADLINE_SECONDS)
    assert serving.returncode == ExitCode.SUCCEEDED
    assert talk.startswith(
        f"rsctl emulator (made from the documentation; not the cloud): vertex at {said['url']}, "
    )
    assert (
        "It accepts requests for project rehearsal and region us-central1 and refuses "
        "all others.\n" in talk
    )
    assert not Path(str(said["folder"])).exists()


def test_text_is_for_a_shell(rsctl: Cli) -> None:
    """The port and the folder are those that were asked for."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = rsctl.folder / "it's here"
    for process in serve(rsctl, *VERTEX, "--port", str(port), "--folder", str(folder), "--pace=0"):
        assert process.stdout
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()  # not communicate(): it would pass over what is buffered
    lines = [shlex.split(line) for line in (first + rest).splitlines()]
    assert all(len(words) == 2 and words[0] == "export" for words in lines)
    variables = dict(words[1].partition("=")[::2] for words in lines)
    assert variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"] == f"http://127.0.0.1:{port}"
    assert variables["RSCTL_CLOUD_PACE"] == "0.0"
    assert (folder / "gs").is_dir()


def test_a_fault_befalls_a_call(rsctl: Cli) -> None:
    fault = "aiplatform.customJobs.list:status=503,code=UNAVAILABLE,message=try again"
    for process in serve(rsctl, *VERTEX, "-o", "json", "--fault", fault):
        said = read_json(process)
        jobs = f"{said['url']}/v1/projects/rehearsal/locations/us-central1/customJobs"
        codes = []
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(jobs)
            codes.append(refused.value.code)
    assert codes == [503, 401]


def test_faults_in_words() -> None:
    assert parse_fault("a.b:times=3,path=x=y,delay=0.5,cut=answer") == Fault(
        "a.b", times=3, path="x=y", delay=0.5, cut="answer"
    )


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (("--behaviour", "moods=1"), "there is no field 'moods'; use pace"),
        (("--behaviour", "moods"), "is not in the form NAME=VALUE"),
        (("--fault", "a.b:tmies=3"), "there is no field 'tmies'; use times"),
        (("--fault", "a.b:times=x"), "times"),
        (("--port", "70000"), "'--port'"),
    ],
)
def test_what_makes_no_sense_is_refused(rsctl: Cli, option: tuple[str, str], why: str) -> None:
    done = rsctl(*VERTEX, *option)
    assert done.code == ExitCode.USAGE
    assert why in done.err


def test_a_port_that_is_taken(rsctl: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = rsctl(*VERTEX, "--port", str(port))
    assert done.code == ExitCode.ENVIRONMENT
    assert f"cannot listen on port {port}" in done.err


def test_no_docker(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    done = rsctl("emulate", "vertex", "--runner", "docker")
    assert done.code == ExitCode.ENVIRONMENT
    assert "the docker command is not installed" in done.err
