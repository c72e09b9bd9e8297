"""The contract of a tracker, and the data that it receives."""

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
    """One value of a metric. `tag` names the replica unless it is the chief; `seconds` are Unix
    time; `step` is the step in the log, otherwise it counts the values of the tag from 0.
    """

    tag: str
    step: int
    seconds: float
    value: float


class Result(NamedTuple):
    """How a run ended: its state, its samples by name, texts about it, and files for trackers that
    accept files, once the run's data is complete.
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
        """Texts for finding the run in the tracker."""
        return {
            "rsctl.run": self.run.run,
            "rsctl.job": self.run.name,
            "rsctl.target": self.run.target,
            "rsctl.url": self.run.url,
        }


class Tracker(Protocol):
    """One service for one run. A call that was interrupted is made again with the same data, so all
    methods must find the results of an earlier call. They raise TrackerError, RsctlError and
    OSError.
    """

    seconds_between: float
    """How long to gather metrics between two calls while the job runs."""

    takes_files: bool
    """Whether it stores files, see `run_files`."""

    def begin(self, state: State) -> None:
        """Create the run in the tracker, with its parameters."""

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """Add values of metrics."""

    def end(self, result: Result, state: State) -> None:
        """Add how the run ended; called again if more of its log arrives after its end."""


_LONGEST_PROBLEM = 480


def one_line(problem: object) -> str:
    """The text of a problem as one line. A long text loses its middle: clients write the URL and
    the request at the beginning, and the status or the server's answer at the end.
    """
    text = " ".join(str(problem).split())
    if len(text) <= _LONGEST_PROBLEM:
        return text
    half = _LONGEST_PROBLEM // 2
    return f"{text[: half - 3]} … {text[-half:]}"


class TrackerError(Exception):
    """A tracker cannot be reached or refuses the data; the text says why, in one line."""


class DataGone(TrackerError):
    """A tracker has lost data that it had received: it gets all data again."""
