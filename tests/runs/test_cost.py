"""What runs have cost."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from rsctl import target_info
from rsctl.findings import JobState, RsctlError
from rsctl.runs.cost import cost_of, run_cost
from rsctl.runs.folder import RunFolder
from rsctl.runs.records import Fact, RunRecord
from rsctl.runs.stream.events import TriedPlacement

POOL = {"role": "worker", "count": 2, "machine": "n1-standard-4", "accelerator": None}
COST: dict[str, Any] = {
    "per_hour": 20.0,
    "most": 40.0,
    "seconds": 7200.0,
    "limit": 50.0,
    "spot": True,
    "prices": [
        {
            "role": "worker",
            "count": 2,
            "machine": "n1-standard-4",
            "dollars": 10.0,
            "region": "us-central1",
            "source": "our contract",
            "as_of": "2026-11-01",
        }
    ],
}


def record(target: str = "vertex", facts: list[Fact] | None = None, **plan: Any) -> RunRecord:
    """A run of half an hour."""
    return RunRecord(
        run="job-aaaaaa",
        name="job",
        target=target,
        url=f"{target}://job-aaaaaa",
        state=JobState.SUCCEEDED,
        created="2026-11-22T10:00:00.000000Z",
        started="2026-11-22T10:10:00.000000Z",
        ended="2026-11-22T10:40:00.000000Z",
        plan={"pools": [POOL], **plan},
        facts=facts or [],
    )


def test_a_run_costs_by_the_price_of_its_plan() -> None:
    cost = run_cost(record(cost=COST))
    assert cost is not None
    assert (cost.dollars, cost.seconds, cost.per_hour, cost.limit) == (10.0, 1800.0, 20.0, 50.0)
    assert (cost.spot, cost.prices[0].source, cost.unknown) == (True, "our contract", None)


def test_what_sagemaker_bills_counts() -> None:
    billed = [Fact("billable_seconds", "15 min", 900)]
    assert cost_of(record("sagemaker", billed, cost=COST)) == (5.0, None)


def test_a_run_on_a_third_party_target_costs_if_the_target_has_a_billing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = target_info.TargetInfo(name="mine", title="mine", target="m:T", billing="m:billing")
    monkeypatch.setattr(target_info, "target_info", lambda _: info)
    assert cost_of(record("mine", cost=COST)) == (10.0, None)


def test_a_job_submitted_elsewhere_costs_by_the_prices_of_now() -> None:
    url = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/customJobs"
    scheduling = {"jobSpec": {"scheduling": {"strategy": "SPOT"}}}
    cost = run_cost(record(request={"url": url, "body": scheduling}))
    assert cost is not None
    assert cost.spot
    assert 0.05 < (cost.dollars or 0) < 0.15
    assert [price.region for price in cost.prices] == ["us-central1"]


def test_what_is_not_billed_has_no_cost() -> None:
    assert run_cost(record("process")) is None
    assert run_cost(record("gone-target")) is None
    rehearsed = RunFolder("job-aaaaaa").path
    rehearsed.mkdir(parents=True)
    (rehearsed / "rehearsal.json").touch()
    assert cost_of(record(cost=COST)) == (None, "a rehearsal is not billed")


def test_a_price_that_nobody_knows() -> None:
    unknown = {"seconds": 7200.0, "spot": False, "unknown": "no on-demand price of x9 is known"}
    assert cost_of(record(cost=unknown)) == (None, "no on-demand price of x9 is known")


def test_a_run_that_ended_without_a_start() -> None:
    ended = msgspec.structs.replace(record(cost=COST), started=None)
    assert cost_of(ended) == (None, "it did not run, as far as rsctl knows")
    assert cost_of(msgspec.structs.replace(ended, ended=None)) == (None, "it has not started")


def tried(
    dollars: float | None, ended: str | None = "2026-11-22T10:05:00.000000Z"
) -> TriedPlacement:
    return TriedPlacement(region="us-west1", ended=ended, dollars=dollars)


def test_what_a_run_has_cost_in_places_it_has_left_is_added() -> None:
    here = tried(99.0, ended=None)  # where it is: its own time counts
    placements = [tried(1.5), tried(None), tried(0.25), here]
    cost = run_cost(msgspec.structs.replace(record(cost=COST), placements=placements))
    assert cost is not None
    assert (cost.dollars, cost.elsewhere, cost.seconds) == (11.75, 1.75, 1800.0)
    assert cost.note == "without the unknown cost in us-west1"
    waiting = msgspec.structs.replace(
        record(cost=COST), placements=placements, started=None, ended=None
    )
    cost = run_cost(waiting)
    assert cost is not None
    assert (cost.dollars, cost.elsewhere, cost.seconds, cost.unknown) == (1.75, 1.75, 0.0, None)
    stays = run_cost(msgspec.structs.replace(record(cost=COST), placements=[here]))
    assert stays is not None
    assert (stays.dollars, stays.elsewhere, stays.note) == (10.0, None, None)


def test_a_run_that_goes_on_has_cost_its_time_until_now() -> None:
    started = (datetime.now(timezone.utc) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    cost = run_cost(msgspec.structs.replace(record(cost=COST), started=started, ended=None))
    assert cost is not None
    assert 20.0 <= (cost.dollars or 0) < 21.0


def test_a_run_that_ends_before_it_starts_by_the_clock_has_cost_nothing() -> None:
    skewed = msgspec.structs.replace(record(cost=COST), ended="2026-11-22T10:09:59.000000Z")
    assert cost_of(skewed) == (0.0, None)


def test_the_note_of_a_price_stays_with_it() -> None:
    cost = run_cost(record(cost={**COST, "note": "by contract"}))
    assert cost is not None
    assert cost.note == "by contract"


@pytest.mark.parametrize("value", [None, "job-aaaaaa"])
def test_what_is_not_the_record_of_a_run(value: Any) -> None:
    with pytest.raises(RsctlError, match=f"run: {value!r} is not a record of a run"):
        cost_of(value)
