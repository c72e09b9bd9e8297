"""Facts of a job and of the catalogue in the form that a situation has them. Pure."""

from __future__ import annotations

from rsctl.estimate.advice.interconnect import INTERCONNECTS, OTHER, Interconnect
from rsctl.estimate.advice.profile import DTYPE_BYTES
from rsctl.estimate.advice.step import ExchangeSettings
from rsctl.estimate.catalog.prices import Price, price_of
from rsctl.job.job import Job
from rsctl.job.units import Accelerator
from rsctl.target_info import target_info

GROUP_BYTES = 260 / 256
"""Bytes of a number of 8 bits, with its part of a scale."""

_COMPRESSED_BYTES = {"fp16": 2, "bf16": 2, "int8": GROUP_BYTES, "fp8": GROUP_BYTES}


def settings_of(job: Job) -> ExchangeSettings:
    """How the job's gradients travel; PowerSGD and a hook are taken for no compression."""
    comm = job.comm
    size = DTYPE_BYTES[job.model.dtype if job.model else "fp32"]
    own = size if comm.local_steps == 1 else DTYPE_BYTES["fp32"]
    sent = _COMPRESSED_BYTES.get(comm.compression, own)
    return ExchangeSettings(
        bucket_mb=None if comm.bucket_mb == "auto" else comm.bucket_mb,
        sent_part=min(own, sent) / size,
        may_compress=comm.compression == "none" and comm.hook is None and own > 2,
        reducers_only=comm.has_8_bits,
        is_compressed=comm.compression in _COMPRESSED_BYTES,
        gradients_only=comm.hook is not None or comm.compression not in ("none", "fp16", "bf16"),
        local_steps=comm.local_steps,
        fragments=comm.fragments,
        parameter_part=DTYPE_BYTES["fp32"] / size,
    )


def interconnect_of(job: Job, accelerator: str | None) -> Interconnect | None:
    """The link between a node's GPUs; None if gradients are exchanged through CPUs."""
    if not accelerator or job.comm.backend == "gloo":
        return None
    return INTERCONNECTS.get(Accelerator(accelerator).type, OTHER)


def dollars_of(
    job: Job, catalog: str | None, machine: str | None, accelerator: str | None = None
) -> float | None:
    """US dollars an hour for a node where the job runs; None if that is unknown.

    `catalog` is the name of the target's catalogue, if it has one.
    """
    if catalog is None or machine is None:
        return None
    region = getattr(getattr(job.targets, catalog, None), "region", None)
    price = price_of(
        catalog,
        machine,
        Accelerator.parse(accelerator) if accelerator else None,
        region=region if isinstance(region, str) else None,
        spot=has_spot_price(job, catalog),
    )
    return price.dollars if isinstance(price, Price) else None


def has_spot_price(job: Job, target: str) -> bool:
    """Whether a job's machines have the price of spot machines on a target."""
    capacity = getattr(getattr(job.targets, target, None), "capacity", None)
    is_spot = job.limits.spot if capacity is None else capacity == "spot"
    return is_spot and target_info(target).has_spot_prices
