"""A target in a distribution of others, by the command line, with nothing inside rsctl changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from tests.kit.command_forks import Command
from tests.kit.polling import DEADLINE_SECONDS

_MODULE = """
from typing import Literal
import msgspec
from msgspec.structs import replace
from rsctl.targets.testing import fake

class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    niceness: int = 0
    zone: Literal["north", "south"] = "north"

INFO = replace(fake.INFO, name="mycloud", title="My Cloud", target="mycloud:TARGET",
               options="mycloud:Options")
TARGET = fake.FakeTarget(INFO)
"""
JOB = """
name: third
target: mycloud
image: {source: source}
run: {command: [bash, -c, "echo loss=0.5; sleep $PAUSE"], launcher: once, env: {PAUSE: "0"}}
workers: {machine: {mycloud: small}}
targets: {mycloud: {zone: south}}
metrics: {loss: {regex: 'loss=([0-9.]+)', goal: min}}
"""


class Installed:
    """A folder of its own with an installed distribution, and the command line there."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder, self._server = folder, server
        site = folder / "site"
        info = site / "mycloud-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "mycloud.py").write_text(_MODULE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mycloud\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[rsctl.targets]\nmycloud = mycloud:INFO\n")
        (folder / "source").mkdir()
        (folder / "source" / "README").touch()
        self.env = {**os.environ, "PYTHONPATH": str(site), "RSCTL_HOME": str(folder / "home")}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        options = {"cwd": self.folder, "env": self.env}
        pipes = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE}
        with Command(self._server, *arguments, **options, **pipes) as process:
            stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == code, stderr
        return stdout or stderr

    def write(self, text: str) -> None:
        (self.folder / "job.yaml").write_text(text)


@pytest.fixture
def rsctl(tmp_path: Path, command_server: Path) -> Installed:
    made = Installed(tmp_path, command_server)
    made.write(JOB)
    return made


def test_a_job_of_it_is_checked_with_positions(rsctl: Installed) -> None:
    rsctl("validate", "job.yaml")
    rsctl.write(JOB.replace("zone: south", "zone: est"))
    found = rsctl("validate", "job.yaml", code=2)
    assert "job.yaml:7:27: error" in found
    assert "expected one of north, south, got the text 'est'" in found
    rsctl.write(JOB.replace("zone: south", "zoen: south"))
    assert "did you mean 'zone'?" in rsctl("validate", "job.yaml", code=2)
    rsctl.write(JOB.replace("target: mycloud", "target: mycluod"))
    assert "did you mean 'mycloud'?" in rsctl("validate", "job.yaml", code=2)
    rsctl.write(JOB.replace("workers: {", "workers: {count: 2, "))
    assert "target mycloud: it runs one process" in rsctl("validate", "job.yaml", code=2)


def test_an_input_has_a_location_on_it(rsctl: Installed) -> None:
    given = "inputs: {data: {uri: {vertex: gs://bucket/x, mycloud: ./source}}}\n"
    rsctl.write(JOB + given)
    planned = json.loads(rsctl("plan", "job.yaml", "-o", "json"))
    assert planned["env"]["RSCTL_INPUT_DATA"] == str(rsctl.folder / "source")
    rsctl.write(JOB + given.replace("mycloud", "myclod"))
    assert "did you mean 'mycloud'?" in rsctl("validate", "job.yaml", code=2)
    rsctl.write(JOB + given.replace("}}}", "}, mode: copy}}"))
    found = rsctl("validate", "job.yaml", code=2)
    assert "target mycloud does not copy data to its nodes" in found
    rsctl.write(JOB + given.replace(", mycloud: ./source", ""))
    found = rsctl("validate", "job.yaml", code=2)
    assert "input data has no location for target mycloud" in found
    assert "add inputs.data.uri.mycloud: ./PATH" in found


def test_it_is_in_the_schema(rsctl: Installed) -> None:
    schema = json.loads(rsctl("schema"))
    assert "mycloud" in schema["properties"]["target"]["anyOf"][0]["enum"]
    assert "zone" in schema["$defs"]["mycloud.Options"]["properties"]


def test_a_job_runs_on_it(rsctl: Installed) -> None:
    planned = json.loads(rsctl("plan", "job.yaml", "-o", "json"))
    assert (planned["target"], planned["pools"][0]["count"]) == ("mycloud", 1)
    events = [json.loads(x) for x in rsctl("submit", "job.yaml", "-o", "json").splitlines()]
    assert events[-1]["state"] == "succeeded"
    assert events[-1]["metrics"]["loss"]["last"] == 0.5
    run = events[-1]["run"]
    assert "loss=0.5" in rsctl("logs", run)
    assert json.loads(rsctl("status", run, "-o", "json"))["target"] == "mycloud"


def test_a_job_on_it_is_cancelled(rsctl: Installed) -> None:
    run = rsctl("submit", "job.yaml", "--set", "run.env.PAUSE='600'", "--detach").strip()
    rsctl("cancel", run)
    rsctl("logs", "-f", run)
    assert json.loads(rsctl("status", run, "-o", "json"))["state"] == "cancelled"


def test_a_bench_of_it(rsctl: Installed) -> None:
    done = rsctl("bench", "run", "job.yaml", "-t", "mycloud", "--repeat", "2", "-o", "json")
    result = json.loads(done.splitlines()[-1])
    assert (result["type"], result["state"]) == ("result", "succeeded")
