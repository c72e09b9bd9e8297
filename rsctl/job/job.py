"""The types of the job spec. The decoder, the checks and the JSON Schema are made from them.

Descriptions are for the person who writes the file: they become the schema's, and so the editor's.
Larger blocks are in modules of their own, and can be had from here too.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.comm import Comm as Comm
from rsctl.job.comm import Model as Model
from rsctl.job.gate import GateBlock as GateBlock
from rsctl.job.image import Image as Image
from rsctl.job.inputs import Input as Input
from rsctl.job.metric import Metric as Metric
from rsctl.job.metric import MetricName as MetricName
from rsctl.job.node_checks import NodeChecks as NodeChecks
from rsctl.job.notify import Notify as Notify
from rsctl.job.profile import ProfileBlock as ProfileBlock
from rsctl.job.roles import Chief as Chief
from rsctl.job.roles import Role as Role
from rsctl.job.roles import RoleName as RoleName
from rsctl.job.tracking import Tracking as Tracking
from rsctl.job.units import Accelerator, Duration, EnvValue, Location, Money, RelativePath, Size
from rsctl.job.values import ArgName as ArgName
from rsctl.job.values import ArgValue as ArgValue
from rsctl.job.values import MachinesPerTarget as MachinesPerTarget
from rsctl.job.values import Module as Module
from rsctl.job.values import Name as Name
from rsctl.job.values import PerTarget as PerTarget
from rsctl.job.values import Word as Word
from rsctl.job.watch import Watch as Watch

WatchName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
JOB_NAME = r"^[a-z][a-z0-9-]{0,39}$"


class Targets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of each target beyond the common keys."""

    # spec.installed_targets makes the type that has a field for each target.

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class RunBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The program: exactly one of script, module and command."""

    script: Annotated[
        Optional[RelativePath],
        Meta(
            description="A Python script inside image.source, or inside run.package. With "
            "launcher once or none also a shell script, NAME.sh, which bash runs."
        ),
    ] = None
    module: Annotated[
        Optional[Module], Meta(description="A Python module, run like `python -m`.")
    ] = None
    command: Annotated[
        Optional[Annotated[list[str], Meta(min_length=1)]],
        Meta(description="A command as a list of arguments; rsctl does not use a shell."),
    ] = None
    package: Annotated[
        Optional[Location],
        Meta(
            description="A Python package for a vendor's prebuilt container (image.uri), which "
            "installs it and runs the module once on each node; the container has nothing of "
            "rsctl. A folder with pyproject.toml or setup.py, or gs://BUCKET/PATH.tar.gz, "
            "s3://BUCKET/PATH.tar.gz. On SageMaker also a folder with a script."
        ),
    ] = None
    args: Annotated[
        Union[dict[ArgName, ArgValue], list[str]],
        Meta(
            description="Arguments: a list, or a mapping in which `epochs: 3` becomes `--epochs "
            "3`, `flag: true` becomes `--flag` and `flag: false` is omitted. rsctl replaces "
            "{outputs}, {checkpoints} and {inputs.NAME} with the run's folders."
        ),
    ] = field(default_factory=list)
    env: Annotated[
        dict[Name, EnvValue],
        Meta(
            description="Environment variables. A value that contains ${VAR} from your "
            "environment is treated as a secret: rsctl passes it on and never saves it."
        ),
    ] = field(default_factory=dict)
    launcher: Annotated[
        Literal["torchrun", "mpi", "once", "none"],
        Meta(
            description="torchrun: one process for each rank. mpi: the same with Open MPI's "
            "mpirun, which the image must have (image.apt: [openmpi-bin]). once: run the command "
            "once on each node. none: nothing of rsctl in the container; command and args are "
            "passed unchanged. With `package`, use none, or the container's own torchrun or "
            "mpirun on SageMaker."
        ),
    ] = "torchrun"

    @property
    def is_launched(self) -> bool:
        """Whether rsctl-launch starts it."""
        return self.launcher != "none" and self.package is None

    @property
    def program(self) -> Optional[list[str]]:
        """The command that runs as it is: `command`, or bash for a shell script of an image.

        None if Python runs a script or module, or if a package's container starts it.
        """
        if self.script and self.package is None and is_shell_script(self.script):
            return ["bash", str(self.script)]
        return self.command


def is_shell_script(script: str) -> bool:
    """Whether a script is for a shell, by its name."""
    return script.endswith((".sh", ".bash"))


class Workers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The nodes that train. The first is the chief."""

    count: Annotated[int, Meta(description="Number of nodes.", ge=1, le=10_000)] = 1
    accelerator: Annotated[
        Optional[Accelerator],
        Meta(description="NAME:COUNT on each node, such as a100-40gb:8. Default: CPU only."),
    ] = None
    machine: Annotated[
        Union[Word, Annotated[list[Word], Meta(min_length=1)], MachinesPerTarget, None],
        Meta(
            description="Machine type, one for each target, or several for a cloud: rsctl tries "
            "them in order until one has capacity. Default: the smallest that fits."
        ),
    ] = None
    processes: Annotated[
        Union[Literal["auto"], Annotated[int, Meta(ge=1, le=1024)]],
        Meta(
            description="Ranks on each node. auto: one per accelerator, or 1 without accelerators."
        ),
    ] = "auto"
    disk: Annotated[Optional[Size], Meta(description="Boot disk of each node, such as 200GB.")] = (
        None
    )

    @property
    def ranks(self) -> int:
        """The ranks on each node."""
        if self.processes != "auto":
            return self.processes
        return self.accelerator.ranks_per_node if self.accelerator else 1


class Reducers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The CPU nodes that each sum one block of the gradient."""

    count: Annotated[
        Union[Literal["auto"], Annotated[int, Meta(ge=0, le=10_000)]],
        Meta(
            description="Number of reducers. 0: none. auto: calculated from the bandwidth of the "
            "machines."
        ),
    ] = 0
    machine: Annotated[
        Union[Word, PerTarget],
        Meta(description="Machine type, one for each target. auto: the catalogue's choice."),
    ] = "auto"
    disk: Annotated[
        Optional[Size],
        Meta(description="Boot disk of each reducer. Default: the target's default."),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(
            description="Environment variables of the reducers, which do not get those of run.env."
        ),
    ] = field(default_factory=dict)


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    "Limits of time, cost and restarts."

    timeout: Annotated[
        Optional[Annotated[Duration, Meta(gt=0)]],
        Meta(description="Longest running time, such as 2h; after that, the job is ended."),
    ] = None
    queue: Annotated[
        Union[Literal[0], Duration, None],
        Meta(description="Longest wait for capacity, such as 30m. 0: no limit."),
    ] = None
    retries: Annotated[
        int, Meta(description="Restarts of the whole job after a failure.", ge=0, le=100)
    ] = 0
    restarts: Annotated[
        Union[Literal["platform", "never"], Annotated[int, Meta(ge=0, le=100)], None],
        Meta(
            description="How failed replicas restart. platform: the target's default, however "
            "many restarts that allows; never; or a maximum number of restarts of the whole job. "
            "Default: as in `retries`."
        ),
    ] = None
    grace: Annotated[
        Optional[Annotated[Duration, Meta(gt=0)]],
        Meta(
            description="The time that the ranks have to save their state before they are killed, "
            "such as 2m: after a cancellation, and before limits.timeout. Scripts learn of it by "
            "rsctl.node.should_stop(), or by SIGTERM. Default: the target's own, which is 30s on "
            "process and compose."
        ),
    ] = None
    stop_signal: Annotated[
        Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"],
        Meta(
            description="The signal by which ranks that do not call rsctl.node.should_stop() are "
            "asked to end."
        ),
    ] = "TERM"
    restarts_in_place: Annotated[
        int,
        Meta(
            description="How often torchrun starts the ranks of all nodes again after a failure, "
            "on the same nodes and without a new job. After that, `retries` apply.",
            ge=0,
            le=100,
        ),
    ] = 0
    keep: Annotated[
        Optional[Annotated[Duration, Meta(ge=1)]],
        Meta(
            description="How long a node stays after its command has failed, such as 10m, so that "
            "you can look into it by `rsctl shell` and `rsctl exec`. The job runs, and costs, "
            "until then or until `rsctl cancel`; limits.timeout still ends it."
        ),
    ] = None
    spot: Annotated[bool, Meta(description="Use spot (preemptible) machines.")] = False
    cost: Annotated[
        Optional[Money],
        Meta(
            description="The maximum cost of the job, such as 50 USD, by the prices of its "
            "machines. rsctl refuses a plan whose limits.timeout allows a higher cost; without a "
            "timeout, it ends the job when this cost is reached."
        ),
    ] = None

    stall: Annotated[
        Union[Literal[0], Duration, None],
        Meta(
            description="How long a job may make no progress before rsctl reports a stall, with "
            "the rank that the others wait for. Progress is a log line, a metric, a collective, "
            "or data that is read or written. 0: never. Default: 10m."
        ),
    ] = None
    on_stall: Annotated[
        Literal["notify", "fail", "restart"],
        Meta(
            description="The reaction to a stall. notify: a finding only. fail: end the job. "
            "restart: end the attempt, and restart the job if limits.retries allows it."
        ),
    ] = "notify"

    @property
    def most_restarts(self) -> Optional[int]:
        """How often the job may be restarted after failures; None leaves it to the platform."""
        if self.restarts is None:
            return self.retries
        if self.restarts == "platform":
            return None
        return 0 if self.restarts == "never" else self.restarts


class BenchBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `rsctl bench run` and `rsctl gate` run the job."""

    pack: Annotated[
        bool,
        Meta(
            description="Run all repetitions one after the other on the same nodes, inside one "
            "job: one start of machines for the bench. limits.timeout is the limit of each "
            "repetition."
        ),
    ] = False


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training job, for every target."""

    name: Annotated[
        str,
        Meta(
            description="Name of the job: a-z, 0-9 and '-', at most 40 characters, starting with "
            "a letter.",
            pattern=JOB_NAME,
        ),
    ]
    run: Annotated[RunBlock, Meta(description="The program that runs on every worker.")]
    target: Annotated[
        Word, Meta(description="The target to run on, unless --target overrides it.")
    ] = "process"
    image: Annotated[Image, Meta(description="The training container.")] = field(
        default_factory=Image
    )
    workers: Annotated[Workers, Meta(description="The nodes that run the training.")] = field(
        default_factory=Workers
    )
    chief: Annotated[
        Chief,
        Meta(
            description="Settings of the first worker, which has rank 0, that differ from those "
            "of the others."
        ),
    ] = field(default_factory=Chief)
    reducers: Annotated[Reducers, Meta(description="The reducer pool.")] = field(
        default_factory=Reducers
    )
    roles: Annotated[
        dict[RoleName, Role],
        Meta(
            description="Additional nodes by the name of their role, such as `ps` or `evaluator`. "
            "Every replica gets all addresses in RSCTL_ROLE_HOSTS."
        ),
    ] = field(default_factory=dict)
    comm: Annotated[Comm, Meta(description="How the job exchanges gradients.")] = field(
        default_factory=Comm
    )
    inputs: Annotated[
        dict[Name, Union[Location, Input]],
        Meta(
            description="Data to read: a location, or {uri, mode}; the script gets the path of "
            "`train` in RSCTL_INPUT_TRAIN, and the shards of a rank in RSCTL_INPUT_TRAIN_SHARDS."
        ),
    ] = field(default_factory=dict)
    outputs: Annotated[
        Optional[Location],
        Meta(description="The location of results; RSCTL_OUTPUT_DIR in the script."),
    ] = None
    checkpoints: Annotated[
        Optional[Location],
        Meta(
            description="The location of checkpoints; RSCTL_CHECKPOINT_DIR in the script. It is "
            "kept across retries and preemption."
        ),
    ] = None
    metrics: Annotated[
        dict[MetricName, Metric],
        Meta(description="Metrics to read from the log."),
    ] = field(default_factory=dict)
    watch: Annotated[
        dict[WatchName, Watch],
        Meta(description="Rules over metrics: a finding, or the end of the job, when one holds."),
    ] = field(default_factory=dict)
    limits: Annotated[Limits, Meta(description="Limits of time, cost and restarts.")] = field(
        default_factory=Limits
    )
    checks: Annotated[
        NodeChecks, Meta(description="Checks of the nodes before the ranks start.")
    ] = field(default_factory=NodeChecks)
    targets: Annotated[Targets, Meta(description="Settings of each target.")] = field(
        default_factory=Targets
    )
    model: Annotated[
        Optional[Model], Meta(description="Facts about the model, for advice on the network.")
    ] = None
    matrix: Annotated[
        dict[str, list[Any]],
        Meta(
            description="Benchmark cells: the product of these lists of values for key paths "
            "(`workers.count: [2, 4]`), without `exclude`, plus `include`."
        ),
    ] = field(default_factory=dict)
    bench: Annotated[
        BenchBlock, Meta(description="How a bench or a gate runs the repetitions of this job.")
    ] = field(default_factory=BenchBlock)
    gate: Annotated[Optional[GateBlock], Meta(description="The criteria of `rsctl gate`.")] = None
    tracking: Annotated[
        list[Tracking],
        Meta(description="Services that receive parameters, metrics and the result."),
    ] = field(default_factory=list)
    notify: Annotated[
        list[Notify],
        Meta(description="Messages about the run, by Apprise. Needs the extra notify."),
    ] = field(default_factory=list)
    profile: Annotated[
        Optional[ProfileBlock],
        Meta(description="A profile of some ranks: where their time goes."),
    ] = None

    @property
    def local_results(self) -> frozenset[str]:
        """The paths on this machine to which runs write."""
        boards = [tracker.tensorboard for tracker in self.tracking]
        found = [self.outputs, self.checkpoints, *boards]
        return frozenset(str(path) for path in found if path and path.scheme == "file")
