"""Runs of the real command line, each with an RSCTL_HOME of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from rsctl.cli.app import run as run_in_process
from tests.kit import command_forks
from tests.kit.polling import DEADLINE_SECONDS, wait_until

SOON: dict[str, dict[str, float]] = {
    "vertex": {"provision": 2, "stagger": 2},
    "sagemaker": {"launch": 2, "prepare": 2, "image": 2, "interrupted": 10},
}
"""The behaviour of clouds whose machines come soon, for tests that are not about that time."""


def rehearsed(target: str, runner: str = "process") -> tuple[str, ...]:
    """The options of a rehearsal on such a cloud."""
    soon = [
        word for name, value in SOON[target].items() for word in ("--behaviour", f"{name}={value}")
    ]
    return ("-t", target, "--rehearse", "--rehearse-with", runner, *soon)


@dataclass
class Done:
    """What a command line printed and how it ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        assert self.events[-1]["type"] == "result"
        return self.events[-1]


class Rsctl:
    """Calls rsctl as a user would: `rsctl(...)` in a process of its own, see `command_forks`.

    What only looks at runs (`status`, `runs`, `log`) is called in this process, since tests wait
    for what it says, and a start of a process for each look would slow down what they wait for.
    """

    def __init__(self, home: Path, folder: Path, server: Path) -> None:
        self.home = home
        self._server = server
        self.folder = folder
        self.env = {**os.environ, "RSCTL_HOME": str(home), "CI": "", "NO_COLOR": ""}
        self._started: list[subprocess.Popen[str]] = []
        self.emulators: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str, **env: str) -> Done:
        process = self.start(*arguments, **env)
        # A whole command may build an image and train, which takes minutes on a busy machine.
        stdout, stderr = process.communicate(timeout=2 * DEADLINE_SECONDS)
        return Done(process.returncode, stdout, stderr)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        options: dict[str, Any] = {
            "env": {**self.env, **env},
            "cwd": self.folder,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        process: subprocess.Popen[str]
        if any(name.startswith("PYTHON") for name in env):  # a test of what Python imports
            command = [sys.executable, "-m", "rsctl", *arguments]
            process = subprocess.Popen(command, text=True, **options)
        else:
            process = command_forks.Command(self._server, *arguments, **options)
        self._started.append(process)
        return process

    def emulate(self, cloud: str, *faults: str) -> dict[str, str]:
        """Start an emulated cloud with these faults; returns the variables by which commands find
        it, as they do from then on.
        """
        process = self.start(
            *("emulate", cloud, "--runner", "process", "--source", str(self.folder)),
            *("-o", "json", "--pace", "0.01"),
            *(word for fault in faults for word in ("--fault", fault)),
        )
        self.emulators.append(process)
        assert process.stdout
        text = ""
        for printed in process.stdout:
            text += printed
            if printed == "}\n":
                break
        environment: dict[str, str] = json.loads(text)["environment"]
        self.env |= environment
        return environment

    def look(self, *arguments: str) -> Done:
        """A command that only reads, in this process."""
        before = Path.cwd()
        out, err = io.BytesIO(), io.BytesIO()
        stdout, stderr = (io.TextIOWrapper(raw, write_through=True) for raw in (out, err))
        os.chdir(self.folder)
        try:
            with patch.dict(os.environ, self.env), redirect_stdout(stdout), redirect_stderr(stderr):
                code = run_in_process(list(arguments))
        finally:
            os.chdir(before)
        return Done(code, out.getvalue().decode(), err.getvalue().decode())

    def write_job(self, **keys: Any) -> str:
        """A job file; `bash=` is short for a command that runs once on each worker."""
        script = keys.pop("bash", None)
        if script is not None:
            keys["run"] = {"command": ["bash", "-c", script], "launcher": "once"}
        keys.setdefault("name", "t")
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        (source / "README").touch()
        keys["image"] = {"source": "source", **keys.get("image", {})}
        (self.folder / "job.yaml").write_text(yaml.safe_dump(keys))
        return "job.yaml"

    def detach(self, *arguments: str, **env: str) -> str:
        """Submit a job without watching it; returns the run id."""
        done = self("submit", "--detach", *arguments, **env)
        assert done.exit_code == 0, done.stderr
        return done.stdout.strip()

    def status(self, run: str) -> dict[str, Any]:
        return json.loads(self.look("status", run, "-o", "json").stdout)

    def runs(self) -> list[dict[str, Any]]:
        return json.loads(self.look("list", "-o", "json").stdout)["runs"]

    def log(self, run: str) -> str:
        return self.look("logs", run).stdout

    def wait_for_log(self, run: str, text: str) -> None:
        wait_until(lambda: text in self.log(run), f"{text!r} in the log of {run}")

    def supervisor(self, run: str) -> int:
        return int((self.home / "runs" / run / "supervisor.lock").read_text().split()[0])

    def processes(self, run: str) -> list[int]:
        """Everything alive that belongs to a run, its supervisor not included."""
        from rsctl.targets.local.backend import processes_of

        return processes_of(run)

    def close(self) -> None:
        for emulator in self.emulators:
            emulator.send_signal(signal.SIGINT)
            emulator.communicate(timeout=DEADLINE_SECONDS)
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()
        for run in self.runs():
            if run["ended"] is None:
                self("cancel", run["run"])


@pytest.fixture
def rsctl(tmp_path: Path, command_server: Path) -> Iterator[Rsctl]:
    (tmp_path / "work").mkdir()
    caller = Rsctl(tmp_path / "home", tmp_path / "work", command_server)
    yield caller
    caller.close()
