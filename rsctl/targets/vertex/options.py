"""The block `targets.vertex` of the spec."""

from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.options_common import Overlay, Regions, Text, first_of

BootDisk = Literal["pd-ssd", "pd-standard", "hyperdisk-balanced"]


class DnsPeering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The resolution of the names of one domain."""

    project: Annotated[Text, Meta(description="Project of the network that resolves the domain.")]
    network: Annotated[Text, Meta(description="Name of that network.")]


class Psc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Private Service Connect interface into your network."""

    network_attachment: Annotated[
        Text,
        Meta(description="Name of the network attachment, in the job's region."),
    ]
    dns: Annotated[
        dict[Text, DnsPeering],
        Meta(description="Domains to resolve in your networks, such as `internal.example.`."),
    ] = field(default_factory=dict)


class NfsMount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An NFS export."""

    server: Annotated[Text, Meta(description="Address of the NFS server.")]
    path: Annotated[Text, Meta(description="Exported path, such as /share.")]


class LustreMount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Managed Lustre instance."""

    ip: Annotated[Text, Meta(description="IP address of the instance.")]
    volume: Annotated[Text, Meta(description="Identifier (handle) of the instance's volume.")]
    filesystem: Annotated[Text, Meta(description="Name of its file system.")]


class VertexOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Vertex AI."""

    project: Annotated[Optional[Text], Meta(description="Google Cloud project ID.")] = None
    region: Annotated[
        Optional[Regions],
        Meta(
            description="Region, such as us-central1; or several, which rsctl tries in order "
            "until one has capacity."
        ),
    ] = None
    staging: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^gs://.+")]],
        Meta(
            description="gs:// folder for staged files, and for outputs if the job names no "
            "location."
        ),
    ] = None
    service_account: Annotated[Optional[Text], Meta(description="The job's service account.")] = (
        None
    )
    build_service_account: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^[^/\s]+$")]],
        Meta(description="The service account that builds images. Default: Cloud Build's default."),
    ] = None
    network: Annotated[
        Optional[Text],
        Meta(description="VPC network to peer with: projects/NUMBER/global/networks/NAME."),
    ] = None
    reserved_ip_ranges: Annotated[
        list[Text], Meta(description="Names of the reserved ranges of `network` to use.")
    ] = field(default_factory=list)
    psc: Annotated[
        Optional[Psc], Meta(description="Private Service Connect interface into your network.")
    ] = None
    tensorboard: Annotated[
        Optional[Text],
        Meta(
            description="TensorBoard to log to: its ID, or projects/P/locations/R/tensorboards/ID."
        ),
    ] = None
    experiment: Annotated[Optional[Text], Meta(description="Experiment to attach to.")] = None
    experiment_run: Annotated[
        Optional[Text], Meta(description="Run of the experiment to attach to.")
    ] = None
    capacity: Annotated[
        Optional[Literal["standard", "spot", "flex-start"]],
        Meta(
            description="How machines are obtained. Default: spot if limits.spot, otherwise "
            "standard. flex-start waits up to limits.queue for all of them at the same time."
        ),
    ] = None
    restart: Annotated[
        Optional[Literal["job", "worker"]],
        Meta(
            description="The scope of a restart after a failure: the whole job, or only the "
            "failed worker. Default: the job if limits sets a number of restarts, "
            "otherwise Vertex AI's default."
        ),
    ] = None
    reservation: Annotated[
        Union[Literal["any", "none"], list[Text], None],
        Meta(
            description="Reservation that provides the workers' GPUs: any, none, or a list of "
            "projects/PROJECT/zones/ZONE/reservations/NAME."
        ),
    ] = None
    persistent_resource: Annotated[
        Optional[Text], Meta(description="ID of a persistent resource to run on.")
    ] = None
    boot_disk: Annotated[
        Union[BootDisk, dict[Text, BootDisk], None],
        Meta(
            description="Type of the boot disks of workers and roles; workers.disk is their "
            "size. Or one type for each of chief, workers, reducers and the job's "
            "roles, by name. Default: the machine's default."
        ),
    ] = None
    tpu_topology: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}$")]],
        Meta(
            description="TPU slice, such as 4x4: a slice of several hosts, which are one "
            "replica. Default: one host."
        ),
    ] = None
    nfs: Annotated[
        dict[Text, NfsMount],
        Meta(description="NFS exports to mount; `data` is mounted at /mnt/nfs/data."),
    ] = field(default_factory=dict)
    lustre: Annotated[
        dict[Text, LustreMount],
        Meta(description="Lustre instances to mount; `data` is mounted at /mnt/lustre/data."),
    ] = field(default_factory=dict)
    encryption_key: Annotated[
        Optional[Text],
        Meta(
            description="The encryption key: projects/P/locations/R/keyRings/RING/cryptoKeys/KEY."
        ),
    ] = None
    web_access: Annotated[
        bool, Meta(description="Allow interactive shells in the running containers.")
    ] = False
    dashboard_access: Annotated[
        bool, Meta(description="Allow access to a dashboard in the chief's container.")
    ] = False
    labels: Annotated[dict[str, str], Meta(description="Labels of the job.")] = field(
        default_factory=dict
    )
    overlay: Overlay = field(default_factory=dict)

    @property
    def first_region(self) -> Optional[str]:
        """The region, or the first of several; a plan has only one."""
        return first_of(self.region)


def vertex_options(job: Any) -> VertexOptions:
    """The job's `targets.vertex`, or the defaults."""
    options: Optional[VertexOptions] = getattr(job.targets, "vertex", None)
    return VertexOptions() if options is None else options
