"""Fetching the clouds' price lists, in the form that their interfaces answer in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.stub import Stubber

from rsctl.api import refresh_prices
from rsctl.clients.endpoints import Endpoints
from rsctl.estimate.catalog.price_table import PriceTable, Rates
from rsctl.estimate.catalog.prices import NoPrice, Price, price_of
from rsctl.findings import ExitCode, RsctlError
from rsctl.job.units import Accelerator
from rsctl.targets.managed.emulator.http import Reply, Request, route
from rsctl.targets.vertex import prices as google_prices
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


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("A3 Instance Core in Iowa", "A3 core"),
        ("A3 Instance RAM running in Iowa", "A3 ram"),
        ("n1 Predefined Instance Ram running in Iowa", "N1 ram"),
        ("C2D Instance Core in Iowa", "C2D core"),
        ("NVIDIA H100 80GB in Iowa", "H100 80GB"),
        ("Nvidia Tesla V100 GPU running in Iowa", "V100"),
        ("A3 Instance Disk in Iowa", None),
        ("A3 Instance Core", None),
        ("TPU v4 in Iowa", None),
    ],
)
def test_what_a_sku_is_the_price_of(description: str, expected: str | None) -> None:
    assert google_prices._what(f"{ON} {description}") == expected
    assert google_prices._what(f"management fee: {ON} {description}") is None


def test_what_has_no_price_in_a_region_or_no_price_at_all_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regions by themselves, the last tier of what holds now, and nothing of what is not valid."""
    dear = sku(f"{ON} N1 Predefined Instance Core in Iowa", ["us-central1", "us-east1"], 1, 0)
    dear["pricingInfo"].insert(0, sku("", [], 77, 0)["pricingInfo"][0])
    tiers = dear["pricingInfo"][-1]["pricingExpression"]["tieredRates"]
    tiers.append({"unitPrice": {"units": "2", "nanos": 500000000}})
    ram = sku(f"{ON} N1 Predefined Instance Ram in Iowa", ["us-central1"], 0, 0)
    ram["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"] = {"nanos": 1000000}
    broken = sku(f"{ON} N1 Predefined Instance Ram in Iowa", ["us-east1"], 1, 0)
    broken["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["units"] = "one"
    gpu = sku(f"{ON} NVIDIA TESLA V100 in Iowa", ["us-east1"], 3, 0)
    nowhere = {**sku(f"{ON} NVIDIA TESLA P100 in Iowa", [], 3, 0), "serviceRegions": None}
    skus = [dear, ram, broken, gpu, nowhere]
    monkeypatch.setattr(google_prices, "_skus", lambda _: skus)
    table = vertex_prices(Endpoints.of_emulator({}))
    assert table.machines["n1-standard-4"] == {"us-central1": Rates(on_demand=10.015)}
    assert not any("us-east1" in regions for regions in table.machines.values())
    assert table.accelerators == {"v100": {"us-east1": Rates(on_demand=3.0)}}
    assert (table.elsewhere, table.source) == (
        "us-central1",
        "Google Cloud Billing Catalog, Vertex AI",
    )
    monkeypatch.setattr(google_prices, "_skus", lambda _: [gpu])
    with pytest.raises(RsctlError, match="no prices of Vertex AI training") as caught:
        vertex_prices(Endpoints.of_emulator({}))
    assert caught.value.exit_code == ExitCode.REFUSED


def test_a_cloud_that_cannot_be_asked_is_a_finding_beside_the_other_s_prices(
    pricing: Stubber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And prices of it that were fetched before stay in the file."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    folder = tmp_path / "rsctl-config"
    folder.mkdir()
    before = {"vertex": [PriceTable(source="before", as_of="2026-01-01")]}
    (folder / "prices.refreshed.json").write_bytes(msgspec.json.encode(before))
    machine = product("USE1-Train:ml.p2.xlarge", "us-east-1", "1.125")
    pricing.add_response("get_products", {"PriceList": [machine]}, QUERY)
    fetched = refresh_prices()
    assert fetched.tables.keys() == {"sagemaker"}
    assert [finding.is_error for finding in fetched.findings] == [True]
    kept = msgspec.json.decode(Path(fetched.path).read_bytes(), type=dict[str, list[PriceTable]])
    assert {target: table[0].source for target, table in kept.items()} == {
        "vertex": "before",
        "sagemaker": "AWS Price List, AmazonSageMaker",
    }


def test_the_newest_date_of_a_list_is_its_date(pricing: Stubber) -> None:
    products = [
        product("USE1-Train:ml.p2.xlarge", "us-east-1", "1"),
        product("EU-Train:ml.p2.xlarge", "eu-west-1", "2", unit="Hours").replace("09-23", "10-01"),
        product("EUW2-Train:ml.p2.xlarge", "eu-west-2", "3").replace("09-23", "08-01"),
        product("Train:ml.p2.xlarge", "us-west-2", "4"),
        product("EU-Host:ml.p2.xlarge", "eu-west-3", "5"),
        "[]",
        json.dumps({"product": {"attributes": {"usagetype": "Train:ml.p2.xlarge"}}}),
    ]
    pricing.add_response("get_products", {"PriceList": products}, QUERY)
    table = refresh_prices("sagemaker").tables["sagemaker"]
    assert table.as_of == "2026-10-01"
    assert table.elsewhere == "us-east-1"
    assert table.machines == {
        "ml.p2.xlarge": {
            region: Rates(on_demand=float(number + 1))
            for number, region in enumerate(["us-east-1", "eu-west-1", "eu-west-2", "us-west-2"])
        }
    }


def test_without_credentials_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(RsctlError) as caught:
        refresh_prices("vertex")
    assert [finding.code for finding in caught.value.findings] == ["credentials-missing"]
    assert not (tmp_path / "rsctl-config").exists()
