"""A job's replicas as steps on components of a Slurm job. Pure.

A component is a number of equal nodes; a job with several components is a heterogeneous job. A
step is one `srun` of equal tasks, on all or some of a component's nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from rsctl.findings import Finding, error, note, warning
from rsctl.job.job import Job
from rsctl.job.values import value_on
from rsctl.targets.base import Pool, merged_pools
from rsctl.targets.chief import chief_job, has_own_chief
from rsctl.targets.roles import role_job
from rsctl.targets.slurm.options import slurm_options
from rsctl.targets.variables import reducer_count


@dataclass(frozen=True)
class Component:
    """Equal nodes. `features` is what they must have beside the constraint of all nodes."""

    role: str
    nodes: int
    features: Optional[str] = None
    gpus: int = 0


@dataclass(frozen=True)
class Step:
    """Tasks of one role from the index `first` on, one a node of `component`.

    `skipped` nodes of the component have other tasks. More tasks than nodes are only had by
    colocated reducers. `job` is the job with this pool's settings as those of the workers.
    """

    name: str
    role: str
    first: int
    tasks: int
    component: int
    nodes: int
    job: Job
    processes: int = 1
    skipped: int = 0


@dataclass(frozen=True)
class Allocation:
    """The components of a job, and its steps in the order in which they start."""

    components: tuple[Component, ...]
    steps: tuple[Step, ...]

    @property
    def world_size(self) -> int:
        """The ranks of all workers."""
        return sum(step.tasks * step.processes for step in self.steps if step.role == "worker")

    def pools(self) -> list[Pool]:
        """The pools of the plan: workers first, then reducers, then the job's own roles."""
        order = {"worker": 0, "reducer": 1}
        steps = sorted(self.steps, key=lambda step: (order.get(step.role, 2), step.first))
        return merged_pools(
            Pool(
                role=step.role,
                count=step.tasks,
                machine=None
                if step.role == "reducer" and self._is_guest(step)
                else self.components[step.component].features,
                accelerator=_shown(step.job) if step.role != "reducer" else None,
            )
            for step in steps
        )

    def _is_guest(self, step: Step) -> bool:
        return self.components[step.component].role != step.role


def allocation_of(job: Job) -> Allocation:
    """The components and steps of a job."""
    components: list[Component] = []
    steps: list[Step] = []
    chief = chief_job(job)
    if has_own_chief(job):
        components.append(_component(chief, "worker", 1))
        steps.append(_step("chief", chief, 0, 1, 0))
        others = _component(job, "worker", job.workers.count - 1)
        is_alike = components[0] == _component(job, "worker", 1)
        if others.nodes and is_alike:
            components = [_component(job, "worker", job.workers.count)]
            steps.append(_step("workers", job, 1, others.nodes, 0, skipped=1))
        elif others.nodes:
            components.append(others)
            steps.append(_step("workers", job, 1, others.nodes, 1))
    else:
        components.append(_component(job, "worker", job.workers.count))
        steps.append(_step("workers", job, 0, job.workers.count, 0))
    before = list(_reducer_steps(job, components))
    for name, role in job.roles.items():
        own = role_job(job, name)
        components.append(_component(own, name, role.count))
        before.append(Step(name, name, 0, role.count, len(components) - 1, role.count, own))
    # What the workers connect to starts before them.
    return Allocation(tuple(components), (*before, *steps))


def _reducer_steps(job: Job, components: list[Component]) -> Iterator[Step]:
    count, ranks = reducer_count(job), job.workers.ranks
    if not count:
        return
    if is_colocated(job):
        # On the nodes of the workers' last component, which has all workers but an own chief.
        nodes = min(count, components[-1].nodes)
        yield Step("reducers", "reducer", 0, count, len(components) - 1, nodes, job, ranks)
        return
    machine = value_on(job.reducers.machine, "slurm")
    features = None if machine in (None, "auto") else machine
    components.append(Component("reducer", count, features))
    yield Step("reducers", "reducer", 0, count, len(components) - 1, count, job, ranks)


def _component(job: Job, role: str, nodes: int) -> Component:
    machine = value_on(job.workers.machine, "slurm")
    machine = "|".join(machine) if isinstance(machine, (list, tuple)) else machine
    gpus = job.workers.accelerator.per_node if job.workers.accelerator else 0
    return Component(role, nodes, machine, gpus)


def _step(name: str, job: Job, first: int, tasks: int, component: int, skipped: int = 0) -> Step:
    return Step(name, "worker", first, tasks, component, tasks, job, job.workers.ranks, skipped)


def _shown(job: Job) -> Optional[str]:
    return str(job.workers.accelerator) if job.workers.accelerator else None


def is_colocated(job: Job) -> bool:
    """Whether reducers are tasks on the workers' nodes."""
    options = slurm_options(job)
    if options.reducer_placement != "auto":
        return options.reducer_placement == "colocated"
    has_own_nodes = bool(options.reducer_partition) or job.reducers.machine != "auto"
    return is_requeued(job) and not has_own_nodes


def is_requeued(job: Job) -> bool:
    """Whether Slurm may start the job again.

    By default if the job asks for it, or keeps checkpoints from which the next start resumes. A
    bench sets `requeue: no` for its runs: a second start under the same ID spoils their numbers.
    """
    options, restarts = slurm_options(job), job.limits.restarts
    if options.requeue != "auto":
        return options.requeue == "yes"
    resumes = job.checkpoints is not None and not options.auto_resume
    return restarts == "platform" or (restarts is None and resumes)


def pool_findings(job: Job) -> Iterator[Finding]:
    """Notes on what rsctl has chosen, and errors for what Slurm cannot do."""
    if is_requeued(job) and job.limits.restarts is None and slurm_options(job).requeue == "auto":
        message = (
            "Slurm starts the job again after a preemption or the failure of a node, because the "
            "job keeps checkpoints"
        )
        remedy = "if the script does not resume from them, set limits.restarts: never"
        yield note("requeue", message, remedy, "limits.restarts")
    if job.reducers.count == "auto" and reducer_count(job):
        message = f"{reducer_count(job)} reducers: as many as workers, because rsctl does not know "
        yield note("reducers", f"{message}the links of the nodes", None, "reducers.count")
    if is_requeued(job) and slurm_options(job).auto_resume:
        message = "HyperPod resumes the steps itself, and a requeue would start the job again"
        path = "targets.slurm.auto_resume"
        yield warning("requeue", message, f"remove {path}, or set limits.restarts: never", path)
    if reducer_count(job) and is_colocated(job) and slurm_options(job).reducer_placement == "auto":
        message = "reducers run on the workers' nodes, because the job may be requeued"
        remedy = "for nodes of their own, set targets.slurm.reducer_placement: separate"
        yield note("reducers", message, remedy, "reducers.count")
    is_het = len(allocation_of(job).components) > 1
    if is_het and is_requeued(job):
        message = "Slurm does not requeue a heterogeneous job when it preempts the job"
        remedy = "set targets.slurm.reducer_placement: colocated, or targets.slurm.requeue: no"
        yield warning("requeue", message, remedy, "targets.slurm.requeue")
    if job.run.launcher == "none" and reducer_count(job):
        yield error(
            "unsupported",
            "reducers need rsctl-launch, which launcher none does not use",
            "use launcher torchrun or once",
            "reducers.count",
        )
    if is_colocated(job) and reducer_count(job) and job.reducers.machine != "auto":
        message = "reducers run on the workers' nodes, so their machine is not used"
        yield note("unused", message, None, "reducers.machine")
