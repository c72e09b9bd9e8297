"""The machines of the catalogues with their prices, to list, filter and compare. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Optional

import msgspec

from rsctl.estimate import catalog
from rsctl.estimate.catalog import Machine
from rsctl.estimate.catalog.prices import NoPrice, Price, price_of
from rsctl.job.units import Accelerator


class Offer(msgspec.Struct, kw_only=True, frozen=True):
    """A machine with accelerators, and its price per hour if known.

    `gbps` is the most that it sends to other nodes by TCP, in Gbit/s. `unknown` says why a price
    is missing. `retired` is a text with the date since when it cannot be had.
    """

    target: str
    machine: str
    vcpus: int
    memory_gib: float
    accelerator: Optional[str]
    gbps: Optional[float]
    on_demand: Optional[Price]
    spot: Optional[Price]
    unknown: Optional[str]
    retired: Optional[str]

    @property
    def dollars(self) -> float | None:
        """US dollars an hour on demand, if known."""
        return self.on_demand.dollars if self.on_demand else None

    @property
    def per_gbps(self) -> float | None:
        """US dollars an hour on demand for one Gbit/s to other nodes, if known."""
        return self.dollars / self.gbps if self.dollars is not None and self.gbps else None


class MachineQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Which machines to list. `gpu` is an accelerator's name, or with its count such as v100:8;
    `max_price` is in US dollars an hour on demand.
    """

    gpu: Optional[str] = None
    region: Optional[str] = None
    max_price: Optional[float] = None


ORDERS: dict[str, Callable[[Offer], Optional[float]]] = {
    "price": lambda offer: offer.dollars,
    "spot": lambda offer: offer.spot.dollars if offer.spot else None,
    "price-per-gbps": lambda offer: offer.per_gbps,
    "gbps": lambda offer: None if offer.gbps is None else -offer.gbps,
    "vcpus": lambda offer: -float(offer.vcpus),
    "memory": lambda offer: -offer.memory_gib,
}
"""Orders for a list of machines: the cheapest or the largest first, unknown ones last."""


def offers(catalogues: Iterable[str], wanted: MachineQuery, order: str = "price") -> list[Offer]:
    """The machines that are wanted. Raises RsctlError for a price table of the user's."""
    found = [
        offer
        for name in catalogues
        for machine in catalog.load(name).machines.values()
        for accelerator in _choices(machine, wanted.gpu)
        if _is_in(machine, accelerator, name, wanted.region)
        for offer in [_offer(name, machine, accelerator, wanted.region)]
        if wanted.max_price is None
        or (offer.dollars is not None and offer.dollars <= wanted.max_price)
    ]
    key = ORDERS[order]

    def by(offer: Offer) -> tuple[float, str, str, int]:
        value = key(offer)
        count = Accelerator(offer.accelerator).per_node if offer.accelerator else 0
        return (math.inf if value is None else value, offer.target, offer.machine, count)

    return sorted(found, key=by)


def _choices(machine: Machine, gpu: str | None) -> Iterator[Accelerator | None]:
    """With which accelerators a machine is listed."""
    if gpu is None:
        counts = machine.accelerators
        yield from (Accelerator(f"{machine.accelerator}:{count}") for count in counts)
        if not counts:
            yield None
        return
    name, _, number = gpu.partition(":")
    for count in machine.counts(name):
        if not number or number == str(count):
            yield Accelerator(f"{name}:{count}")


def _is_in(
    machine: Machine, accelerator: Accelerator | None, target: str, region: str | None
) -> bool:
    """Whether it is available in a region, as far as rsctl knows."""
    if region is None:
        return True
    gpus = catalog.load(target).gpus
    of_gpu = gpus[accelerator.type].regions if accelerator and accelerator.type in gpus else []
    return all(not regions or region in regions for regions in (machine.regions, of_gpu))


def _offer(
    target: str, machine: Machine, accelerator: Accelerator | None, region: str | None
) -> Offer:
    prices = [
        price_of(target, machine.name, accelerator, region=region, spot=spot)
        for spot in (False, True)
    ]
    gpus = catalog.load(target).gpus
    gpu = gpus.get(accelerator.type) if accelerator else None
    on_demand, spot = (price if isinstance(price, Price) else None for price in prices)
    return Offer(
        target=target,
        machine=machine.name,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib,
        accelerator=str(accelerator) if accelerator else None,
        gbps=machine.bandwidth(accelerator),
        on_demand=on_demand,
        spot=spot,
        unknown=next((price.reason for price in prices if isinstance(price, NoPrice)), None),
        retired=machine.retired or (gpu.retired if gpu else None),
    )
