"""The target contract: the interface of everything that runs jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol, Union

import msgspec
from msgspec.structs import replace

from rsctl.estimate.costs.billing import PlanCost
from rsctl.findings import Finding, JobState, RsctlError, warning
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


class Unanswered(RsctlError):
    """A submission whose answer was lost: only a later poll shows whether it made a job.

    `problem` is what came instead of an answer.
    """

    def __init__(self, run: str, problem: RsctlError) -> None:
        message = f"it is unknown whether the job of {run} exists"
        remedy = f"check its state: rsctl status {run}   cancel it: rsctl cancel {run}"
        unknown = warning("unanswered", message, remedy)
        # Their remedy is to submit again, which would be another job.
        lost = [replace(finding, remedy=None) for finding in problem.findings]
        super().__init__(problem.exit_code, *lost, unknown)


class ImagePlan(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The image: its tag, or None if no container is used, and its gradient transport.

    `reference` is what is submitted in place of the tag where that is there already.
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
    """All that a submission will do; what `rsctl plan -o json` prints.

    `env` is what the script finds in its environment; a None value is a secret that is taken from
    the submitter's environment and shown nowhere. `cost` is there where machines are billed,
    `inputs` and `tracking` where the job has any, `alternatives` where it has placements to go on
    to: the request is that of the first placement.
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
    value belongs there; None stands for the image, by its digest.
    """

    path: tuple[Union[str, int], ...]
    secret: Optional[str] = None


@dataclass(frozen=True)
class Submission:
    """All that it takes to send a job: `render` makes it, and `submit` derives nothing again.

    `job` is the job as the target settled it. `recipe` is what the plan's image is built by, None
    if none is built; `package` is the source that an image used as it is lacks. `placeholders`
    are the values of the request that are filled in as it is sent, `secrets` the names of the
    variables that the plan shows as None. An image that is not `pushed` stays on this machine.
    `text` is the job file's, None for a job that was made in Python. `placement` is where it is
    sent, `alternatives` are the submissions to the job's other placements, in the order of trying.
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
        """All that would be sent. Pure: no network, clock, credentials, SDK or docker.

        Called by `rsctl.plan.make_plan` and nobody else. Raises RsctlError.
        """

    def preflight(self, submission: Submission) -> list[Finding]:
        """The obstacles to sending it from this environment; changes nothing."""

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Have the image where jobs can start from it; by which reference, None if none.

        `submit` does so itself unless the plan has the reference already. Raises RsctlError; with
        code `changed` if the files are not those of the plan any more.
        """

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Send the plan's request; a second call for the same run finds the first's job.

        `record` writes the run down; it is called before anything is started, and once nobody
        else can take the run for one that was killed. `show` gets the progress of a build. Raises
        RsctlError.
        """

    def events(self, run: str, since: Cursor, follow: bool) -> Iterator[list[Event]]:
        """Batches of log lines and states, in order; `since` is advanced as they are yielded.

        With `follow` it ends when the job has ended and is drained, and an empty batch is yielded
        now and then while nothing happens; without, it ends at what is there.
        """

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """Where the results of a run are, by what they are: `outputs`, `checkpoints`, `model`.

        `plan` is the run's stored plan. A location is a path on this machine or a bucket's URL.
        """

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """Pages about a job, by what they show: `console`, `tensorboard`, `logs`. Pure.

        `url` is the run's, `plan` its stored plan. There are none of jobs on this machine.
        """

    def tail(self, run: str, lines: int) -> Cursor:
        """A cursor from which at least the last `lines` lines of the run follow."""

    def reconcile(self, run: str) -> None:
        """Bring the store up to date with the job, and clean up what a killed run left."""

    def poll(self, run: str) -> bool:
        """Reconcile the run without waiting; returns whether nothing more will come of it.

        It is for who watches many runs in one thread; the run's folder has what came of it.
        """

    def collect(self, run: str) -> None:
        """Have all that is known by now of the run's log and metrics on this machine."""

    def cancel(self, run: str) -> None:
        """Request that the job ends. Returns at once; a job that has ended is left as it is."""

    def release(self, run: str) -> None:
        """Let go of what `reconcile`, `poll` and `collect` keep of a run for this thread.

        So that another process or thread may collect its log; for who lives on without it.
        """


class AdoptingTarget(Target, Protocol):
    """A managed target: its jobs may have been submitted elsewhere."""

    def adopt(self, url: str) -> RunRecord:
        """The job of a URL as a run of the store, which it is from now on. Raises RsctlError."""


def new_run(submission: Submission, settings: Iterable[str] = ()) -> RunRecord:
    """A run as it is recorded before it is sent; the target does not know it yet."""
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
    """Pools without empty ones, and with those that follow each other as one where they are alike.

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
