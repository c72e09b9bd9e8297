"""The data of a report about a run: everything in the store and the run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsctl.bench.fingerprint import run_print
from rsctl.bench.phases import Measured, phases_of
from rsctl.bench.samples import Sample
from rsctl.findings import Finding
from rsctl.results.report.reading import Curve, Readings, StepArrivals, read_values
from rsctl.runs.cost import cost_of
from rsctl.runs.findings import findings_of
from rsctl.runs.folder import RunFolder
from rsctl.runs.goodput_records import Goodput, goodput_of
from rsctl.runs.gradients import gradients_of
from rsctl.runs.home import is_rehearsed
from rsctl.runs.profiles import profiles_of
from rsctl.runs.reader import StateReader
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, StateEvent, parse_time
from rsctl.runs.stream.gradients import Gradients
from rsctl.runs.stream.metrics import MACHINES
from rsctl.runs.stream.profiles import RankProfile
from rsctl.runs.versions import versions_of

Series = Mapping[str, Sequence[MetricEvent]]
"""The values of one metric by replica."""


@dataclass(frozen=True)
class RunData:
    """The data of one run. `locations` are the locations of its results."""

    run: RunRecord
    is_rehearsed: bool
    states: Sequence[StateEvent]
    metrics: Mapping[str, Series]
    """The values of long series that a chart can show."""
    headlines: Mapping[str, Sequence[MetricEvent]]
    """For each metric of the job its headline series, thinned in the same way."""
    curves: Mapping[str, Mapping[str, Curve]]
    arrivals: Mapping[str, StepArrivals]
    phases: Mapping[str, Measured]
    cost: tuple[float | None, str | None]
    goodput: Goodput
    samples: Mapping[str, Sample]
    gradients: Gradients | None
    versions: Mapping[str, Mapping[str, str]]
    findings: Sequence[Finding]
    fixed: Mapping[str, Any]
    shown: Mapping[str, Any]
    locations: Mapping[str, str] = field(default_factory=dict)
    profiles: Sequence[RankProfile] = ()

    def logged(self) -> list[str]:
        """The names of the metrics of the job itself, those first that its file declares."""
        names = [n for n in self.metrics if not n.startswith(MACHINES)]
        return [
            *(n for n in self.run.metrics_spec if n in names),
            *(n for n in names if n not in self.run.metrics_spec),
        ]

    def seconds(self, time: str) -> float | None:
        """Seconds from the submission to a time; None if the time is invalid."""
        try:
            return (parse_time(time) - parse_time(self.run.created)).total_seconds()
        except ValueError:
            return None

    def unit(self, name: str) -> str:
        """The unit of a metric, empty if it is not declared."""
        spec = self.run.metrics_spec.get(name)
        return (spec.unit if spec else None) or ""


def collect(
    store: Store,
    run: RunRecord,
    locations: Mapping[str, str],
    readings: Readings | None = None,
) -> RunData:
    """The data of a run, whose values may have been read already. Raises StoreError."""
    readings = readings or read_values(store, run)
    fixed, shown = run_print(store, run)
    return RunData(
        run=run,
        is_rehearsed=is_rehearsed(run.run),
        states=states_of(run.run),
        metrics=readings.series(),
        headlines=readings.headline_series(),
        curves=readings.curves,
        arrivals=readings.arrivals,
        phases=phases_of(run, readings.samples.first),
        cost=cost_of(run),
        goodput=goodput_of(store, run),
        samples=readings.samples.samples(store),
        gradients=gradients_of(store, run),
        versions=versions_of(store, run.run),
        findings=findings_of(run.run, run.state.is_final),
        fixed=fixed,
        shown=shown,
        locations=locations,
        profiles=profiles_of(store, run.run),
    )


def states_of(run: str) -> list[StateEvent]:
    """The states of a run and of its replicas, from its folder."""
    events = StateReader(RunFolder(run).states).read()
    return [event for event in events if isinstance(event, StateEvent)]
