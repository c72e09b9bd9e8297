"""A run with several places: where it is, and when it goes on to the next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.findings import JobState
from rsctl.runs.placements import (
    CurrentPlacement,
    PlacementEnd,
    PlannedPlacement,
    add_placements,
    current_placement,
    first_request,
    go_on,
    is_ending,
    may_go_on,
    request_cancel,
)
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent, StateEvent, TriedPlacement

from .conftest import a_run, at

PLACES = [
    PlannedPlacement(
        region=region,
        machine="n1-standard-4",
        plan={"request": {"url": f"https://{region}"}},
        image=f"{region}/image@sha256:0",
        placeholders=[(("body", "env", 0), "WANDB_API_KEY"), (("body", "image"), None)],
    )
    for region in ("us-central1", "us-east1", "europe-west4")
]
END = PlacementEnd(JobState.FAILED, "no machines are to be had", at(9), 1.25)


@pytest.fixture(autouse=True)
def _run(store: Store) -> None:
    store.add(a_run("job-1", target="vertex"))
    store.add(a_run("other-1", target="vertex"))
    add_placements(store, "job-1", PLACES)


def present(store: Store) -> CurrentPlacement:
    found = current_placement(store, "job-1")
    assert found is not None
    return found


def leave(store: Store, left: CurrentPlacement, attempt: int = 2) -> CurrentPlacement | None:
    return go_on(store, "job-1", left, END, b'{"from": 0}', attempt)


def test_a_run_begins_at_its_first_place(store: Store) -> None:
    here = present(store)
    assert here == CurrentPlacement(0, PLACES[0], here.began, False)
    assert first_request(store, "job-1") == {"url": "https://us-central1"}
    assert str(here.placement) == "us-central1, n1-standard-4"
    assert str(replace(here.placement, machine=None)) == "us-central1"


def test_places_that_are_written_down_stay(store: Store) -> None:
    before = present(store)
    add_placements(store, "job-1", [replace(PLACES[1], image="another"), *PLACES])
    assert present(store) == before
    regions = [placement.region for placement in store.find("job-1").placements]
    assert regions == ["us-central1", "us-east1", "europe-west4", "europe-west4"]


def test_a_run_goes_on_from_place_to_place_until_the_last(store: Store) -> None:
    store.locate("job-1", "vertex://p/us-central1/1")
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING))
    store.record("job-1", StateEvent(time=at(1), state=JobState.RUNNING, replica="worker-0"))
    loss = MetricEvent(time=at(2), replica="worker-0", name="loss", step=1, value=0.5)
    store.keep("job-1", [loss], b"there", [])
    assert may_go_on(store, "job-1")
    second = leave(store, present(store))
    assert second == CurrentPlacement(1, PLACES[1], present(store).began, False)
    run = store.find("job-1")
    assert (run.state, run.reason, run.attempt) == (JobState.QUEUED, None, 2)
    assert (run.url, run.started, run.replicas, run.plan) == (
        "vertex://job-1",
        None,
        [],
        PLACES[1].plan,
    )
    assert [event for _, event in store.metrics("job-1")] == [loss]
    assert store.progress("job-1") == b'{"from": 0}'
    first, here, next_one = run.placements
    assert first == TriedPlacement(
        region="us-central1",
        machine="n1-standard-4",
        state=JobState.FAILED,
        reason="no machines are to be had",
        began=first.began,
        ended=at(9),
        url="vertex://p/us-central1/1",
        dollars=1.25,
    )
    assert first.began is not None
    assert (here.state, here.url, here.began) == (JobState.QUEUED, None, second.began)
    assert next_one == TriedPlacement(region="europe-west4", machine="n1-standard-4")
    third = leave(store, second, 3)
    assert third is not None
    assert third.is_last
    assert store.find("job-1").placements[1].url is None  # it never had a job there
    assert not may_go_on(store, "job-1")
    assert leave(store, third, 4) is None
    assert store.find("job-1").attempt == 3


def test_the_present_place_is_in_the_state_of_the_run(store: Store) -> None:
    store.locate("job-1", "vertex://p/us-central1/1")
    store.record("job-1", StateEvent(time=at(3), state=JobState.CANCELLED, reason="you asked"))
    here, *others = store.find("job-1").placements
    assert (here.state, here.reason, here.ended, here.url) == (
        JobState.CANCELLED,
        "you asked",
        at(3),
        "vertex://p/us-central1/1",
    )
    assert [placement.state for placement in others] == [None, None]


def test_of_two_who_leave_a_place_one_does(store: Store) -> None:
    here = present(store)
    assert leave(store, here) is not None
    before = store.find("job-1")
    assert leave(store, here) is None
    assert store.find("job-1") == before


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_run_that_is_to_end_goes_nowhere(store: Store, is_ended: bool) -> None:
    assert not is_ending(store, "job-1")
    if is_ended:
        store.record("job-1", StateEvent(time=at(3), state=JobState.FAILED))
    else:
        request_cancel(store, "job-1")
        request_cancel(store, "job-1")
    assert is_ending(store, "job-1")
    assert not may_go_on(store, "job-1")
    before = store.find("job-1")
    assert leave(store, present(store)) is None
    assert store.find("job-1") == before
    assert not is_ending(store, "other-1")


def test_a_run_with_one_place_and_one_that_is_not_known(store: Store) -> None:
    for run in ("other-1", "none-1"):
        assert current_placement(store, run) is None
        assert first_request(store, run) is None
        assert not may_go_on(store, run)
        assert go_on(store, run, present(store), END, b"", 1) is None
    assert store.find("other-1").placements == []
    assert not is_ending(store, "other-1")
    assert is_ending(store, "none-1")
