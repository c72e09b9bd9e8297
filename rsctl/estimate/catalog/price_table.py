"""One table of prices: the hourly prices of machines, with their source and date;
docs/guides/costs.md.

A table is quoted, never made up: a machine that is in no table has no price.
"""

from __future__ import annotations

from typing import Annotated, Optional

import msgspec
from msgspec import Meta

ANY = "any"
"""In the place of a region: the price holds in all that have none of their own."""

_Dollars = Annotated[float, Meta(ge=0)]


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """US dollars an hour, on demand and as spot; None if it is unknown."""

    on_demand: Annotated[Optional[_Dollars], Meta(description="US dollars per hour on demand.")] = (
        None
    )
    spot: Annotated[Optional[_Dollars], Meta(description="US dollars per hour as spot.")] = None


class PriceTable(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Prices of one source, in US dollars an hour by name and region.

    Those of `machines` are with their accelerators, unless these are attached to the machine:
    then each has the price in `accelerators`.
    """

    source: Annotated[str, Meta(description="The source of the prices.")]
    as_of: Annotated[str, Meta(description="The date of the prices.")]
    estimate: Annotated[
        Optional[str], Meta(description="The reason why they are estimates, if they are.")
    ] = None
    fee: Annotated[
        _Dollars,
        Meta(description="A fraction of the on-demand price to add to each price."),
    ] = 0.0
    elsewhere: Annotated[
        Optional[str],
        Meta(
            description="The region whose prices are used as estimates for regions without prices."
        ),
    ] = None
    machines: Annotated[
        dict[str, dict[str, Rates]],
        Meta(description="Prices of machines by name, then by region; `any` is every region."),
    ] = {}
    accelerators: Annotated[
        dict[str, dict[str, Rates]],
        Meta(
            description="Prices of one accelerator that is attached to a machine, by name, "
            "then by region."
        ),
    ] = {}
