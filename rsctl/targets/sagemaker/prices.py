"""Prices of SageMaker training by AWS's Price List API, `pricing:GetProducts`.

Its service AmazonSageMaker has one product for each machine, region and component; products of
training have the usage type `REGION-Train:MACHINE`, such as USE1-Train:ml.p4d.24xlarge.
`TrainingPlanUpfrontFee` is not an hourly price. Spot machines are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import next_page
from rsctl.estimate.catalog.price_table import PriceTable, Rates
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.events import now

_REGION = "us-east-1"
"""The region of the API, which answers for all regions."""

_USAGE = re.compile(r"(?:[A-Z]{2,5}[0-9]*-)?Train:(ml\.[a-z0-9.-]+)", re.ASCII)
_QUERY = {
    "ServiceCode": "AmazonSageMaker",
    "FormatVersion": "aws_v1",
    "Filters": [{"Type": "TERM_MATCH", "Field": "platoinstancetype", "Value": "Training"}],
}


def sagemaker_prices(endpoints: Endpoints) -> PriceTable:
    """The prices on demand of all machines in all regions. Raises RsctlError."""
    aws = Aws(endpoints, _REGION)
    machines: dict[str, dict[str, Rates]] = {}
    published = ""
    for product in _products(aws):
        published = max(published, str(product.get("publicationDate", ""))[:10])
        for machine, region, dollars in _prices(product):
            machines.setdefault(machine, {})[region] = Rates(on_demand=dollars)
    if not machines:
        message = "AWS's price list has no prices of SageMaker training"
        raise RsctlError(
            ExitCode.REFUSED, error("prices", message, "add the prices to your price tables")
        )
    return PriceTable(
        source="AWS Price List, AmazonSageMaker",
        as_of=published or now()[:10],
        elsewhere="us-east-1",
        machines=machines,
    )


def _products(aws: Aws) -> Iterator[Mapping[str, Any]]:
    token: dict[str, str] = {}
    while True:
        answer = aws.request("pricing", "get_products", {**_QUERY, **token})
        for text in answer.get("PriceList", []):
            try:
                product = msgspec.json.decode(text)
            except msgspec.DecodeError:
                continue
            if isinstance(product, dict):
                yield product
        more = next_page("pricing", answer.get("NextToken"), token.get("NextToken"))
        if not more:
            return
        token = {"NextToken": more}


def _prices(product: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The machine, the region and the dollars an hour of a product of training."""
    attributes = _mapping(_mapping(product.get("product")).get("attributes"))
    usage = _USAGE.fullmatch(str(attributes.get("usagetype", "")))
    region = attributes.get("regionCode")
    if usage is None or not isinstance(region, str):
        return
    for term in _mapping(_mapping(product.get("terms")).get("OnDemand")).values():
        for dimension in _mapping(_mapping(term).get("priceDimensions")).values():
            price = _mapping(_mapping(dimension).get("pricePerUnit")).get("USD")
            if _mapping(dimension).get("unit") in ("Hrs", "Hours") and price is not None:
                yield usage[1], region, float(price)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
