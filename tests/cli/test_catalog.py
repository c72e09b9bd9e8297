"""`rsctl catalog`: machines and prices; and costs as `plan`, `status` and `list` show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Cli

PRICES = """\
vertex:
  source: our contract
  as_of: 2026-11-01
  machines:
    a2-highgpu-8g: {any: {on_demand: 20}}
    a2-highgpu-4g: {us-central1: {on_demand: 11, spot: 4}}
"""
JOB = """\
name: bert
target: vertex
workers: {count: 2, accelerator: "a100-40gb:8"}
image: {uri: "us-docker.pkg.dev/p/r/i:1"}
run: {command: [python, train.py]}
limits: {timeout: 90m}
targets: {vertex: {project: my-proj, region: us-central1, staging: "gs://bucket/x"}}
"""


@pytest.fixture
def own(tmp_path: Path) -> None:
    folder = tmp_path / "rsctl-config"
    folder.mkdir()
    (folder / "prices.yaml").write_text(PRICES)


def test_machines_with_a_gpu_the_cheapest_first(rsctl: Cli, own: None) -> None:
    done = rsctl("catalog", "-t", "vertex", "--gpu", "a100-40gb:8", "--region", "us-central1")
    assert (done.code, done.err) == (
        0,
        "~ marks an estimate; for its reason and source: rsctl catalog prices, or -o json\n",
    )
    assert (
        done.out
        == """\
MACHINE        GPUS         VCPUS  GIB  GBIT/S  USD/H   SPOT USD/H  REGION  PRICE OF
a2-highgpu-8g  a100-40gb:8  96     680  100     20.000  ~19.832     any     2026-11-01
"""
    )


def test_machines_as_json(rsctl: Cli, own: None) -> None:
    wanted = ("--gpu", "a100-40gb", "--max-price", "15", "--region", "us-central1")
    done = rsctl("catalog", "-t", "vertex", *wanted, "-o", "json")
    assert [(m["machine"], m["accelerator"]) for m in done.json["machines"]] == [
        ("a2-highgpu-1g", "a100-40gb:1"),
        ("a2-highgpu-2g", "a100-40gb:2"),
        ("a2-highgpu-4g", "a100-40gb:4"),
    ]
    assert done.json["machines"][2]["spot"] == {
        "dollars": 4.0,
        "spot": True,
        "region": "us-central1",
        "source": "our contract",
        "as_of": "2026-11-01",
        "estimate": None,
    }


def test_the_best_bandwidth_for_the_money(rsctl: Cli) -> None:
    wanted = ("--sort", "price-per-gbps", "--max-price", "5")
    lines = rsctl("catalog", "-t", "sagemaker", *wanted).out.splitlines()
    assert "USD/H PER GBIT/S" in lines[0]
    assert lines[1].startswith("ml.c5n.")


def test_machines_without_a_price_come_last_and_say_so(rsctl: Cli) -> None:
    done = rsctl("catalog", "-t", "sagemaker", "--gpu", "k80")
    assert (
        done.out
        == """\
MACHINE         GPUS    VCPUS  GIB  PRICE OF
ml.p2.16xlarge  k80:16  64     732  unknown
ml.p2.8xlarge   k80:8   32     488  unknown
ml.p2.xlarge    k80:1   4      61   unknown
"""
    )
    shown = rsctl("catalog", "-t", "sagemaker", "--gpu", "k80", "-o", "json").json["machines"]
    assert shown[0]["unknown"] == "the on-demand price of ml.p2.16xlarge is unknown"


def test_the_price_tables_in_their_order(rsctl: Cli, own: None) -> None:
    lines = rsctl("catalog", "prices", "-t", "vertex").out.splitlines()
    assert lines[:2] == ["vertex", "  2026-11-01  our contract: 2 machines in 2 regions"]
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ("--gpu", "x:y"),
            2,
            "'x:y' is not a valid accelerator; use a name such as l4 or a100-40gb:8",
        ),
        (("--gpu", "a100:8"), 2, "did you mean a100-40gb or a100-80gb?"),
        (("-t", "vertex", "--gpu", "a100-40gb:3"), 0, "no machine matches"),
        (
            ("prices", "--gpu", "t4"),
            2,
            "--gpu is for machines and cannot be used with price tables",
        ),
        (
            ("prices", "--sort", "gbps"),
            2,
            "--sort is for machines and cannot be used with price tables",
        ),
        (("prices", "--region", "us-east-1", "--max-price", "3"), 2, "--region, --max-price are"),
        (("--sort", "colour"), 2, "colour"),
    ],
)
def test_what_there_is_not(rsctl: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    done = rsctl("catalog", *arguments)
    assert done.code == code
    assert text in done.err


def test_a_plan_shows_what_it_costs(rsctl: Cli, own: None) -> None:
    done = rsctl("plan", rsctl.write(JOB))
    assert (
        """\
cost        40.00 USD per hour on demand, at most 60.00 USD in 1h30m
            by our contract, 2026-11-01
"""
        in done.out
    )


def test_a_table_with_a_mistake_leaves_a_plan_without_its_price(
    rsctl: Cli, own: None, tmp_path: Path
) -> None:
    (tmp_path / "rsctl-config" / "prices.yaml").write_text("vertex: 1\n")
    done = rsctl("plan", rsctl.write(JOB))
    assert done.code == 0
    assert "cost        unknown: " in done.out
