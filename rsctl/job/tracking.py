"""The spec's `tracking:` list: the services that a run's parameters, metrics and result go to."""

from typing import Annotated, Any, ClassVar, Optional

import msgspec
from msgspec import Meta

from rsctl.job.units import FormedText, Location


class MlflowUri(FormedText):
    """Where an MLflow server answers: `https://…`, `http://…`, or `databricks`."""

    expected: ClassVar[str] = "https://HOST or databricks"
    pattern: ClassVar[str] = r"^https?://[^/\s]+(/\S*)?$|^databricks(://\S+)?$"


class WandbLocation(FormedText):
    """A project of Weights & Biases: `ENTITY/PROJECT`, or below the address of its server."""

    prefix: ClassVar[str] = "ENTITY/"  # which a project alone lacks
    expected: ClassVar[str] = "ENTITY/PROJECT or https://HOST/ENTITY/PROJECT"
    pattern: ClassVar[str] = (
        r"^(https?://[^/\s?#]+(/[\w.~-]+)*/)?[A-Za-z0-9_.-]+/[^/\\#?%:\s]{1,128}$"
    )


class Tracking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service, by exactly one of these keys. Its credentials come from the environment."""

    # spec.installed_targets makes the type that has a key for the service of each target.

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
            description="An MLflow server. MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, come from your environment; the experiment has the job's "
            "name unless MLFLOW_EXPERIMENT_NAME is set. Needs the extra mlflow."
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

    @property
    def given(self) -> list[str]:
        """The keys that are set."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    @property
    def of_targets(self) -> list[str]:
        """The given keys that name a target; such a key selects the tracker of its service."""
        return [name for name in self.given if name not in Tracking.__struct_fields__]


NOTIFY = "notify"
"""The kind of a tracker that gets messages."""


class PlannedTracker(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A service that gets a run's metrics; `location` is a folder, a server or an experiment.

    `project` and `region` belong to a cloud's experiment or to an S3 bucket. The kind `notify` gets
    messages about `events`; its location is the variable with its URL, as `${NAME}`.
    """

    kind: str
    location: str
    project: Optional[str] = None
    region: Optional[str] = None
    events: list[str] = []


class TrackingPlan(msgspec.Struct, kw_only=True):
    """The data of a run that each tracker gets, besides its metrics and its result."""

    trackers: list[PlannedTracker]
    parameters: dict[str, Any] = {}
