"""The spec's `tracking:` list: the services that a run's parameters, metrics and result go to."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Optional

import msgspec
from msgspec import Meta

from rsctl.job.units import Location


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


class WandbLocation(str):
    """A project of Weights & Biases: `ENTITY/PROJECT`, or below the address of its server."""

    prefix: ClassVar[str] = "ENTITY/"  # which a project alone lacks
    expected: ClassVar[str] = "ENTITY/PROJECT or https://HOST/ENTITY/PROJECT"
    pattern: ClassVar[str] = (
        r"^(https?://[^/\s?#]+(/[\w.~-]+)*/)?[A-Za-z0-9_.-]+/[^/\\#?%:\s]{1,128}$"
    )

    @classmethod
    def parse(cls, text: str) -> "WandbLocation":
        """Raises ValueError."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        return cls(text)


ExperimentName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,72}$")]

SageMakerExperiment = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,119}$")]


class Tracking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service, by exactly one of these keys. Its credentials come from the environment."""

    tensorboard: Annotated[
        Optional[Location],
        Meta(
            description="A folder of event files with one subfolder per run: gs://…, s3://… or a "
            "local path."
        ),
    ] = None
    mlflow: Annotated[
        Optional[MlflowUri],
        Meta(
            description="An MLflow server. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME "
            "and MLFLOW_TRACKING_PASSWORD, come from your environment; the "
            "experiment has the job's name unless MLFLOW_EXPERIMENT_NAME is set. "
            "Needs the extra mlflow."
        ),
    ] = None
    vertex: Annotated[
        Optional[ExperimentName],
        Meta(
            description="An experiment of Vertex AI, in targets.vertex.project and region; rsctl "
            "creates it if it does not exist."
        ),
    ] = None
    wandb: Annotated[
        Optional[WandbLocation],
        Meta(
            description="A project of Weights & Biases, as ENTITY/PROJECT, or "
            "https://HOST/ENTITY/PROJECT for your own server. WANDB_API_KEY comes "
            "from your environment, or the key from ~/.netrc. Needs the extra wandb."
        ),
    ] = None

    sagemaker: Annotated[
        Optional[SageMakerExperiment],
        Meta(
            description="An existing experiment of SageMaker, in the job's account and region; "
            "the job becomes one of its trial components. Only on target sagemaker."
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


def experiment_of(tracking: Iterable[Tracking]) -> Optional[str]:
    """The experiment of SageMaker that a job is made part of by its request, None without one."""
    return next((each.sagemaker for each in tracking if each.sagemaker), None)


class TrackingPlan(msgspec.Struct, kw_only=True):
    """The data of a run that each tracker gets, besides its metrics and its result."""

    trackers: list[PlannedTracker]
    parameters: dict[str, Any] = {}
