"""Machines, accelerators and bandwidths, as data with sources and dates, and look-ups.

What they cost is in `prices.py`.

The data of a target is the file that its `TargetInfo.catalog` names. Its `groups` are machines
that have much in common: the values under `all` apply to each of the group's `machines` that does
not override them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Optional, TypeVar

import msgspec

from rsctl.job.units import Accelerator
from rsctl.target_info import target_info

T = TypeVar("T")

FOLDER = Path(__file__).parent
COMPILED = FOLDER / "data.json"
"""All YAML files of the package; made by `make schema`."""
_NCCL_NEEDS = {
    "gib": "the variables of /usr/local/gib/scripts/set_nccl_env.sh",
    "tcpx": "Google's plugin for NCCL in the image",
    "tcpxo": "Google's plugin for NCCL in the image",
}
_VCPUS_EACH = 4  # the minimum for each GPU of a machine that rsctl chooses


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine type.

    `accelerators` are the counts a node that are possible; none at all is a CPU machine.
    `gbps` is the most that a node sends to others by TCP, in Gbit/s.
    `own_transport` names the machine's own transport of gradients, with which reducers have no use.
    `retired` is a text with the date since when it cannot be had.

    `attach` has the counts of each accelerator that can be added to the machine if that is a
    choice, and `attached_gbps` the bandwidth with `NAME:COUNT` of them. `regions` are the regions
    where it is available, empty if unknown. `enum` is the accelerator's name in the cloud's API,
    `efa` the number of EFA interfaces, `quota` the name of the quota that it counts against.
    `choose` is False for a machine that rsctl uses only if the job names it. `arm` is True where
    the processors are Arm's, so that the image must be for linux/arm64.

    `gpu_quota` is the quota of its accelerators if it differs from the quota of their kind.
    `nccl_setup` is NCCL's setup for the machine's own transport. `disks` are the types of boot disk
    that it takes, empty if all. `tpu` is True for a host of TPUs, and `topologies` are the slices
    that it can be part of, the slice of one host first.
    """

    name: str
    vcpus: int
    memory_gib: float
    accelerator: Optional[str] = None
    accelerators: list[int] = []
    gbps: Optional[float] = None
    own_transport: Optional[str] = None
    retired: Optional[str] = None
    attach: dict[str, list[int]] = {}
    attached_gbps: dict[str, float] = {}
    regions: list[str] = []
    enum: Optional[str] = None
    efa: int = 0
    quota: Optional[str] = None
    choose: bool = True
    arm: bool = False
    gpu_quota: Optional[str] = None
    nccl_setup: Optional[Literal["gib", "tcpx", "tcpxo"]] = None
    disks: list[str] = []
    tpu: bool = False
    topologies: list[str] = []

    @property
    def nccl_needs(self) -> str | None:
        """The requirement for NCCL to use the machine's own transport; None if there is none."""
        return _NCCL_NEEDS.get(self.nccl_setup or "")

    def counts(self, accelerator: str) -> list[int]:
        """How many accelerators of a name a node of this type can have."""
        if accelerator == self.accelerator:
            return self.accelerators
        return self.attach.get(accelerator, [])

    def fits(self, accelerator: Accelerator | None) -> bool:
        """Whether a node of this type can be had with just these accelerators."""
        if accelerator is None:
            return not self.accelerators
        return accelerator.per_node in self.counts(accelerator.type)

    def bandwidth(self, accelerator: Accelerator | None) -> float | None:
        """The most that a node with these accelerators sends to others, in Gbit/s."""
        if accelerator is None:
            return self.gbps
        written = f"{accelerator.type}:{accelerator.per_node}"
        return self.attached_gbps.get(written, self.gbps)


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of accelerator, under the name that a spec has for it.

    `enum` is its name in the cloud's API, `regions` are the regions where it is available, empty if
    unknown, and `retired` is a text with the date since when it is not available.
    """

    enum: Optional[str] = None
    regions: list[str] = []
    retired: Optional[str] = None
    quota: Optional[str] = None


class Catalog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The offer of one cloud: `machines` and `gpus` by name, with their source, as of a date.

    `reducer` is the machine that reducers run on unless the job sets another. `regions` are those
    known on the date `regions_as_of`; none where the target has no regions.
    """

    target: str
    as_of: str
    sources: list[str]
    reducer: str
    machines: dict[str, Machine]
    gpus: dict[str, Gpu] = {}
    regions: list[str] = []
    regions_as_of: Optional[str] = None

    def accelerator_named(self, enum: str) -> str | None:
        """The spec's name for the API's `enum`, even if only one machine has it."""
        own = (name for name, gpu in self.gpus.items() if gpu.enum == enum)
        of_machines = (m.accelerator for m in self.machines.values() if m.enum == enum)
        return next(own, None) or next(of_machines, None)


@lru_cache
def load(target: str) -> Catalog:
    """The catalogue of a target. Raises LookupError if it has none."""
    files = target_info(target).catalog
    if files is None:
        raise LookupError(f"target {target} has no catalogue")
    data = read_file(files.machines, dict[str, Any])
    machines: dict[str, Any] = {}
    for group in data.pop("groups"):
        common = group.get("all", {})
        for name, own in group["machines"].items():
            machines[name] = {"name": name, **common, **own}
    return msgspec.convert({**data, "target": target, "machines": machines}, Catalog)


def accelerators(target: str) -> set[str]:
    """The names of all that machines of a catalogue have or can be given."""
    machines = load(target).machines.values()
    return {name for each in machines for name in (each.accelerator, *each.attach) if name}


def read_file(reference: str, kind: type[T]) -> T:
    """The data of a YAML file, MODULE:FILE, that lies beside the module of a package.

    Those of rsctl are read as `rsctl.estimate.catalog.compile` has written them.
    """
    if compiled := _files().get(reference):
        return msgspec.json.decode(compiled, type=kind)
    from importlib.resources import files

    import yaml

    module, _, name = reference.partition(":")
    data = yaml.safe_load((files(module) / name).read_text("utf-8"))
    return msgspec.convert(msgspec.to_builtins(data), kind)  # YAML has a type for dates


@lru_cache
def _files() -> dict[str, msgspec.Raw]:
    """The files by reference, split once: a plan for a cloud wants five of them."""
    return msgspec.json.decode(COMPILED.read_bytes(), type=dict[str, msgspec.Raw])


def smallest(catalog: Catalog, accelerator: Accelerator | None) -> Machine | None:
    """The machine to take where the job names none; None if the catalogue has none that fits.

    Of those that fit, the one with the fewest vCPUs, then the least memory, though with enough
    vCPUs to feed its accelerators if there is such a one.
    """
    fitting = [
        machine
        for machine in catalog.machines.values()
        if machine.choose and not machine.retired and machine.fits(accelerator)
    ]
    wanted = accelerator.per_node * _VCPUS_EACH if accelerator else 0
    return min(
        fitting, key=lambda m: (m.vcpus < wanted, m.vcpus, m.memory_gib, m.name), default=None
    )
