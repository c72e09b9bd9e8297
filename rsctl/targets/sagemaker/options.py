"""The block `targets.sagemaker` of the spec."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.options_common import Overlay, Regions, Text, first_of
from rsctl.job.units import Duration

InputMode = Literal["FastFile", "File", "Pipe"]
S3Folder = Annotated[str, Meta(pattern=r"^s3://.+")]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How SageMaker brings one of `inputs` to the machines."""

    mode: Annotated[
        Optional[InputMode], Meta(description="In place of input_mode, for this input.")
    ] = None
    type: Annotated[
        Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile"],
        Meta(description="What the location names: all objects below it, or a manifest."),
    ] = "S3Prefix"
    sharded: Annotated[
        bool, Meta(description="Each machine gets its share of the objects, not all of them.")
    ] = False
    content_type: Annotated[Optional[Text], Meta(description="MIME type of the data.")] = None
    gzip: Annotated[bool, Meta(description="The data is compressed by gzip (Pipe only).")] = False
    record_io: Annotated[bool, Meta(description="Wrap the data as RecordIO (Pipe only).")] = False
    attributes: Annotated[
        list[str], Meta(description="Attributes to read of an AugmentedManifestFile.")
    ] = field(default_factory=list)
    shuffle_seed: Annotated[
        Optional[int], Meta(description="Shuffle the objects by this seed, anew each epoch.")
    ] = None


class FileSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file system to mount. It needs subnets and security_groups."""

    id: Annotated[Text, Meta(description="Its id, such as fs-0123456789abcdef0.")]
    type: Annotated[Literal["FSxLustre", "EFS"], Meta(description="What it is.")]
    path: Annotated[str, Meta(description="The folder of it to mount.", pattern=r"^/.*")] = "/"
    access: Annotated[Literal["ro", "rw"], Meta(description="Read only, or read and write.")] = "ro"


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the machines stand, on UltraServers only."""

    multiple_jobs: Annotated[
        bool, Meta(description="Let other jobs run on the same UltraServer.")
    ] = False
    ultra_servers: Annotated[
        dict[str, int], Meta(description="Number of machines on each UltraServer, by its id.")
    ] = field(default_factory=dict)


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the job is part of in SageMaker Experiments."""

    experiment: Annotated[Optional[Text], Meta(description="Name of an experiment.")] = None
    trial: Annotated[Optional[Text], Meta(description="Name of a trial.")] = None
    component: Annotated[Optional[Text], Meta(description="Shown for the job's component.")] = None
    run: Annotated[Optional[Text], Meta(description="Name of the experiment's run.")] = None


class MlFlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An MLflow server of SageMaker that the job reports to."""

    server: Annotated[Text, Meta(description="ARN of the server.")]
    experiment: Annotated[Optional[Text], Meta(description="Name of the experiment.")] = None
    run: Annotated[Optional[Text], Meta(description="Name of the run.")] = None


class SageMakerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """SageMaker."""

    region: Annotated[
        Optional[Regions],
        Meta(
            description="Region, such as us-east-1; or several, tried in order where there are no "
            "machines."
        ),
    ] = None
    role: Annotated[Optional[Text], Meta(description="ARN of the execution role.")] = None
    staging: Annotated[
        Optional[S3Folder],
        Meta(
            description="s3:// folder for staged files, such as what an image is built from, and "
            "for outputs without a location of their own."
        ),
    ] = None
    build_role: Annotated[
        Optional[Text],
        Meta(description="ARN of the role that builds images in CodeBuild. Absent: role."),
    ] = None
    subnets: Annotated[list[str], Meta(description="Subnet ids.")] = field(default_factory=list)
    security_groups: Annotated[list[str], Meta(description="Security group ids.")] = field(
        default_factory=list
    )
    encrypt_traffic: Annotated[
        bool, Meta(description="Encrypt what the machines send each other; it slows training.")
    ] = False
    network_isolation: Annotated[
        bool, Meta(description="No network in the containers but that between the machines.")
    ] = False
    input_mode: Annotated[
        InputMode,
        Meta(
            description="How inputs arrive. FastFile: read from S3 as they are opened. File: "
            "copied to the disk before the start. Pipe: through a pipe."
        ),
    ] = "FastFile"
    channels: Annotated[
        dict[_Name, Channel], Meta(description="What is special about one of inputs, by its name.")
    ] = field(default_factory=dict)
    file_systems: Annotated[
        dict[_Name, FileSystem],
        Meta(description="FSx for Lustre and EFS; `data` reaches the script as RSCTL_INPUT_DATA."),
    ] = field(default_factory=dict)
    hyperparameters: Annotated[
        dict[str, str],
        Meta(
            description="Hyperparameters of the job, as SageMaker's own libraries read them, such "
            "as mp_parameters. Arguments of the script are run.args."
        ),
    ] = field(default_factory=dict)
    output_compression: Annotated[
        Optional[Literal["GZIP", "NONE"]],
        Meta(description="Whether outputs are packed as tar.gz. Absent: they are."),
    ] = None
    output_kms_key: Annotated[
        Optional[Text], Meta(description="KMS key that encrypts the outputs.")
    ] = None
    volume_kms_key: Annotated[
        Optional[Text], Meta(description="KMS key that encrypts the machines' disks.")
    ] = None
    keep_alive: Annotated[
        Optional[Duration], Meta(description="Keep the machines warm for this long.")
    ] = None
    instance_preferences: Annotated[
        list[Text],
        Meta(
            description="Machines to take where there is no capacity of workers.machine, in this "
            "order; 4 at most, each with as many accelerators."
        ),
    ] = field(default_factory=list)
    training_plan: Annotated[
        Optional[Text], Meta(description="ARN of the training plan that the machines belong to.")
    ] = None
    placement: Annotated[
        Optional[Placement], Meta(description="Where the machines stand (UltraServers only).")
    ] = None
    checkpoint_path: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^/[A-Za-z0-9_.-]*[A-Za-z0-9_][^\s]*$")]],
        Meta(
            description="The folder in the containers that is kept in `checkpoints`; "
            "RSCTL_CHECKPOINT_DIR in the script. Absent: /opt/ml/checkpoints."
        ),
    ] = None
    profiler: Annotated[
        Union[bool, Duration, None],
        Meta(
            description="SageMaker's profiler of the machines: true, false, or how often it looks, "
            "such as 500ms. Absent: SageMaker's default."
        ),
    ] = None
    metrics_time_series: Annotated[
        Optional[bool],
        Meta(
            description="Whether CloudWatch's metrics are kept as time series for SageMaker's own "
            "Experiments; estimators for PyTorch ask for it. Absent: SageMaker's default."
        ),
    ] = None
    infra_check: Annotated[
        bool, Meta(description="Check the machines' health before the start.")
    ] = False
    remote_debug: Annotated[
        bool, Meta(description="Allow a shell in the containers by AWS Systems Manager.")
    ] = False
    session_tags: Annotated[
        bool, Meta(description="Hand the tags of your session on to the job's own session.")
    ] = False
    tensorboard: Annotated[
        Optional[S3Folder],
        Meta(description="s3:// folder that /opt/ml/output/tensorboard is copied to as it grows."),
    ] = None
    experiment: Annotated[
        Optional[Experiment], Meta(description="What it is part of in SageMaker Experiments.")
    ] = None
    mlflow: Annotated[Optional[MlFlow], Meta(description="An MLflow server to report to.")] = None
    registry_access: Annotated[
        Literal["Platform", "Vpc"],
        Meta(
            description="Platform: the image is in ECR. Vpc: it is in a private registry that "
            "subnets reach."
        ),
    ] = "Platform"
    registry_credentials: Annotated[
        Optional[Text],
        Meta(description="ARN of the Lambda function that logs in to the private registry."),
    ] = None
    tags: Annotated[dict[str, str], Meta(description="Tags of the job.")] = field(
        default_factory=dict
    )
    overlay: Overlay = field(default_factory=dict)

    @property
    def first_region(self) -> Optional[str]:
        """The region, or of several the one that is tried first; a plan is for one alone."""
        return first_of(self.region)
