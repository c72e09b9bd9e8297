"""The block `targets.sagemaker` of the spec."""

from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.options_common import Overlay, Regions, Text, first_of
from rsctl.job.units import Duration

InputMode = Literal["FastFile", "File", "Pipe"]
S3Folder = Annotated[str, Meta(pattern=r"^s3://.+")]
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class ChannelOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How SageMaker brings one of `inputs` to the machines."""

    mode: Annotated[
        Optional[InputMode], Meta(description="Replaces input_mode for this input.")
    ] = None
    type: Annotated[
        Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile"],
        Meta(
            description="The type of the location: an S3 prefix with all objects below it, or a "
            "manifest."
        ),
    ] = "S3Prefix"
    sharded: Annotated[
        bool, Meta(description="Give each machine a share of the objects instead of all of them.")
    ] = False
    content_type: Annotated[Optional[Text], Meta(description="MIME type of the data.")] = None
    gzip: Annotated[bool, Meta(description="The data is compressed by gzip (Pipe only).")] = False
    record_io: Annotated[bool, Meta(description="Wrap the data as RecordIO (Pipe only).")] = False
    attributes: Annotated[
        list[str], Meta(description="Attributes to read from an AugmentedManifestFile.")
    ] = field(default_factory=list)
    shuffle_seed: Annotated[
        Optional[int],
        Meta(description="Shuffle the objects with this seed, differently in each epoch."),
    ] = None


class FileSystem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file system to mount. It needs subnets and security_groups."""

    id: Annotated[Text, Meta(description="ID of the file system, such as fs-0123456789abcdef0.")]
    type: Annotated[Literal["FSxLustre", "EFS"], Meta(description="Type of the file system.")]
    path: Annotated[
        str,
        Meta(
            description="The folder of the file system to mount. FSxLustre: /MOUNTNAME, or a "
            "folder in it.",
            pattern=r"^/.*",
        ),
    ] = "/"
    access: Annotated[
        Literal["ro", "rw"], Meta(description="Mount read-only, or read and write.")
    ] = "ro"


class InstancePlacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The placement of the machines, on UltraServers only."""

    multiple_jobs: Annotated[
        bool, Meta(description="Allow other jobs on the same UltraServer.")
    ] = False
    ultra_servers: Annotated[
        dict[str, int], Meta(description="Number of machines on each UltraServer, by its ID.")
    ] = field(default_factory=dict)


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of the job in SageMaker Experiments."""

    experiment: Annotated[Optional[Text], Meta(description="Name of the experiment.")] = None
    trial: Annotated[Optional[Text], Meta(description="Name of the trial.")] = None
    component: Annotated[
        Optional[Text], Meta(description="Display name of the job's component.")
    ] = None
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
            description="Region, such as us-east-1; or several, which rsctl tries in order until "
            "one has capacity."
        ),
    ] = None
    role: Annotated[Optional[Text], Meta(description="ARN of the execution role.")] = None
    staging: Annotated[
        Optional[S3Folder],
        Meta(
            description="s3:// folder for staged files, such as the context of an image build, "
            "and for outputs without a separate location."
        ),
    ] = None
    build_role: Annotated[
        Optional[Text],
        Meta(description="ARN of the role that builds images in CodeBuild. Default: role."),
    ] = None
    subnets: Annotated[list[str], Meta(description="Subnet IDs.")] = field(default_factory=list)
    security_groups: Annotated[list[str], Meta(description="Security group IDs.")] = field(
        default_factory=list
    )
    encrypt_traffic: Annotated[
        bool, Meta(description="Encrypt the traffic between the machines; this slows training.")
    ] = False
    network_isolation: Annotated[
        bool,
        Meta(description="Allow the containers no network access except between the machines."),
    ] = False
    input_mode: Annotated[
        InputMode,
        Meta(
            description="How inputs arrive. FastFile: read from S3 when they are opened. File: "
            "copied to the disk before the start. Pipe: through a pipe."
        ),
    ] = "FastFile"
    channels: Annotated[
        dict[_Name, ChannelOptions],
        Meta(description="Settings of single inputs, by name."),
    ] = field(default_factory=dict)
    file_systems: Annotated[
        dict[_Name, FileSystem],
        Meta(
            description="FSx for Lustre and EFS; the script gets the path of `data` in "
            "RSCTL_INPUT_DATA."
        ),
    ] = field(default_factory=dict)
    hyperparameters: Annotated[
        dict[str, str],
        Meta(
            description="Hyperparameters of the job that SageMaker's own libraries read, such as "
            "mp_parameters. For arguments of the script, use run.args."
        ),
    ] = field(default_factory=dict)
    output_compression: Annotated[
        Optional[Literal["GZIP", "NONE"]],
        Meta(description="Whether outputs are packed as tar.gz. Default: true."),
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
            description="Machines to use if workers.machine has no capacity, in this order; at "
            "most 4, each with the same number of accelerators."
        ),
    ] = field(default_factory=list)
    training_plan: Annotated[
        Optional[Text], Meta(description="ARN of the training plan that the machines belong to.")
    ] = None
    placement: Annotated[
        Optional[InstancePlacement],
        Meta(description="Placement of the machines (UltraServers only)."),
    ] = None
    checkpoint_path: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^/[A-Za-z0-9_.-]*[A-Za-z0-9_][^\s]*$")]],
        Meta(
            description="The folder in the containers that is saved to `checkpoints`; "
            "RSCTL_CHECKPOINT_DIR in the script. Default: /opt/ml/checkpoints."
        ),
    ] = None
    profiler: Annotated[
        Union[bool, Duration, None],
        Meta(
            description="SageMaker's profiler of the machines: true, false, or its sampling "
            "interval, such as 500ms. Default: SageMaker's default."
        ),
    ] = None
    metrics_time_series: Annotated[
        Optional[bool],
        Meta(
            description="Whether CloudWatch's metrics are kept as time series for SageMaker's own "
            "Experiments; estimators for PyTorch request it. Default: SageMaker's default."
        ),
    ] = None
    infra_check: Annotated[
        bool, Meta(description="Check the machines' health before the start.")
    ] = False
    remote_debug: Annotated[
        bool, Meta(description="Allow a shell in the containers by AWS Systems Manager.")
    ] = False
    session_tags: Annotated[
        bool, Meta(description="Pass the tags of your session to the job's own session.")
    ] = False
    tensorboard: Annotated[
        Optional[S3Folder],
        Meta(
            description="s3:// folder to which /opt/ml/output/tensorboard is copied continuously."
        ),
    ] = None
    experiment: Annotated[
        Optional[Experiment], Meta(description="The place of the job in SageMaker Experiments.")
    ] = None
    mlflow: Annotated[Optional[MlFlow], Meta(description="An MLflow server to report to.")] = None
    registry_access: Annotated[
        Literal["Platform", "Vpc"],
        Meta(
            description="Platform: the image is in ECR. Vpc: it is in a private registry that "
            "the subnets can reach."
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
        """The region, or the first of several; a plan has only one."""
        return first_of(self.region)


def sagemaker_options(job: Any) -> SageMakerOptions:
    """The job's `targets.sagemaker`, or the defaults."""
    options: Optional[SageMakerOptions] = getattr(job.targets, "sagemaker", None)
    return SageMakerOptions() if options is None else options
