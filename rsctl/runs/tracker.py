"""The contract of a tracker, and what it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rsctl.findings import JobState
from rsctl.runs.records import RunRecord
from rsctl.runs.stream.events import parse_time

State = dict[str, Any]
"""The state of a tracker between calls, as JSON: IDs of its service, sizes of its files."""


class MetricPoint(NamedTuple):
    """One value of a metric. `tag` has the replica unless that is the chief; `seconds` are Unix
    time; `step` is the log's, or else counts the values of the tag from 0.
    """

    tag: str
    step: int
    seconds: float
    value: float


class Result(NamedTuple):
    """How a run ended: its state, its samples by name, texts about it, and files for trackers that
    take some, once nothing more comes of the run.
    """

    state: JobState
    seconds: float
    samples: Mapping[str, float]
    texts: Mapping[str, str]
    files: Sequence[Path] = ()

    @property
    def named_samples(self) -> dict[str, float]:
        """The run's own samples, and its metrics' samples as `sample/NAME`, which no metric has."""
        return {
            name if name.startswith("run.") else f"sample/{name}": value
            for name, value in self.samples.items()
        }


class TrackedRun(NamedTuple):
    """A run as trackers see it."""

    run: RunRecord
    parameters: Mapping[str, Any]

    @property
    def created(self) -> float:
        """Unix time of the submission."""
        return parse_time(self.run.created).timestamp()

    @property
    def tags(self) -> dict[str, str]:
        """Texts by which the run is found again."""
        return {
            "rsctl.run": self.run.run,
            "rsctl.job": self.run.name,
            "rsctl.target": self.run.target,
            "rsctl.url": self.run.url,
        }


class Tracker(Protocol):
    """One service for one run. What a call was made for is sent again if it was cut short, so all
    methods find what an earlier call has made. They raise TrackerError, RsctlError and OSError.
    """

    seconds_between: float
    """How long to gather metrics between two calls while the job runs."""

    takes_files: bool
    """Whether it has a place for files, see `run_files`."""

    def begin(self, state: State) -> None:
        """Make what represents the run, with its parameters."""

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """Add values of metrics."""

    def end(self, result: Result, state: State) -> None:
        """Add how the run ended; called again when more of its log has come after its end."""


_LONGEST_PROBLEM = 480


def one_line(problem: object) -> str:
    """The text of a problem as one line. Of a long one the middle is left out: clients write the
    URL and what they tried at first, and at the end the status or what the server answered.
    """
    text = " ".join(str(problem).split())
    if len(text) <= _LONGEST_PROBLEM:
        return text
    half = _LONGEST_PROBLEM // 2
    return f"{text[: half - 3]} … {text[-half:]}"


class TrackerError(Exception):
    """A tracker cannot be reached or refuses what it is sent; the text says why, in one line."""
