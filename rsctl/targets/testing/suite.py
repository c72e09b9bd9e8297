"""Common parts of the tests of the suite: jobs, runs, and observations of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import yaml

from rsctl.findings import JobState, RsctlError
from rsctl.images.events import BuildEvent
from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.plan import make_plan
from rsctl.runs.ids import new_run_id
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Event, LogEvent, StateEvent
from rsctl.targets import get
from rsctl.targets.base import Submission, Target, new_run
from rsctl.targets.testing.spec_keys import merged

HIDDEN_VALUE = "hidden-value-of-the-suite"
LINES = 5
COUNT = f"""
import time
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.3)
"""
WAIT = """
import time
print("line 0", flush=True)
time.sleep(600)
"""
LOSS = """
for step in range(3):
    print(f"line {step} loss={0.5 - step / 10}", flush=True)
"""
FAIL = """
import sys
print("line 0", flush=True)
sys.exit(3)
"""


class Suite:
    """Tests of one target, named by a subclass."""

    target_name: ClassVar[str]
    """The name by which the target is installed."""
    job_keys: ClassVar[dict[str, Any]] = {}
    """Keys that its jobs need beside `name`, `run` and `workers`."""
    regions: ClassVar[tuple[str, ...]] = ()
    """Two regions, for a target that tries several; by default those of its catalogue."""
    deadline: ClassVar[float] = 90.0
    """Seconds that a job of a few lines may take on it, from its submission to its end."""
    answer_seconds: ClassVar[float] = 10.0
    """Seconds within which a call that must not wait returns."""

    @pytest.fixture(autouse=True)
    def rsctl_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A store of the test's own."""
        home = tmp_path / "rsctl-home"
        monkeypatch.setenv("RSCTL_HOME", str(home))
        return home

    @pytest.fixture
    def target(self) -> Target:
        """The installed target."""
        return get(self.target_name)

    @pytest.fixture
    def plan(self, tmp_path: Path, target: Target) -> Callable[..., Submission]:
        """Plans a job of some lines of Python, with settings, by a run's id."""

        def make(script: str = COUNT, run: str | None = None, **keys: Any) -> Submission:
            return make_plan(self.job(tmp_path, script, **keys), target, run or new_run_id("suite"))

        return make

    def planned(
        self, folder: Path, keys: Mapping[str, Any], *may_refuse: str, script: str = COUNT
    ) -> Submission | None:
        """A job with the keys of its file; None if the target refuses one of these with an error.

        A target need not take several nodes, for instance, but it has to say so.
        """
        job = self.job(folder, script, **keys)
        try:
            return make_plan(job, get(self.target_name), new_run_id("suite"))
        except RsctlError as problem:
            if not any(f.is_error and f.path in may_refuse for f in problem.findings):
                raise
            return None

    def job(self, folder: Path, script: str, **keys: Any) -> Job:
        """A job of some lines of Python; `keys` are of its file."""
        source = folder / "source"
        source.mkdir(exist_ok=True)
        (source / "README").touch()
        run = {"command": ["python3", "-u", "-c", script], "launcher": "once"}
        run["env"] = {"TOKEN": "${TOKEN}"}  # type: ignore[assignment]
        image = {"source": str(source)}
        file = {"name": "suite", "target": self.target_name, "run": run, "image": image}
        path = folder / "job.yaml"
        path.write_text(yaml.safe_dump(merged(file, {**self.job_keys, **keys})))
        return read(str(path), (), {"TOKEN": HIDDEN_VALUE}).require_job()

    def submit(self, target: Target, submission: Submission) -> str:
        """Submit it as the command line does; its run."""
        run = submission.plan.run
        began = time.monotonic()

        def record() -> None:
            store = Store()
            if store.get(run) is None:
                store.add(new_run(submission))
            store.close()

        target.submit(submission, record, ignore)
        assert time.monotonic() - began < self.deadline
        assert Store().get(run) is not None, "submit did not call record"
        return run

    def follow(self, target: Target, run: str) -> list[Event]:
        """All events of a run to its end."""
        return flat(self.within(target.events(run, {}, follow=True)))

    def cancel(self, target: Target, run: str) -> None:
        """Cancel it, which must not wait for its end."""
        began = time.monotonic()
        target.cancel(run)
        assert time.monotonic() - began < self.answer_seconds

    def within(self, batches: Iterator[list[Event]]) -> Iterator[list[Event]]:
        """The batches, as long as they come in time."""
        until = time.monotonic() + self.deadline
        for batch in batches:
            yield batch
            assert time.monotonic() < until, "the events of the run do not end"

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until something is so, or the deadline has passed."""
        until = time.monotonic() + self.deadline
        while not condition():
            assert time.monotonic() < until, f"timed out waiting for {what}"
            time.sleep(0.05)


def ignore(_: BuildEvent) -> None:
    """The progress of a build is of no interest."""


def shown(submission: Submission) -> str:
    return msgspec.json.encode(submission.plan).decode()


def stored(run: str) -> RunRecord:
    store = Store()
    record = store.find(run)
    store.close()
    return record


def flat(batches: Iterator[list[Event]]) -> list[Event]:
    return list(itertools.chain.from_iterable(batches))


def log_lines(events: list[Event]) -> list[LogEvent]:
    return [e for e in events if isinstance(e, LogEvent) and e.text.startswith("line ")]


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in log_lines(events)]


def job_states(events: list[Event]) -> list[JobState]:
    return [e.state for e in events if isinstance(e, StateEvent) and e.replica is None]
