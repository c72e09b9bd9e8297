"""Values over time of an experiment's run on Vertex AI, as google-cloud-aiplatform makes them.

They are in the TensorBoard instance that backs the experiment: an experiment and a run there, with
a time series a metric. A metadata artifact of the run's context has their location, by which the
SDK's `get_time_series_data_frame` finds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from rsctl.clients.errors import next_page
from rsctl.clients.google import body_of
from rsctl.runs.tracker import MetricPoint, State

BACKING = "backing_tensorboard_resource"
"""The key of the TensorBoard in the metadata of an experiment's context."""

_SCHEMA = {"schemaTitle": "google.VertexTensorboardRun", "schemaVersion": "0.0.1"}
_LABELS = {"vertex_tensorboard_experiment_source": "vertex_experiment"}


class VertexSeries(NamedTuple):
    """The run in its experiment's TensorBoard. A value that is written again at its step replaces
    the stored one. `call` sends a request to Vertex AI; `service` is its address.
    """

    call: Callable[..., Any]
    service: str
    board: str
    experiment: str
    run: str

    @property
    def _run(self) -> str:
        return f"{self.board}/experiments/{self.experiment}/runs/{self.run}"

    def begin(self, context: str) -> None:
        """Create the run there, and name it in its metadata context."""
        experiments = f"{self.board}/experiments"
        shown = {"displayName": self.experiment, "labels": _LABELS}
        self._have(experiments, "tensorboardExperimentId", self.experiment, shown)
        runs = f"{experiments}/{self.experiment}/runs"
        self._have(runs, "tensorboardRunId", self.run, {"displayName": self.run})
        store, _, identity = context.rpartition("/contexts/")
        artifact = {
            **_SCHEMA,
            "uri": f"{self.service}{self._run}",
            "state": "LIVE",
            "metadata": {"resourceName": self._run, "vertex_experiment_tracking": True},
        }
        name = f"{identity}-tb-run"
        self._have(f"{store}/artifacts", "artifactId", name, artifact)
        added = {"artifacts": [f"{store}/artifacts/{name}"]}
        self.call("POST", f"{context}:addContextArtifactsAndExecutions", json=added)

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """Write values of metrics; `state` keeps the ids of their time series."""
        known: dict[str, str] = state.setdefault("series", {})
        tags = dict.fromkeys(point.tag for point in points)
        if any(tag not in known for tag in tags):
            known |= self._listed()
        for tag in tags:
            if tag not in known:
                known[tag] = self._create(tag)
        data = [
            {
                "tensorboardTimeSeriesId": known[tag],
                "valueType": "SCALAR",
                "values": [_value(point) for point in points if point.tag == tag],
            }
            for tag in tags
        ]
        if data:
            body = {"tensorboardRun": self._run, "timeSeriesData": data}
            self.call("POST", f"{self._run}:write", json=body)

    def _listed(self) -> dict[str, str]:
        """The ids of all time series of the run, by their metrics."""
        found, page = {}, ""
        while True:
            asked = {"pageSize": "1000", **({"pageToken": page} if page else {})}
            answer = body_of(self.call("GET", f"{self._run}/timeSeries", params=asked))
            for each in answer.get("tensorboardTimeSeries", []):
                found[each["displayName"]] = each["name"].rpartition("/")[2]
            page = next_page("Vertex AI", answer.get("nextPageToken"), page)
            if not page:
                return found

    def _create(self, tag: str) -> str:
        body = {"displayName": tag, "valueType": "SCALAR", "pluginName": "scalars"}
        made = body_of(self.call("POST", f"{self._run}/timeSeries", json=body), "name")
        return str(made["name"].rpartition("/")[2])

    def _have(self, path: str, parameter: str, identity: str, body: dict[str, Any]) -> None:
        self.call("POST", path, ok=(200, 409), params={parameter: identity}, json=body)


def _value(point: MetricPoint) -> dict[str, Any]:
    """A value as the JSON of a protocol buffer, which has texts for NaN and infinities."""
    value: float | str = point.value
    if not math.isfinite(point.value):
        value = "NaN" if math.isnan(point.value) else f"{'-' if point.value < 0 else ''}Infinity"
    at = datetime.fromtimestamp(point.seconds, timezone.utc)
    return {
        "step": str(point.step),
        "wallTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "scalar": {"value": value},
    }
