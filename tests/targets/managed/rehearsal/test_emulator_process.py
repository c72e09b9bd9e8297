"""The process that emulates the cloud of one run, on the smallest of clouds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.api.reconcile import clean_up_dead_emulators
from rsctl.clients.endpoints import Endpoints
from rsctl.findings import RsctlError
from rsctl.runs import emulator
from rsctl.runs.home import home, run_directory
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.rehearsal.settings import EmulatorSettings, emulator_settings
from rsctl.targets.managed.rehearsal.start import start
from tests.kit.docker import needs_docker
from tests.kit.polling import wait_until
from tests.targets.managed.emulator.nodes.conftest import IMAGE, leftovers, owners

RUN = "job-aaaaaa"
CLOUD = "tests.kit.fake_cloud:FakeCloud"


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fake cloud can be imported, and none is left when a test ends."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    yield
    emulator.end(RUN)
    wait_until(lambda: not emulator.is_alive(RUN), "the emulator's end")


def settings(**fields: Any) -> EmulatorSettings:
    defaults = {"emulator": CLOUD, "runner": "process", "image": IMAGE, "source": "/"}
    return EmulatorSettings(**{**defaults, **fields})


def call(method: str, path: str) -> Any:
    variables = emulator.environment_of(RUN) or {}
    request = urllib.request.Request(variables["FAKE_CLOUD"] + path, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.fixture(params=["process", pytest.param("docker", marks=needs_docker)])
def busy(request: pytest.FixtureRequest) -> str:
    """A rehearsal with a node that does not end by itself; its owner."""
    start(RUN, settings(runner=request.param, idle_seconds=0.0001))
    call("POST", f"/begin/{IMAGE}")
    [owner] = owners(home())
    wait_until(lambda: leftovers(owner), "the node")
    return owner


def test_a_run_finds_its_cloud_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "the user's own")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    before = dict(os.environ)
    start(RUN, settings(options={"region": "here"}))
    variables = emulator.environment_of(RUN) or {}
    assert "AWS_PROFILE" not in variables
    assert variables["AWS_REGION"] == "here"
    assert variables["AWS_CONFIG_FILE"] == os.devnull
    assert variables["NO_PROXY"] == "intranet.example,127.0.0.1,localhost"
    assert variables["RSCTL_CLOUD_PACE"] == "0.05"
    endpoints = endpoints_of(RUN)
    assert endpoints == Endpoints.of_emulator(variables)
    assert (endpoints.is_emulator, endpoints.time_scale) == (True, 0.05)
    assert endpoints_of("another-aaaaaa") == Endpoints.of_environment()
    assert dict(os.environ) == before
    assert (run_directory(RUN) / "emulator.json").stat().st_mode & 0o777 == 0o600


def test_it_emulates_as_its_settings_say() -> None:
    behaviour = {"mood": "bad", "pace": 0.5}
    wanted = settings(options={"region": "here"}, behaviour=behaviour, buckets=["gs://b"])
    start(RUN, wanted)
    buckets = home() / "rehearsal" / "gs"
    expected = {"region": "here", "buckets": str(buckets), **behaviour}
    assert call("GET", "/where") == expected
    assert (buckets / "b").stat().st_mode & 0o777 == 0o777
    assert emulator_settings(RUN) == wanted
    environment = emulator.environment_of(RUN)
    assert environment
    assert environment["RSCTL_CLOUD_PACE"] == "0.5"


def test_it_outlives_who_has_started_it() -> None:
    script = (
        "import sys, msgspec\n"
        "from rsctl.targets.managed.rehearsal.settings import EmulatorSettings\n"
        "from rsctl.targets.managed.rehearsal.start import start\n"
        "settings = msgspec.json.decode(sys.argv[1], type=EmulatorSettings)\n"
        f"start({RUN!r}, settings)\n"
        "import os, signal; os.killpg(0, signal.SIGINT)\n"
    )
    argv = [sys.executable, "-c", script, msgspec.json.encode(settings()).decode()]
    done = subprocess.run(argv, start_new_session=True, capture_output=True)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert emulator.is_alive(RUN)
    assert call("GET", "/where")["region"] == "nowhere"


def test_it_ends_when_it_has_been_idle() -> None:
    start(RUN, settings(idle_seconds=0.0001))
    wait_until(lambda: not emulator.is_alive(RUN), "the end of an idle emulator")
    assert emulator.is_lost(RUN)
    assert (run_directory(RUN) / "emulator.log").read_text() == ""


def test_it_does_not_end_while_a_job_goes_on(busy: str) -> None:
    looks = call("GET", "/looks")
    wait_until(lambda: call("GET", "/looks") > looks + 2, "the emulator's looks")
    assert emulator.is_alive(RUN)


def test_asked_to_end_it_takes_everything_along(busy: str) -> None:
    emulator.end(RUN)
    wait_until(lambda: not emulator.is_alive(RUN), "its end")
    assert leftovers(busy) == []
    assert owners(home()) == []


def test_killed_it_leaves_nothing_after_the_next_command(busy: str) -> None:
    """Nor does the real cloud become the run's."""
    for process in _guards(busy):
        os.kill(process, signal.SIGKILL)
    os.kill(int((run_directory(RUN) / "emulator.lock").read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: emulator.is_lost(RUN), "its death")
    assert leftovers(busy)
    clean_up_dead_emulators()
    assert leftovers(busy) == []
    assert owners(home()) == []


def _guards(owner: str) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"nodes/guard.py {owner}-"],
        capture_output=True,
        text=True,
    )
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"behaviour": {"wrong": 1}}, "there is no field 'wrong'; use pace, mood"),
        ({"emulator": "rsctl.no_such:Cloud"}, "No module named 'rsctl.no_such'"),
    ],
)
def test_what_cannot_start_says_why(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RsctlError) as refused:
        start(RUN, settings(**fields))
    assert why in refused.value.findings[0].message
    assert emulator.environment_of(RUN) is None
    assert not emulator.is_lost(RUN)


def test_a_run_has_one_emulator() -> None:
    start(RUN, settings())
    with pytest.raises(RsctlError, match="does not start"):
        start(RUN, settings())
    assert call("GET", "/where")


def test_a_home_that_cannot_be_written(rsctl_home: Path) -> None:
    rsctl_home.write_text("a file")
    with pytest.raises(RsctlError, match="cannot write"):
        start(RUN, settings())
    rsctl_home.unlink()
