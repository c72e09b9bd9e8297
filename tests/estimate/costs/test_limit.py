"""The time that `limits.cost` pays for, at its edges, whatever the cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from rsctl.estimate.costs.billing import HOUR, Billing, PlanCost, plan_cost
from rsctl.estimate.costs.limit import cost_findings, dollars, keep_findings, limit_time
from rsctl.job.job import Job, Limits, RunBlock
from rsctl.job.units import Duration, Money

WEEK = 604800.0
PER_HOUR = {"n1-standard-4": 10.0, "n1-standard-8": 0.0, "n1-standard-16": 0.7}
ONE_START: Any = {
    **{"machine": "n1-standard-16", "retries": 0, "grace": 0.0, "is_for_each_start": False},
}


class Pool(msgspec.Struct):
    """As a plan has it."""

    role: str = "worker"
    count: int = 1
    machine: str | None = "n1-standard-4"
    accelerator: str | None = None


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> None:
    folder = tmp_path / "rsctl-config"
    folder.mkdir()
    prices = [f"    {name}: {{any: {{on_demand: {rate}}}}}\n" for name, rate in PER_HOUR.items()]
    head = "vertex:\n  source: ours\n  as_of: 2026-11-01\n  machines:\n"
    (folder / "prices.yaml").write_text(head + "".join(prices))


def job(**limits: Any) -> Job:
    return Job(name="job", run=RunBlock(command=["true"]), limits=Limits(**limits))


def timeout(limit: float, billing: Billing, pool: Pool = Pool(), **limits: object) -> float | None:  # noqa: B008
    """The time that a job with a limit gets."""
    given = job(**limits, cost=Money(limit))
    return limit_time(given, "vertex", [pool], billing).limits.timeout


@given(
    limit=st.floats(0.1, 5000),
    nodes=st.integers(1, 9),
    machine=st.sampled_from(["n1-standard-4", "n1-standard-16"]),
    retries=st.integers(0, 5),
    grace=st.sampled_from([0.0, 120.0]),
    is_for_each_start=st.booleans(),
)
@example(limit=7.0, nodes=6, **ONE_START)  # whole seconds, but for rounding errors
@example(limit=0.7 / 6, nodes=1, **ONE_START)
def test_the_limit_pays_for_the_time_and_for_no_second_more(
    limit: float, nodes: int, machine: str, retries: int, grace: float, is_for_each_start: bool
) -> None:
    billing = Billing(None, WEEK, grace=grace, is_for_each_start=is_for_each_start)
    pool = Pool(count=nodes, machine=machine)
    seconds = timeout(limit, billing, pool, retries=retries)
    starts = retries + 1 if is_for_each_start else 1
    a_second = starts * nodes * PER_HOUR[machine] / HOUR
    if seconds is None:
        assert limit < a_second * (61 + grace) or limit > a_second * (WEEK + grace - 1)
        return
    cost = plan_cost(
        "vertex",
        [pool],
        billing._replace(seconds=seconds),
        Limits(cost=Money(limit), retries=retries),
    )
    assert 60 <= seconds < WEEK
    assert cost.starts == starts
    assert cost.most == pytest.approx(a_second * (seconds + grace), abs=1e-5)
    assert limit - a_second - 1e-6 < cost.most <= limit + 1e-6
    assert cost.ends_at_limit
    assert [finding.severity for finding in cost_findings(cost)] == ["note"]


def test_the_time_is_set_from_a_minute_on_and_below_the_cloud_s_own() -> None:
    hour = Billing(None, HOUR)
    assert timeout(10 / 60, hour) == 60
    assert timeout(10 / 61, hour) is None
    assert timeout(9.999, hour) == 3599
    assert timeout(10, hour) is None
    assert timeout(10, hour, Pool(machine="n1-standard-8")) is None  # free of charge
    assert timeout(10, hour, Pool(machine="n1-none")) is None
    assert timeout(5, hour, timeout=Duration(30)) == 30  # the job's own
    assert limit_time(job(), "vertex", [Pool()], hour) == job()


def test_a_plan_says_whether_its_limit_decides_how_long_it_runs() -> None:
    cost = PlanCost(per_hour=3600.0, most=99.0, seconds=1.0, starts=2, limit=100.0, spot=False)
    assert [
        replace(cost, most=most).ends_at_limit for most in (97.9, 98.0, 99.0, 100.0, 100.1)
    ] == [False, True, True, True, False]
    for name in ("limit", "most", "per_hour"):
        assert not replace(cost, **{name: None}).ends_at_limit


def reported(cost: PlanCost) -> list[str]:
    return [f"{found.severity} {found.message} -> {found.remedy}" for found in cost_findings(cost)]


REMEDY = "use fewer or smaller machines, or raise limits.cost"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"limit": None}, []),
        (
            {"most": 10.0},
            ["note the job is ended after 1h, at a cost of at most 10.00 USD -> None"],
        ),
        (
            {"per_hour": 300.0, "most": 10.0, "starts": 2},
            ["note each of 2 starts is ended after 1h, at a cost of at most 10.00 USD -> None"],
        ),
        (
            {"most": 10.01},
            [
                "error the job can cost 10.01 USD, more than 10.00 USD: 1h at 600.00 USD per hour "
                f"-> set limits.timeout: 59m56s or less, {REMEDY}"
            ],
        ),
        (
            {"per_hour": 601.0},
            [
                "error 10.00 USD is less than one minute costs: its machines cost 601.00 USD per "
                f"hour -> {REMEDY}"
            ],
        ),
        (
            {"per_hour": 301.0, "starts": 2},
            [
                "error 10.00 USD is less than one minute costs: its machines cost 301.00 USD per "
                f"hour -> {REMEDY}"
            ],
        ),
    ],
)
def test_what_a_limit_says_of_a_plan(changes: dict[str, Any], expected: list[str]) -> None:
    cost = PlanCost(per_hour=600.0, most=9.0, seconds=HOUR, limit=10.0, spot=False)
    assert reported(msgspec.structs.replace(cost, **changes)) == expected


@pytest.mark.parametrize("lacking", ["per_hour", "most"])
def test_a_limit_of_what_has_no_price_is_refused(lacking: str) -> None:
    cost = PlanCost(per_hour=1.0, most=1.0, seconds=1.0, limit=10.0, spot=False, unknown="why")
    for unknown in (cost, replace(cost, **{lacking: None, "unknown": "why"})):
        (found,) = cost_findings(unknown)
        assert found.message == (
            "the cost is unknown, so rsctl cannot tell whether it stays below 10.00 USD: why"
        )
        assert found.path == "limits.cost"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        *[(0.0, "0.00 USD"), (12.345, "12.35 USD"), (0.1, "0.10 USD"), (0.0994, "0.099 USD")],
        (0.0041234, "0.0041 USD"),
    ],
)
def test_amounts_have_cents_or_two_digits(amount: float, expected: str) -> None:
    assert dollars(amount) == expected


def test_pools_add_up_and_all_that_have_no_price_are_named() -> None:
    billing = Billing(None, HOUR, note="by contract")
    pools = [Pool(count=2), Pool("reducer", 3, "n1-standard-16")]
    cost = plan_cost("vertex", pools, billing, Limits())
    assert (cost.per_hour, cost.most, cost.note) == (22.1, 22.1, "by contract")
    assert [(price.role, price.count, price.dollars) for price in cost.prices] == [
        ("worker", 2, 10.0),
        ("reducer", 3, 0.7),
    ]
    pools = [Pool(), Pool(machine="x1"), Pool(machine=None), Pool(accelerator="v100:2")]
    cost = plan_cost("vertex", pools, billing._replace(is_spot=True), Limits(cost=Money(5)))
    assert (cost.spot, cost.limit, cost.most) == (True, 5.0, None)
    assert cost.unknown == (
        "the spot price of x1 is unknown; the spot price of an unknown machine is unknown"
    )
    assert plan_cost("vertex", [], billing, Limits()).unknown == "it has no machines"


@pytest.mark.parametrize(("per_hour", "price"), [(12.0, "2.00 USD"), (None, "an unknown amount")])
def test_the_cost_of_kept_nodes(per_hour: float | None, price: str) -> None:
    cost = PlanCost(per_hour=per_hour, seconds=HOUR, spot=False)
    (found,) = keep_findings(Limits(keep=Duration(600)), cost)
    assert found.message == f"if a node fails, all machines are kept for 10m, at a cost of {price}"
    assert list(keep_findings(Limits(), cost)) == []
