"""The reducer pool of a job: its kind, count and machine, with their checks. Pure.

Reduction Server's own rules are from Google's documentation, "Distributed training"; that flex
start wants one machine configuration for all pools is from "Schedule training jobs based on
resource availability".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from rsctl.estimate.catalog import Machine
from rsctl.estimate.catalog.sizing import reducers_for
from rsctl.findings import Finding, error, note, warning
from rsctl.images.transport import choose_transport
from rsctl.job.job import Job
from rsctl.targets.launch_command import unlaunched
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.machines import reducer_machine
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.scheduling import spot_key, strategy_of

Kind = Literal["google", "rsctl"]
_COUNT = "reducers.count"
_KINDS: dict[str, Kind] = {"reduction-server": "google", "rsctl": "rsctl"}


class ReducerPool(msgspec.Struct, frozen=True):
    """A reducer pool: Google's Reduction Server, or rsctl's own reducers."""

    kind: Kind
    count: int
    machine: Machine

    @property
    def transport(self) -> str:
        """The requirement on the workers' image for using them."""
        return "rsctl" if self.kind == "rsctl" else "reduction-server"


def kind_of(job: Job) -> Kind | None:
    """The kind of the job's reducers; None if it has none, or if nothing in it would use them."""
    if not job.reducers.count or job.workers.count == 1:
        return None
    if job.comm.backend == "rsctl":
        return "rsctl"
    if job.image.transport == "auto" and not job.run.is_launched:
        # The container does not have rsctl, so only the image's own plugin can use them.
        return "google" if job.workers.accelerator else None
    transport = choose_transport(job, "vertex").transport
    return _KINDS.get(transport)


def reducers_of(job: Job, worker: Machine | None, findings: list[Finding]) -> ReducerPool | None:
    """The reducer pool; None if there is none, or, with the reasons in `findings`, if it is
    impossible.
    """
    if not job.reducers.count:
        findings += _without(job)
        return None
    if job.workers.count == 1:
        findings.append(_one_worker(job))
        return None
    kind = kind_of(job)
    if kind is None:
        findings.append(_useless(job))
        return None
    findings += _rules(job, kind)
    machine = reducer_machine(job, findings)
    if machine is None or worker is None or worker.tpu:
        return None
    findings += _own_transport(job, worker)
    count = _advised(job, kind, worker, machine, findings)
    if count is None:
        count = _count(job, worker, machine, findings)
    return ReducerPool(kind, count, machine) if count else None


def _without(job: Job) -> Iterator[Finding]:
    """The setting that requests reducers in a job without any.

    The image may still contain a transport: a comparison with and without reducers uses one image.
    """
    if job.comm.backend == "rsctl":
        yield error("comm", "backend rsctl needs reducers", "set reducers.count", "comm.backend")
    elif job.image.transport in ("reduction-server", "rsctl"):
        message = f"there are no reducers, so {job.image.transport} in the image is not used"
        yield note("reducers", message, None, _COUNT)


def _one_worker(job: Job) -> Finding:
    message = "reducers need at least two workers: one alone has no gradient to exchange"
    if job.reducers.count == "auto" and job.comm.backend != "rsctl":
        return note("reducers", f"no reducers: {message}", None, _COUNT)
    return error("reducers", message, "set reducers.count: 0, or workers.count: 2", _COUNT)


def _useless(job: Job) -> Finding:
    if not job.run.is_launched:
        what, remedy = unlaunched(job)
        message = f"reducers without GPUs need rsctl-launch, which {what} does not use"
        return error("reducers", message, remedy, _COUNT)
    return error(
        "reducers",
        f"image.transport {job.image.transport} does not use reducers",
        "set image.transport: auto, or reducers.count: 0",
        "image.transport",
    )


def _rules(job: Job, kind: Kind) -> Iterator[Finding]:
    """Rules for reducers on all machines."""
    strategy = strategy_of(job)
    if strategy == "FLEX_START":
        message = (
            "flex start gives all pools the same machine type, and reducers use a different one"
        )
        remedy = "set reducers.count: 0, or another targets.vertex.capacity"
        yield error("reducers", message, remedy, _COUNT)
    if strategy == "SPOT":
        message = "the reducers are spot machines too, and the loss of one stops all workers"
        key, other = spot_key(job)
        yield warning("spot", message, f"save checkpoints, or set {key}: {other}", key)
    if vertex_options(job).persistent_resource:
        message = "the persistent resource must also have a pool of the reducers' machine type"
        yield note("reducers", message, None, "targets.vertex.persistent_resource")
    if kind == "google":
        yield from _reduction_server_rules(job)
    elif job.image.transport == "reduction-server":
        message = (
            "comm.backend rsctl uses its own reducers, but the image has Reduction Server's plugin"
        )
        yield error("comm", message, "set image.transport: auto", "image.transport")


def _reduction_server_rules(job: Job) -> Iterator[Finding]:
    if not job.workers.accelerator:
        message = "Reduction Server requires workers with GPUs"
        remedy = "set image.transport: rsctl, which does not need GPUs"
        yield error("reducers", message, remedy, "image.transport")
    if job.comm.backend == "gloo":
        message = "Reduction Server accelerates NCCL, and with gloo its reducers would be idle"
        remedy = "set comm.backend: auto, or image.transport: rsctl"
        yield error("comm", message, remedy, "comm.backend")
    if job.comm.on_reducer_loss == "fallback":
        message = "only rsctl's own reducers can be lost without failing the job"
        remedy = "set comm.on_reducer_loss: fail, or image.transport: rsctl"
        yield error("comm", message, remedy, "comm.on_reducer_loss")
    yield note(
        "reduction-server",
        "Reduction Server accelerates NCCL's all-reduce, as used by DDP and between the nodes of "
        "hybrid sharding (HSDP); for the reduce-scatter and all-gather of full sharding (FSDP, "
        "ZeRO) no gain is documented",
        None,
        _COUNT,
    )
    if job.reducers.env:
        message = "Google documents no variables of Reduction Server: these may have no effect"
        yield note("reduction-server", message, None, "reducers.env")
    advised = rules().bucket_mb
    if job.comm.bucket_mb == "auto" and job.run.is_launched:
        message = "Reduction Server benefits from large buckets, and DDP's default is 25 MB"
        yield note("bucket", message, f"set comm.bucket_mb: {advised}", "comm.bucket_mb")
    if job.run.env.get("NCCL_COLLNET_ENABLE") == "0":
        message = "NCCL_COLLNET_ENABLE=0 probably disables Reduction Server"
        yield warning("reducers", message, "remove it", "run.env.NCCL_COLLNET_ENABLE")
    if job.image.uri or not job.run.is_launched:
        message = (
            "the image must contain google-reduction-server, and must not contain "
            "google-fast-socket"
        )
        yield note("reduction-server", message, None, "image")


def _own_transport(job: Job, worker: Machine) -> Iterator[Finding]:
    """Check machines with their own plugin for NCCL: reducers need an explicit number."""
    if not worker.own_transport:
        return
    message = f"{worker.name} has {worker.own_transport} with a separate plugin for NCCL"
    if job.reducers.count == "auto":
        remedy = "set reducers.count: 0, or a number to use reducers anyway"
        yield error(
            "reducers", f"{message}: reducers are intended for machines without it", remedy, _COUNT
        )
    else:
        message += "; the combination with reducers is not documented"
        yield warning("reducers", message, "set reducers.count: 0", _COUNT)


def _advised(
    job: Job, kind: Kind, worker: Machine, reducer: Machine, findings: list[Finding]
) -> int | None:
    """The number of rsctl's reducers by advice; Reduction Server has a documented rule."""
    if kind == "google" or job.reducers.count != "auto" or job.model is None:
        return None
    from rsctl.estimate.advice.automatic import automatic_reducers  # few plans need the model

    advised = automatic_reducers(job, "vertex", worker, reducer)
    if advised is None:
        return None
    findings.append(note("reducers", f"{_reducers(advised.reducers)}: {advised.why}", None, _COUNT))
    return advised.reducers


def _count(job: Job, worker: Machine, reducer: Machine, findings: list[Finding]) -> int | None:
    """The number of reducers, and its derivation from the bandwidths."""
    given, accelerator = job.reducers.count, job.workers.accelerator
    sent, taken = worker.bandwidth(accelerator), reducer.gbps
    if not sent or not taken:
        if given != "auto":
            return given
        unknown = reducer.name if sent else worker.name
        message = f"the bandwidth of {unknown} is unknown, so rsctl cannot size the pool"
        findings.append(error("reducers", message, "set reducers.count to a number", _COUNT))
        return None
    count = reducers_for(job.workers.count, sent, taken)
    sum_of = f"{job.workers.count} workers x {sent:g} Gbit/s / {taken:g} Gbit/s each"
    if given == "auto":
        findings.append(note("reducers", f"{_reducers(count)}: {sum_of}", None, _COUNT))
        findings += _least(worker, job)
        return count
    if given < count:
        message = (
            f"the pool has less bandwidth than the workers: {sum_of} would be {_reducers(count)}"
        )
        findings.append(note("reducers", message, "set reducers.count: auto", _COUNT))
    return given


def _least(worker: Machine, job: Job) -> Iterator[Finding]:
    """The documentation does not say how much GPUs raise the bandwidth of a machine."""
    accelerator = job.workers.accelerator
    if (
        accelerator
        and worker.attach
        and f"{accelerator.type}:{accelerator.per_node}" not in (worker.attached_gbps)
    ):
        message = (
            f"{worker.gbps:g} Gbit/s is the bandwidth of {worker.name} without GPUs; its "
            f"bandwidth with {accelerator} is not documented for training, and may be higher"
        )
        yield note(
            "reducers", message, "set reducers.count if you know the actual bandwidth", _COUNT
        )


def _reducers(count: int) -> str:
    return f"{count} reducer" + ("s" if count != 1 else "")
