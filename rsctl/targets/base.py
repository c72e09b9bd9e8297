"""The target contract: the interface of everything that runs jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol, Union, runtime_checkable

import msgspec
from msgspec.structs import replace

from rsctl.estimate.costs.billing import PlanCost
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, warning
from rsctl.job.env_checks import without_secret
from rsctl.job.job import Job
from rsctl.job.placements import Placement
from rsctl.job.tracking import TrackingPlan
from rsctl.runs.stream.events import Cursor, Event, now
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.target_info import TargetInfo
from rsctl.targets.inputs import InputPlan

if TYPE_CHECKING:
    from rsctl.images.events import Show
    from rsctl.images.package import Package
    from rsctl.images.recipe import Recipe
    from rsctl.runs.store import RunRecord


class NodeCommand(NamedTuple):
    """A process on this machine that is, or reaches, a command on a node of a run."""

    argv: list[str]
    cwd: Optional[str] = None
    env: Optional[dict[str, str]] = None


@runtime_checkable
class Enterable(Protocol):
    """A target that can run commands on the nodes of its runs."""

    def enter(
        self, run: str, replica: str, command: list[str], is_terminal: bool
    ) -> Optional[NodeCommand]:
        """The process here by which a command runs on a node, with the job's variables; None
        if the node does not run. An empty command is a shell.
        """


class Shell(NamedTuple):
    """A shell on a node that a service offers: its page, or a command on this machine."""

    page: Optional[str] = None
    command: Optional[list[str]] = None


@runtime_checkable
class ShellTarget(Protocol):
    """A target whose service offers shells on the nodes of a job."""

    def shell(self, run: RunRecord, replica: str) -> Shell:
        """The shell on a node. Raises RsctlError if the job does not allow shells, or if the
        service has not named the node yet.
        """


class Unanswered(RsctlError):
    """A submission whose answer was lost: only a later poll shows whether it made a job.

    `problem` is the error in place of an answer.
    """

    def __init__(self, run: str, problem: RsctlError) -> None:
        message = f"it is unknown whether the job of {run} exists"
        remedy = f"check its state: rsctl status {run}   cancel it: rsctl cancel {run}"
        unknown = warning("unanswered", message, remedy)
        # Their remedy is to submit again, which would be another job.
        lost = [replace(finding, remedy=None) for finding in problem.findings]
        super().__init__(ExitCode.RESULT_UNKNOWN, *lost, unknown)


class ImagePlan(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The image: its tag, or None if no container is used, and its gradient transport.

    `reference` is submitted in place of the tag if the image is already in its registry.
    """

    tag: Optional[str]
    transport: str
    reference: Optional[str] = None


class Pool(msgspec.Struct, kw_only=True, frozen=True):
    """Replicas of one role on one kind of machine. `gbps` is Gbit/s a node, None if not known."""

    role: str
    count: int
    machine: Optional[str] = None
    accelerator: Optional[str] = None
    gbps: Optional[float] = None


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """Everything that a submission will do; `rsctl plan -o json` prints it.

    `env` is the environment of the script; a None value is a secret from the submitter's
    environment, which is never shown. `cost` is set if machines are billed, `inputs` and `tracking`
    if the job has any, and `alternatives` if it has further placements: the request is for the
    first placement.
    """

    run: str
    target: str
    image: ImagePlan
    pools: list[Pool]
    world_size: int
    env: dict[str, Optional[str]]
    request: dict[str, Any]
    findings: list[Finding] = []
    inputs: Union[list[InputPlan], msgspec.UnsetType] = msgspec.UNSET
    cost: Union[PlanCost, msgspec.UnsetType] = msgspec.UNSET
    alternatives: Union[list[Placement], msgspec.UnsetType] = msgspec.UNSET
    tracking: Union[TrackingPlan, msgspec.UnsetType] = msgspec.UNSET


_ANYWHERE = Placement()


class Placeholder(NamedTuple):
    """A value of a request that is known only as it is sent.

    `path` leads to it through the request's mappings and lists. `secret` is the variable whose
    value belongs at that position; None stands for the image, by its digest.
    """

    path: tuple[Union[str, int], ...]
    secret: Optional[str] = None


class Submission(msgspec.Struct, frozen=True):
    """All data for sending a job: `render` makes it, and `submit` derives nothing again.

    `job` is the job as the target settled it. `recipe` builds the plan's image, None if none is
    built; `package` is the source to add to an image that is used unchanged. `placeholders` are the
    values of the request that are filled in when it is sent, `secrets` the names of the variables
    that the plan shows as None. An image that is not `pushed` stays on this machine. `text` is the
    text of the job file, None for a job that was made in Python. `placement` is its destination,
    `alternatives` are the submissions to the job's other placements, in the order in which they are
    tried.
    """

    plan: Plan
    job: Job
    recipe: Optional[Recipe] = None
    package: Optional[Package] = None
    placeholders: tuple[Placeholder, ...] = ()
    secrets: tuple[str, ...] = ()
    is_pushed: bool = True
    text: Optional[str] = None
    placement: Placement = _ANYWHERE
    alternatives: tuple[Submission, ...] = ()


class Target(Protocol):
    """A service that runs jobs: a cloud's, or this machine."""

    info: TargetInfo

    def render(self, job: Job, run: str) -> Submission:
        """Make the submission. Pure: no network, clock, credentials, SDK or docker.

        Only `rsctl.plan.make_plan` calls it. Raises RsctlError.
        """

    def preflight(self, submission: Submission) -> list[Finding]:
        """The obstacles to sending it from this environment; changes nothing."""

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Provide the image where jobs can start from it; its reference, None if there is no image.

        `submit` does this itself unless the plan already has the reference. Raises RsctlError, with
        code `changed` if the files have changed since the plan.
        """

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Send the plan's request; a second call for the same run finds the first's job.

        `record` stores the run; it is called before anything is started, and only when other
        processes cannot mistake the run for a killed one. `show` gets the progress of a build.
        Raises RsctlError.
        """

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """Batches of log lines and states, in order; `since` is advanced as they are yielded.

        With `follow` it ends when the job has ended and its log is complete, and it yields an empty
        batch now and then while nothing happens; without `follow` it ends after the existing lines.
        """

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """The locations of a run's results by kind: `outputs`, `checkpoints`, `model`.

        `plan` is the run's stored plan. A location is a path on this machine or a bucket's URL.
        """

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """The pages about a job by kind: `console`, `tensorboard`, `logs`. Pure.

        `url` is the run's, `plan` its stored plan. There are none of jobs on this machine.
        """

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""

    def reconcile(self, run: str) -> None:
        """Bring the store up to date with the job, and clean up what a killed run left."""

    def poll(self, run: str) -> bool:
        """Reconcile the run without waiting; returns whether its data is complete.

        For callers that watch many runs in one thread; the run's folder has the result.
        """

    def collect(self, run: str) -> None:
        """Bring the run's log and metrics on this machine up to date."""

    def cancel(self, run: str) -> None:
        """Request that the job ends. Returns immediately; does not change a job that has ended."""

    def release(self, run: str) -> None:
        """Release what `reconcile`, `poll` and `collect` hold for a run in this thread.

        Then another process or thread can collect its log; for callers that continue without it.
        """


class AdoptingTarget(Target, Protocol):
    """A managed target: its jobs may have been submitted elsewhere."""

    def adopt(self, url: str) -> RunRecord:
        """Add the job of a URL to the store as a run, unless it is there. Raises RsctlError."""


def new_run(submission: Submission, settings: Iterable[str] = ()) -> RunRecord:
    """The record of a run before it is sent; the target does not know it yet."""
    from rsctl.job.kept_text import kept_text
    from rsctl.runs.store import RunRecord  # a plan needs no database

    plan, job = submission.plan, submission.job
    return RunRecord(
        run=plan.run,
        name=job.name,
        target=plan.target,
        url=f"{plan.target}://{plan.run}",
        state=JobState.QUEUED,
        created=now(),
        plan=msgspec.to_builtins(plan),
        metrics_spec=metric_specs(job),
        settings=[without_secret(setting) for setting in settings],
        spec=kept_text(submission.text) if submission.text is not None else None,
    )


def replica_names(pools: Iterable[Pool]) -> list[str]:
    """`worker-0` … of a plan's pools, in their order; pools of one role are numbered through."""
    counts: dict[str, int] = {}
    names = []
    for pool in pools:
        first = counts.get(pool.role, 0)
        counts[pool.role] = first + pool.count
        names += [f"{pool.role}-{index}" for index in range(first, counts[pool.role])]
    return names


def merged_pools(pools: Iterable[Pool]) -> list[Pool]:
    """The pools without empty ones; consecutive equal pools are merged into one.

    So a chief that is like the other workers has no pool of its own in a plan.
    """
    merged: list[Pool] = []
    for pool in pools:
        if merged and replace(merged[-1], count=pool.count) == pool:
            merged[-1] = replace(pool, count=merged[-1].count + pool.count)
        elif pool.count:
            merged.append(pool)
    return merged


def count_of_role(pools: Iterable[Pool], role: str) -> int:
    """How many nodes have a role."""
    return sum(pool.count for pool in pools if pool.role == role)


def metric_specs(job: Job) -> dict[str, MetricSpec]:
    """The spec's metrics, for reading them out of the log."""
    return {
        name: MetricSpec(
            regex=metric.regex and str(metric.regex),
            goal=metric.goal,
            unit=metric.unit,
            warmup=str(metric.warmup),
            aggregate=metric.aggregate,
        )
        for name, metric in job.metrics.items()
    }
