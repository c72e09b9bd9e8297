"""The machines that can be had: which are listed, in which order, and with which prices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.estimate import catalog
from rsctl.estimate.catalog.prices import NoPrice, Price, price_of
from rsctl.estimate.costs.offers import ORDERS, MachineQuery, Offer, offers
from rsctl.job.units import Accelerator

CLOUDS = ("vertex", "sagemaker")


def every_offer() -> list[Offer]:
    return offers(CLOUDS, MachineQuery())


KEYS: dict[str, Callable[[Offer], float | None]] = {
    "price": lambda offer: offer.on_demand.dollars if offer.on_demand else None,
    "spot": lambda offer: offer.spot.dollars if offer.spot else None,
    "price-per-gbps": lambda offer: (
        offer.on_demand.dollars / offer.gbps if offer.on_demand and offer.gbps else None
    ),
    "gbps": lambda offer: None if offer.gbps is None else -offer.gbps,
    "vcpus": lambda offer: -offer.vcpus,
    "memory": lambda offer: -offer.memory_gib,
}


def gpus(offer: Offer) -> int:
    return int(offer.accelerator.partition(":")[2]) if offer.accelerator else 0


def test_every_machine_is_listed_once_for_each_count_of_its_own_accelerators() -> None:
    expected = {
        (cloud, machine.name, f"{machine.accelerator}:{count}" if count else None)
        for cloud in CLOUDS
        for machine in catalog.load(cloud).machines.values()
        for count in (machine.accelerators if machine.accelerator else None) or [0]
    }
    listed = [(offer.target, offer.machine, offer.accelerator) for offer in every_offer()]
    assert set(listed) == expected
    assert len(listed) == len(expected)


@pytest.mark.parametrize("order", ORDERS)
def test_the_cheapest_or_largest_come_first_and_unknown_ones_last(order: str) -> None:
    """Of equal ones the cloud, the machine and the number of its accelerators decide."""
    found = [
        (
            (value := KEYS[order](offer)) is None,
            value or 0,
            offer.target,
            offer.machine,
            gpus(offer),
        )
        for offer in offers(CLOUDS, MachineQuery(), order)
    ]
    assert found == sorted(found)
    assert len(found) == len(every_offer())


@pytest.mark.parametrize("region", [None, "us-central1", "eu-west-1"])
def test_an_offer_has_the_machine_s_own_prices_and_sizes(region: str | None) -> None:
    for offer in offers(CLOUDS, MachineQuery(region=region)):
        machine = catalog.load(offer.target).machines[offer.machine]
        accelerator = Accelerator(offer.accelerator) if offer.accelerator else None
        prices = [
            price_of(offer.target, offer.machine, accelerator, region=region, spot=spot)
            for spot in (False, True)
        ]
        known = [price if isinstance(price, Price) else None for price in prices]
        reasons = [price.reason for price in prices if isinstance(price, NoPrice)]
        assert [offer.on_demand, offer.spot] == known
        assert offer.unknown == (reasons[0] if reasons else None)
        assert (offer.vcpus, offer.memory_gib) == (machine.vcpus, machine.memory_gib)
        assert offer.gbps == machine.bandwidth(accelerator)


def test_the_highest_price_itself_is_not_too_high_and_an_unknown_one_is() -> None:
    prices = sorted({offer.dollars for offer in every_offer() if offer.dollars is not None})
    for most in (prices[0], prices[len(prices) // 2], prices[-1]):
        found = offers(CLOUDS, MachineQuery(max_price=most))
        assert found == [offer for offer in every_offer() if (offer.dollars or 1e9) <= most]
        assert found[-1].dollars == most
    assert offers(CLOUDS, MachineQuery(max_price=prices[0] - 0.0001)) == []


def test_a_gpu_is_listed_in_all_counts_or_in_the_one_that_is_asked_for() -> None:
    every = offers(CLOUDS, MachineQuery(gpu="v100"))
    assert {gpus(offer) for offer in every} == {1, 2, 4, 8}
    assert {offer.target for offer in every} == set(CLOUDS)
    for count in (1, 2, 4, 8):
        found = offers(CLOUDS, MachineQuery(gpu=f"v100:{count}"))
        assert found == [offer for offer in every if offer.accelerator == f"v100:{count}"]
    assert (
        offers(CLOUDS, MachineQuery(gpu="v100:3"))
        == offers(CLOUDS, MachineQuery(gpu="v1000"))
        == []
    )


def test_a_region_has_the_machines_that_are_not_known_to_be_elsewhere_only() -> None:
    known = catalog.load("vertex")
    for region in ("europe-west4", "us-west1", "nowhere-east1"):
        here = {
            (offer.machine, offer.accelerator)
            for offer in offers(["vertex"], MachineQuery(region=region))
        }
        for offer in offers(["vertex"], MachineQuery()):
            of_gpu = (
                known.gpus[offer.accelerator.partition(":")[0]].regions if offer.accelerator else []
            )
            is_here = all(
                not regions or region in regions
                for regions in (known.machines[offer.machine].regions, of_gpu)
            )
            assert ((offer.machine, offer.accelerator) in here) is is_here
    v100 = MachineQuery(gpu="v100:1", region="europe-west4")
    assert {offer.machine for offer in offers(["vertex"], v100)} >= {"n1-standard-8"}
    assert offers(["vertex"], MachineQuery(gpu="v100:1", region="europe-west1")) == []


def test_machines_and_gpus_that_are_not_offered_any_more_say_so() -> None:
    for cloud in CLOUDS:
        known = catalog.load(cloud)
        for name in known.gpus:
            for offer in offers([cloud], MachineQuery(gpu=name)):
                retired = known.machines[offer.machine].retired or known.gpus[name].retired
                assert offer.retired == retired


def test_the_user_s_prices_count(tmp_path: Path) -> None:
    (tmp_path / "rsctl-config").mkdir()
    (tmp_path / "rsctl-config" / "prices.yaml").write_text(
        "vertex:\n  source: ours\n  as_of: 2026-11-01\n  machines:\n"
        "    n1-standard-4: {any: {on_demand: 0.001, spot: 0.0005}}\n"
    )
    first, *_ = offers(CLOUDS, MachineQuery())
    assert (first.machine, first.dollars, first.spot and first.spot.source) == (
        "n1-standard-4",
        0.001,
        "ours",
    )
    assert first.gbps is not None
    assert first.per_gbps == 0.001 / first.gbps
