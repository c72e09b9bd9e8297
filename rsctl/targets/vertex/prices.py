"""Prices of Vertex AI training by Google's Cloud Billing Catalog API, `services.skus.list`.

A machine has no price there: each vCPU, each GiB and each accelerator has one, by family, such as
"Vertex AI: Training/Pipelines on A3 Instance Core in Iowa". These are with Vertex AI's fee; the
"management fee" with separate SKUs is for machines that Compute Engine bills, such as spot ones,
which are not in this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import next_page
from rsctl.clients.google import Google, body_of
from rsctl.estimate import catalog
from rsctl.estimate.catalog import Machine
from rsctl.estimate.catalog.price_table import PriceTable, Rates
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.events import now

SERVICE = "C7E2-9256-1C43"
"""Vertex AI's id in Google's billing."""

_PAGE = 5000
_ON = r"Vertex AI: Training/Pipelines on "
_PART = re.compile(
    rf"{_ON}([A-Z][A-Z0-9]{{1,3}})(?: Predefined)? Instance (Core|RAM)(?: running)? in .*", re.I
)
_GPU = re.compile(rf"{_ON}(NVIDIA .+?)(?: GPU)?(?: running)? in .*", re.I)

_Prices = dict[tuple[str, str], float]
"""Dollars per hour by unit (vCPU, GiB, accelerator) and by region."""


def vertex_prices(endpoints: Endpoints) -> PriceTable:
    """The prices on demand of the catalogue's machines in all regions. Raises RsctlError."""
    prices: _Prices = {}
    for sku in _skus(endpoints):
        what = _what(str(sku.get("description", "")))
        dollars = _dollars(sku)
        if what is not None and dollars is not None:
            for region in sku.get("serviceRegions") or []:
                prices[what, str(region)] = dollars
    table = _table(prices)
    if not table.machines:
        message = "Google's price list has no prices of Vertex AI training that rsctl knows"
        raise RsctlError(
            ExitCode.REFUSED, error("prices", message, "add the prices to your price tables")
        )
    return table


def _skus(endpoints: Endpoints) -> Iterator[Mapping[str, Any]]:
    google = Google(endpoints)
    url = f"{endpoints.google_url('cloudbilling')}/v1/services/{SERVICE}/skus"
    query = {"currencyCode": "USD", "pageSize": str(_PAGE)}
    while True:
        answer = body_of(google.request("GET", url, params=query))
        for sku in answer.get("skus") or []:
            if isinstance(sku, dict):
                yield sku
        token = next_page("Cloud Billing", answer.get("nextPageToken"), query.get("pageToken"))
        if not token:
            return
        query = {**query, "pageToken": token}


def _what(description: str) -> str | None:
    """`A3 core`, `A3 ram`, or the words of an accelerator's name; None for anything else."""
    if part := _PART.fullmatch(description):
        return f"{part[1].upper()} {part[2].lower()}"
    if gpu := _GPU.fullmatch(description):
        return _words(gpu[1])
    return None


def _words(name: str) -> str:
    """The short name in NVIDIA_TESLA_A100 or `Nvidia Tesla A100`: A100."""
    parts = re.split(r"[ _]", name.upper())
    return " ".join(part for part in parts if part not in ("NVIDIA", "TESLA"))


def _dollars(sku: Mapping[str, Any]) -> float | None:
    """The price of one unit, by the last tier of the present prices."""
    try:
        rates = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"]
        price = rates[-1]["unitPrice"]
        return int(price.get("units") or 0) + int(price.get("nanos") or 0) / 1e9
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _table(prices: _Prices) -> PriceTable:
    known = catalog.load("vertex")
    regions = sorted({region for _, region in prices})
    machines: dict[str, dict[str, Rates]] = {}
    for machine in known.machines.values():
        for region in regions:
            if (dollars := _of_machine(machine, region, prices)) is not None:
                machines.setdefault(machine.name, {})[region] = Rates(on_demand=dollars)
    accelerators: dict[str, dict[str, Rates]] = {}
    attached = {name for machine in known.machines.values() for name in machine.attach}
    for name in sorted(attached):
        for region in regions:
            each = prices.get((_words(known.gpus[name].enum or ""), region))
            if each is not None:
                accelerators.setdefault(name, {})[region] = Rates(on_demand=round(each, 6))
    return PriceTable(
        source="Google Cloud Billing Catalog, Vertex AI",
        as_of=now()[:10],
        elsewhere="us-central1",
        machines=machines,
        accelerators=accelerators,
    )


def _of_machine(machine: Machine, region: str, prices: _Prices) -> Optional[float]:
    """The sum of the prices of its parts; None if a part has no price there."""
    family = machine.name.partition("-")[0].upper()
    parts = [(f"{family} core", float(machine.vcpus)), (f"{family} ram", machine.memory_gib)]
    if machine.accelerators:
        parts.append((_words(machine.enum or ""), float(machine.accelerators[0])))
    total = 0.0
    for what, count in parts:
        each = prices.get((what, region))
        if each is None:
            return None
        total += count * each
    return round(total, 6)
