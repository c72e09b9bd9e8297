"""Command lines, in this process or in one of their own, and runs that never ran."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.cli.app import run as run_in_process
from rsctl.findings import JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import Event, Failure, MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.targets.local import compose, process
from tests.kit import command_forks
from tests.kit.commands import Done
from tests.kit.polling import DEADLINE_SECONDS


class Cli:
    """Calls rsctl: `rsctl(...)` in this process, `rsctl.process(...)` in one of its own, see
    `command_forks`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], server: Path) -> None:
        self.folder = folder
        self._capsys = capsys
        self._server = server

    def __call__(self, *arguments: str) -> Done:
        self._capsys.readouterr()
        code = run_in_process(list(arguments))
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "rsctl", *arguments]

    def process(self, *arguments: str, stdin: str = "", **env: str) -> Done:
        if not any(name.startswith("PYTHON") for name in env):
            environ = {**os.environ, **env}
            return command_forks.run(self._server, *arguments, stdin=stdin, env=environ)
        done = subprocess.run(
            self.argv(*arguments),
            env={**os.environ, **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def terminal(self, *arguments: str, stdout: int | None = None, **env: str) -> Done:
        """Its `out` is all that the terminal got, which is standard error too."""
        parent, child = pty.openpty()
        shown = b""
        with subprocess.Popen(
            self.argv(*arguments),
            env={**os.environ, **env},
            stdin=child,
            stdout=child if stdout is None else stdout,
            stderr=child,
        ) as process:
            os.close(child)
            with suppress(OSError):  # the other side has closed
                while block := os.read(parent, 4096):
                    shown += block
        os.close(parent)
        return Done(process.returncode, shown.decode(), "")

    def shell(self, line: str) -> Done:
        """A line of bash in which `rsctl` is this one."""
        script = f'set -o pipefail; rsctl() {{ "{sys.executable}" -m rsctl "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def write(self, text: str, name: str = "job.yaml") -> str:
        """A file in the current folder."""
        (self.folder / name).write_text(text)
        return name


@pytest.fixture
def rsctl(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command_server: Path,
) -> Cli:
    """The command line in an empty folder, but for `src`, which has a script."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print('loss=1')\n")
    monkeypatch.chdir(folder)
    return Cli(folder, capsys, command_server)


@pytest.fixture
def runs_end_with_the_test(rsctl: Cli) -> Iterator[None]:
    """Cancels the runs that still go on."""
    yield
    for run in rsctl("list", "-o", "json").json["runs"]:
        if run["ended"] is None:
            rsctl("cancel", run["run"])


def at(second: float) -> str:
    """A time on the day when the made runs ran."""
    return f"2026-01-31T12:00:{second:09.6f}Z"


LOSS = MetricSpec("loss=(.*)", goal="min", unit="nats")


class MadeRun:
    """A run in the store and on the disk as a supervisor leaves it, with times of our choice."""

    def __init__(
        self,
        run: str,
        workers: int = 2,
        second: float = 0,
        target: str = "process",
        spec: str | None = None,
        metrics_spec: dict[str, MetricSpec] | None = None,
        **plan: Any,
    ) -> None:
        self.run = run
        self.replicas = [f"worker-{index}" for index in range(workers)]
        self.folder = RunFolder(run)
        self.folder.create(
            RunDescription(run=run, target=target, request={"commands": []}, replicas=self.replicas)
        )
        pool = {"role": "worker", "count": workers}
        self.store = Store()
        self.store.add(
            RunRecord(
                run=run,
                name=run.rpartition("-")[0],
                target=target,
                url=f"{target}://{run}",
                state=JobState.QUEUED,
                created=at(second),
                plan={"run": run, "pools": [pool], **plan},
                spec=spec,
                metrics_spec={"loss": LOSS} if metrics_spec is None else metrics_spec,
            )
        )

    def log(self, second: float, text: str, replica: str = "worker-0", stream: str = "o") -> None:
        with self.folder.log(replica).open("a") as file:
            file.write(f"{at(second)} {stream} {text}\n")

    def state(self, second: float, state: JobState, **fields: Any) -> None:
        self._note(StateEvent(time=at(second), state=state, **fields))

    def _note(self, event: StateEvent) -> None:
        self.store.record(self.run, event)
        self.tell(event)

    def tell(self, event: Event) -> None:
        with self.folder.states.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")

    def metric(self, second: float, name: str, value: float, **fields: Any) -> None:
        self.metrics([(second, name, value, fields)])

    def metrics(self, values: Iterable[tuple[float, str, float, dict[str, Any]]]) -> None:
        """Many at once, each with what `metric` takes."""
        events = [
            MetricEvent(
                time=at(second), name=name, value=value, **{"replica": "worker-0", **fields}
            )
            for second, name, value, fields in values
        ]
        self.store.add_metrics(self.run, events)

    def succeed(self, second: float) -> MadeRun:
        for replica in self.replicas:
            self.state(second, JobState.SUCCEEDED, replica=replica, exit_code=0)
        self.state(second, JobState.SUCCEEDED, exit_code=0)
        return self

    def fail(self, second: float, failure: Failure) -> MadeRun:
        wake = f"as a result of the failure of {failure.replica}"
        for replica in self.replicas:
            first = replica == failure.replica
            code = failure.exit_code if first else 1
            reason = None if first else wake
            self.state(second, JobState.FAILED, replica=replica, exit_code=code, reason=reason)
        self.store.record_failure(self.run, failure)
        reason = f"{failure.replica} failed with exit code {failure.exit_code}"
        self.state(second, JobState.FAILED, exit_code=1, reason=reason)
        return self


@pytest.fixture
def make_run(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MadeRun]:
    """Makes a run that has started: `make_run("job-aaaaaa", workers=2)`.

    Targets know nothing of one of the same id that an earlier test has cancelled.
    """
    for target in (process.TARGET, compose.TARGET):
        monkeypatch.setattr(target, "_cancelled", {})

    def make(run: str = "job-aaaaaa", workers: int = 2, second: float = 0, **how: Any) -> MadeRun:
        made = MadeRun(run, workers, second, **how)
        made.state(second + 1, JobState.RUNNING)
        return made

    return make
