"""What a machine costs an hour: price tables, each with its source and date, and the look-up.

A table is quoted, never made up: what no table has, has no price. Tables are asked in order: the
user's own, then what `rsctl catalog --refresh` has fetched, then `TARGET_prices.yaml` beside this
file. See docs/costs.md for their format.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Optional, Union

import msgspec

from rsctl import catalog
from rsctl.spec.units import Accelerator

ANY = "any"
"""In the place of a region: the price holds in all that have none of their own."""


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars an hour, on demand and as spot; None where it is not known."""

    on_demand: Optional[float] = None
    spot: Optional[float] = None

    def of(self, spot: bool) -> float | None:
        """The price of one of the two."""
        return self.spot if spot else self.on_demand


_NONE = Rates()


class PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of one source, known `as_of` a date, in US dollars an hour by name and region.

    Those of `machines` are with their accelerators, unless these are attached to the machine:
    then each costs what `accelerators` says. What stands here is what the source says; a price is
    `factor` times that, and `estimate` says why it is an estimate, if it is one. Prices of the
    region `elsewhere` stand as estimates for those of regions that have none.
    """

    source: str
    as_of: str
    estimate: Optional[str] = None
    factor: float = 1.0
    elsewhere: Optional[str] = None
    machines: dict[str, dict[str, Rates]] = {}
    accelerators: dict[str, dict[str, Rates]] = {}


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one node costs an hour in US dollars, with its accelerators.

    `region` is whose price it is, `any` for all. `estimate` says why it is one; None if it is what
    the source says.
    """

    dollars: float
    spot: bool
    region: str
    source: str
    as_of: str
    estimate: Optional[str] = None


class NoPrice(msgspec.Struct, frozen=True):
    """That a price is not known, and why."""

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
    """What one node costs an hour in a region of `vertex` or `sagemaker`.

    Without a region it is the one whose prices stand for others. `tables` are those to ask, by
    default the user's, the refreshed and the catalogue's.
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
        return NoPrice(f"no {_market(spot)} price of {attached.type} for {machine}{where} is known")
    dollars = found.dollars + attached.per_node * each.dollars
    return _price([found, each], dollars, region, spot)


def price_tables(target: str) -> list[PriceTable]:
    """The tables of a target, in the order in which they are asked."""
    return [*_base(target)]


@lru_cache
def _base(target: str) -> list[PriceTable]:
    return catalog.read_data(f"{target}_prices.yaml", list[PriceTable])


def _machine_part(
    tables: list[PriceTable], machine: str, region: str | None, spot: bool
) -> Union[_Part, NoPrice]:
    found = _find([(table, table.machines.get(machine, {})) for table in tables], region, spot)
    if found is not None:
        return found
    where = f" in {region}" if region else ""
    return NoPrice(f"no {_market(spot)} price of {machine}{where} is known")


def _attached(target: str, machine: str, accelerator: Accelerator | None) -> Accelerator | None:
    """The accelerators that are paid for besides the machine."""
    if accelerator is None:
        return None
    known = catalog.load(target).machines.get(machine)
    return accelerator if known is not None and accelerator.type in known.attach else None


def _find(
    rows: list[tuple[PriceTable, dict[str, Rates]]], region: str | None, spot: bool
) -> _Part | None:
    """The first price for the region itself, else the first that stands for it."""
    for table, by_region in rows:
        for name in (region or table.elsewhere or ANY, ANY):
            if (dollars := by_region.get(name, _NONE).of(spot)) is not None:
                return _Part(dollars * table.factor, name, table, is_elsewhere=False)
    for table, by_region in rows:
        name = table.elsewhere or ANY
        if (dollars := by_region.get(name, _NONE).of(spot)) is not None:
            return _Part(dollars * table.factor, name, table, is_elsewhere=True)
    return None


def _price(parts: list[_Part], dollars: float, region: str | None, spot: bool) -> Price:
    estimates = [part.table.estimate for part in parts if part.table.estimate]
    estimates += [
        f"the price of {part.region}, for none of {region} is known"
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
