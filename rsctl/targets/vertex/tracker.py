"""Vertex AI Experiments: a run of an experiment, as google-cloud-aiplatform makes them.

An experiment is a context `system.Experiment` of the project's default metadata store, a run a
context `system.ExperimentRun` below it, whose metadata hold parameters, the last value of each
metric, and a state. Values over time go to the experiment's TensorBoard, if it has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import sleep
from typing import Any

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.google import Google, body_of
from rsctl.findings import JobState
from rsctl.job.tracking import PlannedTracker
from rsctl.runs.stream.metrics import MACHINES
from rsctl.runs.tracker import MetricPoint, Result, State, TrackedRun, TrackerError
from rsctl.targets.vertex.tracker_series import BACKING, VertexSeries

_VERSION = "0.0.1"
_LONGEST_VALUE = 500
_STORE_TRIES = 60
_STATES = {JobState.SUCCEEDED: "COMPLETE", JobState.CANCELLED: "CANCELLED"}


class VertexExperiment:
    """See Tracker. Names come from the run's id and each write has all data, so nothing can be
    stored twice.
    """

    seconds_between = 10.0
    takes_files = False

    def __init__(self, planned: PlannedTracker, run: TrackedRun) -> None:
        endpoints = Endpoints.of_environment()
        self._google = Google(endpoints, planned.project)
        location = f"projects/{planned.project}/locations/{planned.region}"
        self._base = f"{endpoints.google_url('aiplatform', planned.region)}/v1/"
        self._stores = f"{location}/metadataStores"
        self._experiment = planned.location
        self._context = f"{planned.location}-{run.run.run}"
        self._pause = endpoints.time_scale
        self._run = run

    def begin(self, state: State) -> None:
        """See Tracker."""
        self._have_store()
        experiment = self._have_context(
            self._experiment,
            self._experiment,
            "system.Experiment",
            {"experiment_deleted": False},
        )
        metadata = {"_params": self._parameters(), "_metrics": {}, "_state": "RUNNING"}
        name = self._run.run.run
        self._have_context(self._context, name, "system.ExperimentRun", metadata)
        child = f"{self._stores}/default/contexts/{self._context}"
        path = f"{self._stores}/default/contexts/{self._experiment}:addContextChildren"
        self._call("POST", path, json={"childContexts": [child]})
        state["metrics"] = {}
        state["board"] = (experiment.get("metadata") or {}).get(BACKING)
        if series := self._series(state):
            series.begin(child)

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """See Tracker."""
        logged = [p for p in points if not p.tag.startswith(MACHINES)]
        if series := self._series(state):
            series.send(logged, state)
        chief = [p for p in logged if "/worker-" not in p.tag]
        fresh = {p.tag: p.value for p in chief}
        state["metrics"] = {**state.get("metrics", {}), **_finite(fresh)}
        self._update(state["metrics"], "RUNNING")

    def end(self, result: Result, state: State) -> None:
        """See Tracker."""
        metrics = {**state.get("metrics", {}), **_finite(result.named_samples)}
        self._update(metrics, _STATES.get(result.state, "FAILED"), result.texts)

    def _series(self, state: State) -> VertexSeries | None:
        """The run in the experiment's TensorBoard; None if it had none as the run began."""
        board = state.get("board")
        if not board:
            return None
        return VertexSeries(self._call, self._base, board, self._experiment, self._run.run.run)

    def _parameters(self) -> dict[str, Any]:
        """Numbers and texts, which is all that the SDK takes."""
        plain = {**self._run.tags, **self._run.parameters}
        return {
            name: value
            if type(value) in (int, float) and math.isfinite(value)
            else str(value)[:_LONGEST_VALUE]
            for name, value in plain.items()
        }

    def _update(
        self, metrics: Mapping[str, float], state: str, texts: Mapping[str, str] | None = None
    ) -> None:
        parameters = {**self._parameters(), **{f"rsctl.{n}": t for n, t in (texts or {}).items()}}
        metadata = {"_params": parameters, "_metrics": dict(metrics), "_state": state}
        path = f"{self._stores}/default/contexts/{self._context}"
        name = {"name": path, "metadata": metadata}
        self._call("PATCH", path, params={"updateMask": "metadata"}, json=name)

    def _have_store(self) -> None:
        """The default metadata store, which a project gets when it is first requested."""
        path = f"{self._stores}/default"
        if self._call("GET", path, ok=(200, 404)).status_code == 200:
            return
        asked = {"metadataStoreId": "default"}
        self._call("POST", self._stores, ok=(200, 409), params=asked, json={})
        for _ in range(_STORE_TRIES):
            if self._call("GET", path, ok=(200, 404)).status_code == 200:
                return
            sleep(self._pause)
        raise TrackerError("Vertex AI does not create the project's default metadata store")

    def _have_context(
        self, name: str, shown: str, schema: str, metadata: dict[str, Any]
    ) -> dict[str, Any]:
        """The context, made if it does not exist."""
        body = {
            "displayName": shown,
            "schemaTitle": schema,
            "schemaVersion": _VERSION,
            "metadata": metadata,
        }
        path = f"{self._stores}/default/contexts"
        made = self._call("POST", path, ok=(200, 409), params={"contextId": name}, json=body)
        if made.status_code != 409:
            return body_of(made)
        found = body_of(self._call("GET", f"{path}/{name}"))
        if found.get("schemaTitle") != schema:
            raise TrackerError(
                f"{name} already exists as a {found.get('schemaTitle')}, not as a {schema}"
            )
        return found

    def _call(self, method: str, path: str, ok: tuple[int, ...] = (200,), **options: Any) -> Any:
        return self._google.request(method, self._base + path, ok=ok, path="tracking", **options)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    """The finite numbers, which JSON can represent; the others keep their last finite value."""
    return {name: value for name, value in values.items() if math.isfinite(value)}
