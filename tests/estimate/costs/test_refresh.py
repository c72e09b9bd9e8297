"""Fetching the clouds' price lists, in the form that their interfaces answer in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from rsctl.api import refresh_prices
from rsctl.clients.endpoints import Endpoints
from rsctl.estimate.catalog.prices import NoPrice, Price, price_of
from rsctl.findings import RsctlError
from rsctl.job.units import Accelerator
from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator
from rsctl.targets.vertex.prices import SERVICE, vertex_prices

FILTER = {"Type": "TERM_MATCH", "Field": "platoinstancetype", "Value": "Training"}
QUERY = {"ServiceCode": "AmazonSageMaker", "FormatVersion": "aws_v1", "Filters": [FILTER]}


def product(usage: str, region: str, dollars: str, unit: str = "Hrs") -> str:
    """A product of AWS's price list, with what a reader of it needs."""
    name = usage.partition(":")[2]
    return json.dumps(
        {
            "product": {
                "productFamily": "ML Instance",
                "attributes": {
                    "instanceName": name,
                    "regionCode": region,
                    "servicecode": "AmazonSageMaker",
                    "platoinstancetype": "Training",
                    "component": "Training",
                    "usagetype": usage,
                },
                "sku": "JMCWJEAPVJNFJ5P4",
            },
            "serviceCode": "AmazonSageMaker",
            "terms": {
                "OnDemand": {
                    "JMCWJEAPVJNFJ5P4.JRTCKXETXF": {
                        "priceDimensions": {
                            "JMCWJEAPVJNFJ5P4.JRTCKXETXF.6YS6EN2CT7": {
                                "unit": unit,
                                "endRange": "Inf",
                                "beginRange": "0",
                                "pricePerUnit": {"USD": dollars},
                            }
                        },
                        "effectiveDate": "2026-09-01T00:00:00Z",
                    }
                }
            },
            "version": "20260923120000",
            "publicationDate": "2026-09-23T12:00:00Z",
        }
    )


@pytest.fixture
def pricing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.Session(region_name="us-east-1").client(
        "pricing", aws_access_key_id="x", aws_secret_access_key="y"
    )
    monkeypatch.setattr("rsctl.clients.aws.aws_client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def test_the_prices_of_sagemaker_training(pricing: Stubber) -> None:
    first = [
        product("USE1-Train:ml.p4d.24xlarge", "us-east-1", "25.2512883000"),
        # One fee for a reservation, and no price of an hour.
        product("USE1-TrainingPlanUpfrontFee:ml.p4d.24xlarge", "us-east-1", "13.57"),
        product("USE1-Train:ml.c5n.18xlarge", "us-east-1", "0.01", unit="GB"),
        "no JSON",
    ]
    pricing.add_response("get_products", {"PriceList": first, "NextToken": "more"}, QUERY)
    second = [product("EU-Train:ml.p4d.24xlarge", "eu-west-1", "27.5")]
    pricing.add_response("get_products", {"PriceList": second}, {**QUERY, "NextToken": "more"})
    fetched = refresh_prices("sagemaker")
    assert fetched.findings == []
    found = price_of("sagemaker", "ml.p4d.24xlarge", region="eu-west-1")
    assert found == Price(
        dollars=27.5,
        spot=False,
        region="eu-west-1",
        source="AWS Price List, AmazonSageMaker",
        as_of="2026-09-23",
    )
    known = price_of("sagemaker", "ml.c5n.18xlarge", region="us-east-1")
    assert isinstance(known, Price)
    assert known.source.startswith("EC2's list")  # which the catalogue has


def test_a_list_without_prices_leaves_the_last_one_alone(pricing: Stubber, tmp_path: Path) -> None:
    machine = product("USE1-Train:ml.p2.xlarge", "us-east-1", "1.125")
    pricing.add_response("get_products", {"PriceList": [machine]}, QUERY)
    refresh_prices("sagemaker")
    pricing.add_response("get_products", {"PriceList": []}, QUERY)
    with pytest.raises(RsctlError, match="no prices of SageMaker training"):
        refresh_prices("sagemaker")
    found = price_of("sagemaker", "ml.p2.xlarge", region="us-east-1")
    assert isinstance(found, Price)
    assert found.dollars == 1.125


def sku(description: str, regions: list[str], units: int, nanos: int, unit: str = "h") -> Any:
    """A SKU as Google documents it."""
    return {
        "name": f"services/{SERVICE}/skus/3F95-001E-B747",
        "skuId": "3F95-001E-B747",
        "description": description,
        "category": {
            "serviceDisplayName": "Vertex AI",
            "resourceFamily": "ApplicationServices",
            "resourceGroup": "ML",
            "usageType": "OnDemand",
        },
        "serviceRegions": regions,
        "pricingInfo": [
            {
                "effectiveTime": "2026-11-22T08:00:00Z",
                "pricingExpression": {
                    "usageUnit": unit,
                    "displayQuantity": 1,
                    "tieredRates": [
                        {
                            "startUsageAmount": 0,
                            "unitPrice": {
                                "currencyCode": "USD",
                                "units": str(units),
                                "nanos": nanos,
                            },
                        }
                    ],
                },
            }
        ],
    }


ON = "Vertex AI: Training/Pipelines on"
IOWA = ["us-central1"]
PAGES = {
    None: [
        sku(f"{ON} NVIDIA H100 80GB in Iowa", IOWA, 11, 266033200),
        sku(f"{ON} A3 Instance Core in Iowa", IOWA, 0, 29322700),
        sku(f"{ON} A3 Instance RAM in Iowa", IOWA, 0, 2553400, "GBy.h"),
        sku("Vertex AI: Training/Pipelines management fee on A3 Instance Core in Iowa", IOWA, 9, 0),
        sku("Vertex AI: Online/Batch Prediction A3 Instance Core in Iowa", IOWA, 9, 0),
    ],
    "2": [
        sku(f"{ON} N1 Predefined Instance Core running in Iowa", IOWA, 0, 36352000),
        sku(f"{ON} N1 Predefined Instance Ram running in Iowa", IOWA, 0, 4873000, "GBy.h"),
        sku(f"{ON} NVIDIA TESLA V100 in Iowa", IOWA, 2, 852000000),
        {"description": f"{ON} G2 Instance Core in Iowa", "pricingInfo": []},
    ],
}


class Billing(GoogleEmulator):
    """Google's Cloud Billing Catalog API."""

    def __init__(self) -> None:
        super().__init__("p")
        path = f"/v1/services/{SERVICE}/skus"
        self.routes += [route("skus", "GET", path, self._skus)]

    def _skus(self, request: Request) -> Reply:
        token = request.query.get("pageToken")
        assert request.query["currencyCode"] == "USD"
        answer: dict[str, Any] = {"skus": PAGES[token]}
        return Reply.of(answer if token else {**answer, "nextPageToken": "2"})


def test_the_prices_of_vertex_ai_training(tmp_path: Path) -> None:
    with Billing() as cloud:
        key = tmp_path / "key.json"
        cloud.access.write_key(key, f"{cloud.url}/token")
        variables = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": cloud.url,
        }
        table = vertex_prices(Endpoints.of_emulator(variables))
    h100 = price_of(
        "vertex", "a3-highgpu-8g", Accelerator("h100:8"), region="us-central1", tables=[table]
    )
    assert isinstance(h100, Price)
    assert h100.dollars == pytest.approx(90.1283 + 6.0991 + 4.78, abs=0.001)  # a bill's numbers
    v100 = price_of(
        "vertex", "n1-standard-4", Accelerator("v100:2"), region="us-central1", tables=[table]
    )
    assert isinstance(v100, Price)
    assert v100.dollars == pytest.approx(0.2185 + 2 * 2.852, abs=0.0001)
    lacking = price_of("vertex", "g2-standard-4", region="us-central1", tables=[table])
    assert isinstance(lacking, NoPrice)


def test_without_credentials_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(RsctlError) as caught:
        refresh_prices("vertex")
    assert [finding.code for finding in caught.value.findings] == ["credentials-missing"]
    assert not (tmp_path / "rsctl-config").exists()
