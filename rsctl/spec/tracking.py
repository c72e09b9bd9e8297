"""The spec's `tracking:` list: the services that a run's parameters, metrics and result go to."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Optional
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from rsctl.findings import SECRET, Finding, error
from rsctl.spec.units import Location

_NOT_PARAMETERS = frozenset(
    {"name", "run.env", "image.source", "inputs", "targets", "metrics", "gate", "matrix"}
    | {"tracking"}
)
_LONGEST_VALUE = 500


class MlflowUri(str):
    """Where an MLflow server answers: `https://…`, `http://…`, or `databricks`."""

    expected: ClassVar[str] = "https://HOST or databricks"
    pattern: ClassVar[str] = r"^https?://[^/\s]+(/\S*)?$|^databricks(://\S+)?$"

    @classmethod
    def parse(cls, text: str) -> "MlflowUri":
        """Raises ValueError."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        return cls(text)


ExperimentName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,72}$")]


class Tracking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service, by exactly one of these keys. Its credentials come from the environment."""

    tensorboard: Annotated[
        Optional[Location],
        Meta(
            description="A folder of event files, one folder a run in it: gs://…, s3://… or a "
            "local path."
        ),
    ] = None
    mlflow: Annotated[
        Optional[MlflowUri],
        Meta(
            description="An MLflow server. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, come from your environment; the experiment has the job's "
            "name unless MLFLOW_EXPERIMENT_NAME is set. Needs the extra mlflow."
        ),
    ] = None
    vertex: Annotated[
        Optional[ExperimentName],
        Meta(
            description="An experiment of Vertex AI, in targets.vertex.project and region; it is "
            "made if need be."
        ),
    ] = None

    @property
    def given(self) -> list[str]:
        """The keys that are set."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


class PlannedTracker(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A service that a run's metrics go to; `location` is a folder, a server or an experiment.

    `project` and `region` are those of an experiment of Vertex AI or of a bucket of S3.
    """

    kind: str
    location: str
    project: Optional[str] = None
    region: Optional[str] = None


class TrackingPlan(msgspec.Struct, kw_only=True):
    """What of a run goes to which trackers, besides its metrics and its result."""

    trackers: list[PlannedTracker]
    parameters: dict[str, Any] = {}


def check_tracking(job: Any) -> Iterator[Finding]:
    """Findings about the list of trackers of a job."""
    seen: dict[str, int] = {}
    for index, tracking in enumerate(job.tracking):
        path = f"tracking[{index}]"
        given = tracking.given
        if len(given) != 1:
            message = "one service each: " + (" and ".join(given) or "none is named")
            remedy = "write a list of mappings with one key: [{tensorboard: DIR}, {mlflow: URI}]"
            yield error("tracking", message, remedy, path)
            continue
        if tracking.mlflow and urlsplit(tracking.mlflow).username is not None:
            message = "the address holds a user or a password, which would be saved and shown"
            remedy = "leave it out, and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            yield error(SECRET, message, remedy, f"{path}.mlflow")
        options = job.targets.vertex
        if tracking.vertex and not (options.project and options.region):
            message = "which project and region the experiment is in is not known"
            remedy = "set targets.vertex.project and targets.vertex.region"
            yield error("tracking", message, remedy, f"{path}.vertex")
        planned = planned_tracker(tracking, job)
        key = msgspec.json.encode(planned).decode()
        if key in seen:
            message = f"the same as tracking[{seen[key]}]"
            yield error("tracking", message, "remove one of the two", path)
        seen.setdefault(key, index)


def planned_tracker(tracking: Tracking, job: Any) -> PlannedTracker:
    """A tracker with all that it takes to reach it."""
    kind = tracking.given[0]
    location = str(getattr(tracking, kind))
    project = region = None
    if kind == "vertex":
        project, region = job.targets.vertex.project, job.targets.vertex.region
    elif location.startswith("s3://"):
        region = job.targets.sagemaker.region
    return PlannedTracker(kind=kind, location=location, project=project, region=region)


def parameters_of(job: Any) -> dict[str, Any]:
    """The scalars of a job by key path, those that are not the default; lists as JSON texts.

    Left out are the job's variables, which may be secrets, and what no run depends on.
    """
    from rsctl.spec.checks import is_secret_name

    found: dict[str, Any] = {}
    _flatten(job, "", found)
    return {n: v for n, v in found.items() if not is_secret_name(n.rpartition(".")[2])}


def _flatten(value: Any, path: str, found: dict[str, Any]) -> None:
    from rsctl.spec.types import fields_of

    if path in _NOT_PARAMETERS or value is None:
        return
    if isinstance(value, msgspec.Struct):
        for name, field in fields_of(type(value)).items():
            inner = getattr(value, name)
            if field.required or inner != field.default:
                _flatten(inner, f"{path}.{name}" if path else name, found)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}", found)
    elif isinstance(value, bool):
        found[path] = value
    elif isinstance(value, (int, float)):
        found[path] = int(value) if value == int(value) else float(value)
    elif isinstance(value, str):
        found[path] = str(value)[:_LONGEST_VALUE]
    else:
        text = msgspec.json.encode(value, enc_hook=str).decode()
        found[path] = text[:_LONGEST_VALUE]
