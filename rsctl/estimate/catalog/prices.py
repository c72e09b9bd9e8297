"""The hourly price of a node: the lookup in the price tables, see `price_tables.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional

import msgspec

from rsctl.estimate import catalog
from rsctl.estimate.catalog.price_table import ANY, PriceTable, Rates
from rsctl.estimate.catalog.price_tables import price_tables
from rsctl.job.units import Accelerator

_NONE = Rates()


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The price of one node per hour in US dollars, with its accelerators.

    `region` is the region of the price, `any` for all. `estimate` is the reason if it is an
    estimate, otherwise None.
    """

    dollars: float
    spot: bool
    region: str
    source: str
    as_of: str
    estimate: Optional[str] = None


class NoPrice(msgspec.Struct, frozen=True):
    """That a price is unknown, and why."""

    reason: str


class _Part(NamedTuple):
    """The price of a machine or of one accelerator."""

    dollars: float
    region: str
    table: PriceTable
    is_elsewhere: bool


def price_of(
    target: str,
    machine: str,
    accelerator: Accelerator | None = None,
    *,
    region: str | None = None,
    spot: bool = False,
    tables: Iterable[PriceTable] | None = None,
) -> Price | NoPrice:
    """The price of one node per hour in a region of a target.

    Without a region, it uses the region whose prices serve as estimates. `tables` are the tables to
    search, by default the user's, the refreshed and the catalogue's. Raises RsctlError for an
    invalid table of the user.
    """
    chosen = list(price_tables(target) if tables is None else tables)
    found = _machine_part(chosen, machine, region, spot)
    if isinstance(found, NoPrice):
        return found
    attached = _attached(target, machine, accelerator)
    if attached is None:
        return _price([found], found.dollars, region, spot)
    each = _find([(t, t.accelerators.get(attached.type, {})) for t in chosen], region, spot)
    if each is None:
        where = f" in {region}" if region else ""
        return NoPrice(
            f"the {_market(spot)} price of {attached.type} for {machine}{where} is unknown"
        )
    dollars = found.dollars + attached.per_node * each.dollars
    return _price([found, each], dollars, region, spot)


def _machine_part(
    tables: list[PriceTable], machine: str, region: str | None, spot: bool
) -> _Part | NoPrice:
    found = _find([(table, table.machines.get(machine, {})) for table in tables], region, spot)
    if found is not None:
        return found
    where = f" in {region}" if region else ""
    return NoPrice(f"the {_market(spot)} price of {machine}{where} is unknown")


def _attached(target: str, machine: str, accelerator: Accelerator | None) -> Accelerator | None:
    """The accelerators that are paid for besides the machine."""
    if accelerator is None:
        return None
    known = catalog.load(target).machines.get(machine)
    return accelerator if known is not None and accelerator.type in known.attach else None


def _find(
    rows: list[tuple[PriceTable, dict[str, Rates]]], region: str | None, spot: bool
) -> _Part | None:
    """The first price for the region itself, otherwise the first estimate for it."""
    for table, by_region in rows:
        for name in (region or table.elsewhere or ANY, ANY):
            if (dollars := _dollars(by_region.get(name, _NONE), table.fee, spot)) is not None:
                return _Part(dollars, name, table, is_elsewhere=False)
    for table, by_region in rows:
        name = table.elsewhere or ANY
        if (dollars := _dollars(by_region.get(name, _NONE), table.fee, spot)) is not None:
            return _Part(dollars, name, table, is_elsewhere=True)
    return None


def _dollars(rates: Rates, fee: float, spot: bool) -> float | None:
    """A price with the fee, which is a part of the on-demand price for spot machines too."""
    if not fee:
        return rates.spot if spot else rates.on_demand
    if rates.on_demand is None:
        return None
    price = rates.spot if spot else rates.on_demand
    return None if price is None else price + fee * rates.on_demand


def _price(parts: list[_Part], dollars: float, region: str | None, spot: bool) -> Price:
    estimates = [part.table.estimate for part in parts if part.table.estimate]
    estimates += [
        f"the price in {part.region}, because the price in {region} is unknown"
        for part in parts
        if part.is_elsewhere
    ]
    return Price(
        dollars=round(dollars, 6),
        spot=spot,
        region=parts[0].region,
        source="; ".join(dict.fromkeys(part.table.source for part in parts)),
        as_of=min(part.table.as_of for part in parts),
        estimate="; ".join(dict.fromkeys(estimates)) or None,
    )


def _market(spot: bool) -> str:
    return "spot" if spot else "on-demand"
