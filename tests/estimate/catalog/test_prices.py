"""Price tables and the look-up of what a node costs an hour."""

from __future__ import annotations

import pytest

from rsctl.estimate.catalog.price_table import PriceTable, Rates
from rsctl.estimate.catalog.prices import NoPrice, Price, price_of
from rsctl.job.units import Accelerator

LIST = PriceTable(
    source="the list",
    as_of="2026-10-01",
    elsewhere="us-central1",
    machines={
        "n1-standard-8": {
            "us-central1": Rates(on_demand=0.4, spot=0.1),
            "europe-west4": Rates(on_demand=0.5),
        }
    },
    accelerators={"v100": {"us-central1": Rates(on_demand=2.0)}},
)
OWN = PriceTable(
    source="our contract",
    as_of="2026-11-01",
    machines={"n1-standard-8": {"any": Rates(on_demand=0.6)}},
)


def test_a_node_is_its_machine_and_what_is_attached_to_it() -> None:
    found = price_of(
        "vertex", "n1-standard-8", Accelerator("v100:4"), region="us-central1", tables=[LIST]
    )
    assert found == Price(
        dollars=8.4, spot=False, region="us-central1", source="the list", as_of="2026-10-01"
    )


def test_a_price_of_the_region_comes_before_one_that_stands_for_it() -> None:
    found = price_of("vertex", "n1-standard-8", region="europe-west4", tables=[LIST])
    assert isinstance(found, Price)
    assert (found.dollars, found.region, found.estimate) == (0.5, "europe-west4", None)
    spot = price_of("vertex", "n1-standard-8", region="europe-west4", spot=True, tables=[LIST])
    assert spot == Price(
        dollars=0.1,
        spot=True,
        region="us-central1",
        source="the list",
        as_of="2026-10-01",
        estimate="the price in us-central1, because the price in europe-west4 is unknown",
    )


def test_ones_own_table_comes_first_and_only_for_what_it_has() -> None:
    tables = [OWN, LIST]
    found = price_of(
        "vertex", "n1-standard-8", Accelerator("v100:1"), region="us-central1", tables=tables
    )
    assert found == Price(
        dollars=2.6,
        spot=False,
        region="any",
        source="our contract; the list",
        as_of="2026-10-01",
    )
    spot = price_of("vertex", "n1-standard-8", region="us-central1", spot=True, tables=tables)
    assert isinstance(spot, Price)
    assert spot.source == "the list"


@pytest.mark.parametrize(
    ("machine", "accelerator", "spot", "reason"),
    [
        ("x9-huge", None, False, "the on-demand price of x9-huge in us-east1 is unknown"),
        ("n1-standard-8", "t4:1", False, "the on-demand price of t4 for n1-standard-8 in us-east1"),
        ("n1-standard-8", "v100:1", True, "the spot price of v100 for n1-standard-8 in us-east1"),
    ],
)
def test_what_no_table_has_has_no_price(
    machine: str, accelerator: str | None, spot: bool, reason: str
) -> None:
    gpus = Accelerator(accelerator) if accelerator else None
    found = price_of("vertex", machine, gpus, region="us-east1", spot=spot, tables=[LIST])
    assert isinstance(found, NoPrice)
    assert found.reason.startswith(reason)


def test_the_catalogue_prices_googles_own_example() -> None:
    """Its first example of reducers is 146.7 dollars an hour."""
    found = price_of("vertex", "n1-highmem-96", Accelerator("v100:8"), region="us-central1")
    assert isinstance(found, Price)
    assert 5 * found.dollars == pytest.approx(146.7, rel=0.01)
    assert None not in (found.estimate, found.source, found.as_of)
