"""MLflow: a run of the job's experiment, by MLflow's own client (extra `mlflow`)."""

from __future__ import annotations

import logging
import os
import posixpath
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from rsctl.clients.private import host_of, is_private, not_private, without_secrets
from rsctl.findings import JobState
from rsctl.installation import needs_extra
from rsctl.runs.stream.formatting import distinct_name
from rsctl.runs.tracker import MetricPoint, Result, State, TrackedRun, TrackerError, one_line

_CONNECT_SECONDS = 5.0
_LONGEST_NAME = 250
_LONGEST_VALUE = 500
_OTHER_CHARACTERS = re.compile(r"[^\w.:/ -]")
_CREDENTIALS_REMEDY = (
    " (set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD)"
)
_CREDENTIALS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
_STATUS = {
    JobState.SUCCEEDED: "FINISHED",
    JobState.CANCELLED: "KILLED",
}


class MlflowServer:
    """See Tracker. A run is found by its tag `rsctl.run`; a value that a server has already is not
    added by it a second time.
    """

    seconds_between = 2.0
    takes_files = True

    def __init__(self, uri: str, run: TrackedRun) -> None:
        has_credentials = any(os.environ.get(name) for name in _CREDENTIALS)
        is_server = uri.lower().startswith(("http:", "https:"))
        if is_server and not is_private(uri) and (has_credentials or host_of(uri) is None):
            raise not_private(f"the MLflow server is {without_secrets(uri)!r}", uri)
        message = "tracking with MLflow needs its client, which is not installed"
        with needs_extra("mlflow", "extra", message, "install it: {}"):
            from mlflow import MlflowClient
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        self._uri, self._run = uri, run
        self._client: Any = MlflowClient(tracking_uri=uri)

    def begin(self, state: State) -> None:
        """See Tracker."""
        with self._answers():
            state["run_id"] = self._find_or_create()
            from mlflow.entities import Param

            params = [
                Param(_name(name), str(value)[:_LONGEST_VALUE] or "-")
                for name, value in self._run.parameters.items()
            ]
            # The client divides what is more than a server takes in one request.
            self._client.log_batch(state["run_id"], params=params)

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """See Tracker."""
        with self._answers():
            from mlflow.entities import Metric

            metrics = [Metric(_name(p.tag), p.value, int(p.seconds * 1000), p.step) for p in points]
            self._client.log_batch(state["run_id"], metrics=metrics)

    def end(self, result: Result, state: State) -> None:
        """See Tracker."""
        at = int(result.seconds * 1000)
        with self._answers():
            from mlflow.entities import Metric, RunTag

            metrics = [Metric(_name(n), v, at, 0) for n, v in result.named_samples.items()]
            texts = {"state": result.state.value, **result.texts}
            tags = [RunTag(f"rsctl.{name}", text) for name, text in texts.items()]
            self._client.log_batch(state["run_id"], metrics=metrics, tags=tags)
            status = _STATUS.get(result.state, "FAILED")
            self._client.set_terminated(state["run_id"], status, at)
            for file in result.files:
                self._client.log_artifact(state["run_id"], str(file))

    def _find_or_create(self) -> str:
        """The run, which an earlier call may have made."""
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is not None:
            identity = experiment.experiment_id
            which = f"tags.`rsctl.run` = '{self._run.run.run}'"
            found = self._client.search_runs([identity], which, max_results=1)
            if found:
                return str(found[0].info.run_id)
        else:
            try:
                identity = self._client.create_experiment(self._experiment)
            except MlflowException:  # another run's process may have been faster
                identity = self._client.get_experiment_by_name(self._experiment).experiment_id
        made = self._client.create_run(
            identity,
            start_time=int(self._run.created * 1000),
            tags={**self._run.tags, "mlflow.source.name": "rsctl"},
            run_name=self._run.run.run,
        )
        return str(made.info.run_id)

    @property
    def _experiment(self) -> str:
        return os.environ.get("MLFLOW_EXPERIMENT_NAME") or self._run.run.name

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Calls to the server; first checks that it answers, since its client would try for
        minutes.
        """
        from mlflow.exceptions import MlflowException

        parts = urlsplit(self._uri)
        if parts.hostname and parts.scheme in ("http", "https"):
            _check_reachable(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        try:
            yield
        except MlflowException as problem:
            text = one_line(problem)
            remedy = _CREDENTIALS_REMEDY if problem.error_code == "UNAUTHENTICATED" else ""
            raise TrackerError(text + remedy) from None


def _check_reachable(host: str, port: int) -> None:
    """Raise TrackerError if no server listens. Behind a proxy, only the client can tell."""
    from requests.utils import get_environ_proxies

    if get_environ_proxies(f"//{host}:{port}"):
        return
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as problem:
        raise TrackerError(f"{host}:{port}: {problem.strerror or problem}") from None


def _name(tag: str) -> str:
    """A name that MLflow accepts, a different one for each tag: it must be a path, too.

    Its characters: mlflow/utils/validation.py. If one name has another, such as `acc@1`,
    the server refuses all values of the request.
    """
    is_path = posixpath.normpath(tag) == tag and not tag.startswith(("/", "."))
    name = _OTHER_CHARACTERS.sub("_", tag if is_path else tag.replace("/", "_"))
    return distinct_name(tag, name, _LONGEST_NAME)
