"""Targets as data, and the list of installed targets.

A third-party target is a distribution with an entry point; see docs/targets.md:

    [project.entry-points."rsctl.targets"]
    mycloud = "mycloud.info:INFO"

The built-in targets are entry points too, but are known without a search through the installed
distributions, which takes milliseconds. References such as "mycloud.target:TARGET" are imported
when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import msgspec

from rsctl.findings import ExitCode, RsctlError, error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rsctl.targets"
"""The group of entry points."""

BUILT_IN: Mapping[str, str] = {
    "vertex": "rsctl.targets.vertex.info:INFO",
    "sagemaker": "rsctl.targets.sagemaker.info:INFO",
    "slurm": "rsctl.targets.slurm.info:INFO",
    "compose": "rsctl.targets.local.info:COMPOSE",
    "process": "rsctl.targets.local.info:PROCESS",
}
"""The entry points of the built-in targets."""


ARGUMENT_KEYS = frozenset({"argv", "args", "command"})
"""The location of the script's arguments in most requests."""

OPTIONAL_KEYS: Mapping[str, str] = {
    "chief": "all workers are identical",
    "roles": "all its nodes are workers or reducers",
    "profile": "it does not start profilers",
}
"""Keys that not every target supports, with the reason in the error."""


class Unsupported(NamedTuple):
    """Why a target cannot honour a key, and the remedy.

    `values` are the values it cannot honour; if empty, all values except the default.
    """

    reason: str
    remedy: str
    values: frozenset[str] = frozenset()


class AutomaticTransport(NamedTuple):
    """The meaning of `image.transport: auto`, and the reason."""

    transport: str
    reason: str


class Quota(NamedTuple):
    """A target's rates: submissions per minute, and polls of all jobs of a bench per minute."""

    submissions: int
    polls: float


class RemoteBuild(NamedTuple):
    """A cloud that builds images.

    `builder` is called with the target's options and the endpoints, and makes a `RemoteBuilder`.
    Each item of `needs` is a group of options of the target of which at least one must be set, with
    an example of the first. `platforms` are the platforms of its machines.
    """

    builder: str
    needs: Mapping[tuple[str, ...], str]
    platforms: tuple[str, ...] = ("linux/amd64",)


class CatalogInfo(NamedTuple):
    """The machines of a target and their prices.

    `machines` and `prices` are YAML files, MODULE:FILE, beside a module: a
    `Catalog` of `rsctl.estimate.catalog` with its machines in groups, and a list of `PriceTable`
    of its module `price_table`. `price_list` is a function of the endpoints that fetches the
    service's own prices as one such table, for `rsctl catalog --refresh`.
    """

    machines: str
    prices: Optional[str] = None
    price_list: Optional[str] = None


class TrackerInfo(NamedTuple):
    """The tracker of `tracking: [{NAME: VALUE}]`, where NAME is the target's name.

    `value` is the annotated type of VALUE, and `check` a function of the job, VALUE and its key
    path that yields findings. `plan` is a function of the job and VALUE that returns a
    `rsctl.job.tracking.PlannedTracker`; `client` is called with that and a
    `rsctl.runs.tracker.TrackedRun` and returns a `Tracker`. Without these two, the request of a
    job makes it part of VALUE, so that only jobs of this target can have the key.
    """

    value: str
    check: str
    plan: Optional[str] = None
    client: Optional[str] = None


class RegistryInfo(NamedTuple):
    """Registries of images that accept the cloud's own credentials.

    `hosts` is a regular expression of their whole host names; `client` is a
    `rsctl.images.registry.client.RegistryClient`.
    """

    hosts: str
    client: str


class EmulatorInfo(NamedTuple):
    """The emulator of a cloud, for rehearsals.

    `emulator` is its class; the module has its `Behaviour` too. `options` are the target's options
    that it gets. A job without an account is rehearsed with `defaults` as its options, and with an
    image of `repository`, in which {region} and {name}, the job's, are replaced.
    """

    emulator: str
    options: tuple[str, ...]
    defaults: Mapping[str, str]
    repository: str
    process_checks: Optional[str] = None
    """A function of the plan that yields findings on features that processes do not have."""


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The type for a target without options."""


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the rest of rsctl has about a target. References are texts, MODULE:NAME.

    The name is the target's everywhere: in job files, after `--target`, as the scheme of its runs'
    URLs, and as the name of its entry point.
    """

    name: str
    title: str
    """Its display name, such as Vertex AI."""
    target: str
    """The `Target`."""
    options: str = "rsctl.target_info:NoOptions"
    """A msgspec.Struct with a default for each field: the keys of targets.NAME in a job file."""
    is_managed: bool = False
    """Whether jobs run elsewhere, and continue without this machine."""
    has_placements: bool = False
    """Whether its option `region` and `workers.machine` may be lists, which are tried in order."""
    regional: Mapping[str, str] = {}
    """Options whose values belong to one region, with the remedy for a job with several regions."""
    tries_machines: Mapping[str, str] = {}
    """Options by which the service itself tries several machines, with the remedy for a job that
    also has a list.
    """
    catalog: Optional[CatalogInfo] = None
    """Its machines and their prices."""
    billing: Optional[str] = None
    """How a request is billed: a function of the request that returns a
    `rsctl.estimate.costs.billing.Billing`."""
    has_spot_prices: bool = True
    """Whether spot machines have prices of their own. Otherwise fewer seconds are billed."""
    quota: Optional[Quota] = None
    """How fast a bench may submit and poll."""

    schemes: frozenset[str] = frozenset({"file"})
    """The locations of data that its jobs can reach: `file` for local paths, `gs`, `s3`."""
    fetched_schemes: frozenset[str] = frozenset()
    """Further locations of inputs that are copied, or whose URLs the script opens itself."""
    input_modes: frozenset[str] = frozenset({"mount"})
    """The implementation of an input's mode: `mount`, `copy`, `stream`; `shards` if rsctl-launch
    gets them, so that each rank has its part.
    """
    refused: Mapping[str, Unsupported] = {}
    """Keys that it cannot honour: errors if they are set to anything but their default."""
    unused: Mapping[str, str] = {}
    """Keys that are for other targets, with the reason: notes if they are set. In these and in
    `refused`, NAME stands for each role: `roles.NAME.disk`."""

    honoured: frozenset[str] = frozenset()
    """The keys of `OPTIONAL_KEYS` that it supports; the others are errors if they are set."""

    reuses_machines: frozenset[str] = frozenset()
    """Options by which one run after the other uses the same machines."""
    result_source: Optional[str] = None
    """For results that this machine may not see: a function of the run's ID, its stored plan, a
    location and the endpoints that returns a `rsctl.runs.fetch.sources.DownloadSource`."""
    bench_options: Mapping[str, Any] = {}
    """Options that each run of a bench has, over those of the job file: a run that the service
    starts again measures something else."""
    node_access: Optional[str] = None
    """The way in which people reach a node of a run if rsctl offers none, for a remedy."""
    excludes_nodes: Optional[str] = None
    """The option that names nodes, with commas between, that a job must not get."""

    platform: Optional[str] = None
    """The platform of its machines, such as linux/amd64; None for the image builder's own."""
    transports: frozenset[str] = frozenset({"none", "rsctl"})
    """The gradient transports that work there."""
    transport_with_reducers: Optional[AutomaticTransport] = None
    """The transport for several nodes with accelerators and reducers; otherwise it is `rsctl`."""
    transport_with_accelerators: Optional[AutomaticTransport] = None
    """The transport for several nodes with accelerators and no reducers; otherwise it is `none`."""
    staging_scheme: Optional[str] = None
    """The scheme of its option `staging`, the location for source that is not in an image."""
    remote_build: Optional[RemoteBuild] = None
    """The service that builds images where this machine cannot."""
    registry: Optional[RegistryInfo] = None
    """The registry of its cloud."""
    tracker: Optional[TrackerInfo] = None
    """The tracking service of its cloud."""
    argument_keys: frozenset[str] = ARGUMENT_KEYS
    """Keys of a request that contain the script's arguments, as a list or by name."""
    installs_requirements: Optional[str] = None
    """How the service's own images install the requirements.txt of `image.source`."""
    aliases: frozenset[str] = frozenset()
    """Other launchers' names of the target, for suggestions."""

    needs: frozenset[str] = frozenset()
    """The requirements on this machine: `torch` for launcher torchrun, `docker`."""
    log_in_check: Optional[str] = None
    """For `doctor` without a job: a function of the severity of a failure that returns a Check."""
    job_checks: tuple[str, ...] = ()
    """For `doctor JOB`: functions of the job and its plan that yield Checks."""
    sdk_code: Optional[str] = None
    """For `plan -o python`: a function of the submission that returns code."""
    script_code: Optional[str] = None
    """For `plan -o script`: a function of the submission that returns the script of its job."""
    sdk_package: Optional[str] = None
    """The distribution of the SDK that the code is for."""
    emulator: Optional[EmulatorInfo] = None
    """The emulator that `emulate` and `submit --rehearse` run."""

    def options_of(self, job: Any) -> Any:
        """The job's options for this target; their defaults if the file does not mention it."""
        options = getattr(job.targets, self.name, None)
        return self.options_type()() if options is None else options

    def options_type(self) -> type[msgspec.Struct]:
        """The class of its options."""
        options: type[msgspec.Struct] = import_object(self.options)
        return options


def target_names() -> tuple[str, ...]:
    """All targets: built-in ones, then third-party ones by name."""
    return (*BUILT_IN, *sorted(_others()))


def bills(name: str) -> bool:
    """Whether the jobs of a target cost money; False for a target that is no longer installed."""
    try:
        return target_info(name).billing is not None
    except RsctlError:
        return False


def has_target(name: str) -> bool:
    """Whether there is a target of this name."""
    return name in BUILT_IN or name in _others()


def target_info(name: str) -> TargetInfo:
    """A target by its name. Raises RsctlError if there is none, or if it cannot be imported."""
    if name in BUILT_IN:
        info: TargetInfo = import_object(BUILT_IN[name])
        return info
    entry = _others().get(name)
    if entry is None:
        message = f"there is no target {name!r}; the targets are {', '.join(target_names())}"
        remedy = "correct the name, or install the package that provides it"
        raise RsctlError(ExitCode.USAGE, error("target", message, remedy, "target"))
    return _load_other(name, entry)


def all_targets() -> list[TargetInfo]:
    """All targets that can be imported."""
    found = []
    for name in target_names():
        try:
            found.append(target_info(name))
        except RsctlError:  # only jobs that name it get an error
            continue
    return found


def import_object(reference: str) -> Any:
    """The object that MODULE:NAME names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@cache
def _others() -> dict[str, EntryPoint]:
    """The entry points of third-party targets by name; built-in targets cannot be replaced."""
    from importlib.metadata import entry_points

    return {e.name: e for e in entry_points(group=GROUP) if e.name not in BUILT_IN}


def _load_other(name: str, entry: EntryPoint) -> TargetInfo:
    try:
        info = entry.load()
    except Exception as problem:
        raise _broken(name, entry, f"{type(problem).__name__}: {problem}") from problem
    if not isinstance(info, TargetInfo):
        raise _broken(name, entry, f"{entry.value} is not an rsctl.target_info.TargetInfo")
    if info.name != name:
        raise _broken(name, entry, f"its TargetInfo has the name {info.name!r}")
    return info


def _broken(name: str, entry: EntryPoint, why: str) -> RsctlError:
    package = entry.dist.name if entry.dist else entry.value
    message = f"target {name} of {package} cannot be used: {why}"
    finding = error("target", message, f"correct or reinstall {package}", "target")
    return RsctlError(ExitCode.ENVIRONMENT, finding)
