"""A run with several placements goes on where there is no capacity, and never has two jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.job.job import Job, RunBlock
from rsctl.job.placements import Placement
from rsctl.job.units import EnvValue
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import now
from rsctl.targets.base import ImagePlan, Placeholder, Plan, Pool, Submission, Unanswered, new_run
from rsctl.targets.managed.service import JobStatus, NoCapacity
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.vertex.info import INFO

from .conftest import FakeCloud, FakeJob, Killed, at, followed, line, reported, stored

RUN = "t-aaaaaa"
LATER = "2099-01-01T00:00:00.000000Z"
"""When jobs end: after all that was before."""
OUT = error("stock-out", "no machines in {}")


class Region(FakeCloud):
    """What a placement has; by `on_create` a create ends otherwise than with a job."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.on_create: Callable[[], None] = lambda: None
        self.after_create: Callable[[], None] = lambda: None

    @property
    def is_live(self) -> bool:
        return bool(self.created) and not self.status.state.is_final

    def end(self, state: JobState, **fields: Any) -> None:
        self.status = JobStatus(state=state, time=LATER, **fields)

    def no_capacity(self) -> None:
        lacking = msgspec.structs.replace(OUT, message=OUT.message.format(self.name))
        raise NoCapacity(ExitCode.REFUSED, lacking)

    def run_out(self, **fields: Any) -> None:
        lacking = msgspec.structs.replace(OUT, message=OUT.message.format(self.name))
        self.end(JobState.FAILED, reason=lacking.message, findings=[lacking], **fields)

    def call(self, name: str) -> None:
        super().call(name)
        if name == "cancel":
            self.end(JobState.CANCELLED)


class Cloud:
    """Regions with one job each; it sees that no two jobs of the run live at once."""

    settled_after = 0.0

    def __init__(self, *names: str) -> None:
        self.regions = {name: Region(name) for name in names}
        self.sent: list[tuple[str, Any]] = []

    def create(self, run: str, request: dict[str, Any]) -> str:
        region = self.regions[request["region"]]
        if run in region.created:
            return f"vertex://p/{region.name}/7"
        region.on_create()
        living = [each.name for each in self.regions.values() if each.is_live]
        assert living == [], "two jobs at once"
        region.created[run] = request
        self.sent.append((region.name, request["body"]))
        region.after_create()
        return f"vertex://p/{region.name}/7"

    def find(self, request: Mapping[str, Any], run: str) -> str | None:
        region = self.regions[request["region"]]
        return f"vertex://p/{region.name}/7" if run in region.created else None

    def open(self, url: str) -> FakeJob:
        return FakeJob(self.regions[url.split("/")[3]], url)


class PlacementsTarget(ManagedTarget):
    info = INFO

    def __init__(self, cloud: Cloud) -> None:
        super().__init__()
        self.cloud = cloud

    def numbered_request(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        return {**request, "number": number}

    def service(self, _endpoints: Endpoints) -> Any:
        return self.cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud("a", "b", "c")


def planned(region: str, **fields: Any) -> Submission:
    plan = Plan(
        run=RUN,
        target="vertex",
        image=ImagePlan(tag="i", transport="none", reference="i@1"),
        pools=[Pool(role="worker", count=1, machine="m")],
        world_size=1,
        env={},
        request={"region": region, "body": {"image": "i", "KEY": None}},
    )
    job = Job(name="t", run=RunBlock(script="t.py"), **fields)
    placeholders = (Placeholder(("body", "image")),)
    placement = Placement(region=region, machine="m")
    return Submission(plan=plan, job=job, placement=placement, placeholders=placeholders)


def submit(cloud: Cloud, *, secret: bool = False, **fields: Any) -> PlacementsTarget:
    """Submit to all regions; the target of the process that has done so."""
    target = PlacementsTarget(cloud)
    each = [planned(name, **fields) for name in cloud.regions]
    first = replace(each[0], alternatives=tuple(each[1:]))
    if secret:
        first = with_secret(first)
    record = msgspec.structs.replace(new_run(first), spec="name: t\nrun:\n  script: t.py\n")
    if secret:
        text = "name: t\nrun:\n  script: t.py\n  env: {KEY: 'x-${THE_KEY}'}\n"
        record = msgspec.structs.replace(record, spec=text)
    target.submit(first, lambda: Store().add(record), lambda _event: None)
    return target


def submit_with_queue(cloud: Cloud, queue: float | None) -> PlacementsTarget:
    """The same with `limits.queue`, in seconds."""
    target, folder = submit(cloud), RunFolder(RUN)
    folder.create(msgspec.structs.replace(folder.description(), queue=queue))
    return target


def with_secret(submission: Submission) -> Submission:
    """The variable KEY of the job comes from the environment."""
    value = EnvValue("x-first")
    value.secret = True

    def one(each: Submission) -> Submission:
        job = msgspec.structs.replace(each.job, run=RunBlock(script="t.py", env={"KEY": value}))
        found = (*each.placeholders, Placeholder(("body", "KEY"), "KEY"))
        return replace(each, job=job, placeholders=found, secrets=("KEY",))

    others = tuple(one(each) for each in submission.alternatives)
    return replace(one(submission), alternatives=others)


def placements(run: RunRecord) -> list[str]:
    """The placements of a run in short."""
    return [
        f"{p.region} {p.state.value if p.state else '-'}: {p.reason}" if p.began else f"{p.region}"
        for p in run.placements
    ]


def test_a_refusal_for_want_of_capacity_leads_to_the_next_placement(cloud: Cloud) -> None:
    cloud.regions["a"].on_create = cloud.regions["a"].no_capacity
    target = submit(cloud)
    assert cloud.sent == [("b", {"image": "i@1", "KEY": None})]
    run = stored(RUN)
    assert (run.url, run.plan["request"]) == (
        "vertex://p/b/7",
        {"region": "b", "body": {"image": "i", "KEY": None}, "number": 2},
    )
    cloud.regions["b"].end(JobState.SUCCEEDED)
    assert reported(followed(target, RUN)) == [
        "job finding moved",
        "job queued (placement 2 of 3: b, m)",
        "worker-0 succeeded",
        "job succeeded",
    ]
    assert placements(stored(RUN)) == ["a failed: no machines in a", "b succeeded: None", "c"]
    assert [placement.url for placement in stored(RUN).placements] == [None, "vertex://p/b/7", None]


def test_a_job_that_finds_no_machines_is_seen_to_have_ended_before_the_next(cloud: Cloud) -> None:
    target = submit(cloud)
    events = target.events(RUN, {}, follow=True)
    assert reported(next(events)) == ["job queued"]
    cloud.regions["a"].run_out()
    cloud.regions["b"].run_out()
    cloud.regions["c"].end(JobState.SUCCEEDED)
    seen = reported([event for batch in events for event in batch])
    assert [word for word in seen if "placement" in word] == [
        "job queued (placement 2 of 3: b, m)",
        "job queued (placement 3 of 3: c, m)",
    ]
    assert [name for name, _ in cloud.sent] == ["a", "b", "c"]
    assert placements(stored(RUN)) == [
        "a failed: no machines in a",
        "b failed: no machines in b",
        "c succeeded: None",
    ]
    assert [placement.url for placement in stored(RUN).placements] == [
        "vertex://p/a/7",
        "vertex://p/b/7",
        "vertex://p/c/7",
    ]


def test_a_failure_of_its_own_moves_nothing(cloud: Cloud) -> None:
    target = submit(cloud)
    cloud.regions["a"].end(JobState.FAILED, reason="it broke", findings=[error("image", "none")])
    assert reported(followed(target, RUN))[-1] == "job failed (it broke)"
    assert placements(stored(RUN)) == ["a failed: it broke", "b", "c"]


def test_why_it_ended_is_waited_for(cloud: Cloud) -> None:
    target = submit(cloud)
    cloud.regions["a"].end(JobState.FAILED, reason="to be reported", is_settled=False)
    events = target.events(RUN, {}, follow=True)
    assert [event for _ in range(5) for event in next(events)] == []
    assert stored(RUN).state is JobState.QUEUED
    cloud.regions["a"].run_out()
    cloud.regions["b"].end(JobState.SUCCEEDED)
    assert reported([event for batch in events for event in batch])[-1] == "job succeeded"


def test_without_capacity_anywhere_the_submission_is_refused_for_the_last(cloud: Cloud) -> None:
    for region in cloud.regions.values():
        region.on_create = region.no_capacity
    with pytest.raises(NoCapacity, match="no machines in c"):
        submit(cloud)
    assert placements(stored(RUN))[:2] == [
        "a failed: no machines in a",
        "b failed: no machines in b",
    ]


def test_without_capacity_anywhere_a_run_that_is_watched_fails(cloud: Cloud) -> None:
    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].on_create = cloud.regions["b"].no_capacity
    cloud.regions["c"].on_create = cloud.regions["c"].no_capacity
    end = "job failed (no machines in c; it was tried in 3 placements: a, m; b, m; c, m)"
    assert reported(followed(target, RUN))[-1] == end
    assert stored(RUN).exit_code == 1
    assert reported(followed(PlacementsTarget(cloud), RUN))[-1] == end


def test_another_refusal_at_the_next_placement_is_the_end(cloud: Cloud) -> None:
    def refuse() -> None:
        raise RsctlError(ExitCode.REFUSED, error("denied", "not allowed in b"))

    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].on_create = refuse
    assert reported(followed(target, RUN))[-1] == "job failed (not allowed in b)"
    assert cloud.regions["c"].created == {}


def test_a_job_that_waits_too_long_is_ended_and_tried_elsewhere(cloud: Cloud) -> None:
    target = submit_with_queue(cloud, 60.0)
    cloud.regions["b"].end(JobState.SUCCEEDED)  # a is queued since a day that has long passed
    followed(target, RUN)
    assert cloud.regions["a"].cancelled
    assert placements(stored(RUN))[:2] == [
        "a expired: it waited longer than limits.queue of 60 s",
        "b succeeded: None",
    ]


def test_who_is_killed_after_ending_a_job_for_its_wait_leaves_word_of_why(cloud: Cloud) -> None:
    target = submit_with_queue(cloud, 60.0)
    region = cloud.regions["a"]
    call = region.call

    def killed(name: str) -> None:
        call(name)
        if name == "cancel":
            raise Killed

    region.call = killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        followed(target, RUN)
    target.release(RUN)
    cloud.regions["b"].end(JobState.SUCCEEDED)
    followed(PlacementsTarget(cloud), RUN)
    assert placements(stored(RUN))[0].startswith("a expired: it waited longer")


def test_what_ran_before_is_part_of_log_metrics_and_attempts(cloud: Cloud) -> None:
    target = submit(cloud)
    a, b = cloud.regions["a"], cloud.regions["b"]
    a.lines = [line(10, "worker-0", "first"), line(11, "worker-0", "more")]
    a.status = JobStatus(state=JobState.RUNNING, time=now())
    events = target.events(RUN, {}, follow=True)
    seen = next(events)
    b.lines = [line(20, "worker-0", "again")]
    b.end(JobState.SUCCEEDED)
    a.run_out()
    seen += [event for batch in events for event in batch]
    texts = [word.partition(" worker-0: ")[2] for word in reported(seen) if "worker-0: " in word]
    assert texts == ["first", "more", "again"]
    run = stored(RUN)
    assert [(each.attempt, each.reason) for each in run.attempts] == [
        (1, "cannot run in a, m: no machines in a")
    ]
    assert (run.attempt, run.state) == (2, JobState.SUCCEEDED)


# --- killed, lost, cancelled ------------------------------------------------------------------


def killed_between(cloud: Cloud) -> None:
    """A process was killed after it had written the next placement, before it created a job."""

    def kill() -> None:
        raise Killed

    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].on_create = kill
    with pytest.raises(Killed):
        followed(target, RUN)
    target.release(RUN)
    cloud.regions["b"].on_create = lambda: None


def test_who_asks_next_goes_on_with_a_run_that_was_killed_between_two_placements(
    cloud: Cloud,
) -> None:
    killed_between(cloud)
    run = stored(RUN)
    assert (run.state, run.url) == (JobState.QUEUED, f"vertex://{RUN}")
    assert placements(run)[1] == "b queued: None"
    cloud.regions["b"].end(JobState.SUCCEEDED)
    followed(PlacementsTarget(cloud), RUN)
    assert [name for name, _ in cloud.sent] == ["a", "b"]
    assert placements(stored(RUN))[1] == "b succeeded: None"


def test_a_request_of_the_killed_one_is_given_time_to_be_carried_out(cloud: Cloud) -> None:
    killed_between(cloud)
    cloud.settled_after = 1e9
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSCTL_CLOUD_PACE", "1")
        target = PlacementsTarget(cloud)
        target.reconcile(RUN)
        target.release(RUN)
    assert [name for name, _ in cloud.sent] == ["a"]
    assert stored(RUN).state is JobState.QUEUED


@pytest.mark.parametrize("loss", [Killed, KeyboardInterrupt])
def test_a_job_whose_answer_was_lost_is_found_not_made_again(
    cloud: Cloud, loss: type[BaseException]
) -> None:
    def lose() -> None:
        raise loss

    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].after_create = lose
    with pytest.raises(loss):
        followed(target, RUN)
    target.release(RUN)
    cloud.regions["b"].end(JobState.SUCCEEDED)
    followed(PlacementsTarget(cloud), RUN)
    assert [name for name, _ in cloud.sent] == ["a", "b"]
    assert stored(RUN).url == "vertex://p/b/7"


def test_without_an_answer_it_stays_where_it_is_and_says_so(cloud: Cloud) -> None:
    def lose() -> None:
        problem = RsctlError(ExitCode.ENVIRONMENT, error("network", "no answer"))
        raise Unanswered(RUN, problem)

    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].after_create = lose
    cloud.regions["b"].end(JobState.SUCCEEDED)
    seen = reported(followed(target, RUN))
    assert "job finding unanswered" in seen
    assert seen[-1] == "job succeeded"
    assert [name for name, _ in cloud.sent] == ["a", "b"]


def test_a_run_that_was_cancelled_between_two_placements_goes_nowhere(cloud: Cloud) -> None:
    killed_between(cloud)
    target = PlacementsTarget(cloud)
    target.cancel(RUN)
    assert reported(followed(target, RUN))[-1] == "job cancelled (cancelled before b, m)"
    assert [name for name, _ in cloud.sent] == ["a"]


def test_a_cancellation_while_the_next_job_is_created_ends_that_job(cloud: Cloud) -> None:
    target = submit(cloud)
    cloud.regions["a"].run_out()
    cloud.regions["b"].after_create = lambda: PlacementsTarget(cloud).cancel(RUN)
    assert reported(followed(target, RUN))[-1] == "job cancelled"
    assert cloud.regions["b"].cancelled
    assert cloud.regions["c"].created == {}


def test_a_cancelled_job_that_ends_for_want_of_capacity_goes_nowhere(cloud: Cloud) -> None:
    target = submit(cloud)
    target.cancel(RUN)
    cloud.regions["a"].run_out()
    assert reported(followed(target, RUN))[-1] == "job failed (no machines in a)"
    assert [name for name, _ in cloud.sent] == ["a"]


def test_a_second_submission_under_the_same_id_goes_on_where_the_first_was(cloud: Cloud) -> None:
    cloud.regions["a"].on_create = cloud.regions["a"].no_capacity

    def kill() -> None:
        raise Killed

    cloud.regions["b"].on_create = kill
    with pytest.raises(Killed):
        submit(cloud)
    cloud.regions["a"].on_create = cloud.regions["b"].on_create = lambda: None
    first = replace(planned("a"), alternatives=tuple(planned(name) for name in ("b", "c")))
    PlacementsTarget(cloud).submit(first, lambda: None, lambda _event: None)
    assert [name for name, _ in cloud.sent] == ["b"]


# --- secrets ----------------------------------------------------------------------------------


def test_the_submitting_process_has_the_secrets_for_the_next_placement(cloud: Cloud) -> None:
    target = submit(cloud, secret=True)
    cloud.regions["a"].run_out()
    cloud.regions["b"].end(JobState.SUCCEEDED)
    followed(target, RUN)
    assert [body["KEY"] for _, body in cloud.sent] == ["x-first", "x-first"]


def test_another_process_takes_them_from_its_environment_or_says_what_it_lacks(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = submit(cloud, secret=True)
    target.release(RUN)
    cloud.regions["a"].run_out()
    cloud.regions["b"].end(JobState.SUCCEEDED)
    with pytest.raises(RsctlError, match="has no value for KEY"):
        followed(PlacementsTarget(cloud), RUN)
    assert "x-first" not in RunFolder(RUN).states.read_text()
    monkeypatch.setenv("THE_KEY", "second")
    followed(PlacementsTarget(cloud), RUN)
    assert [body["KEY"] for _, body in cloud.sent] == ["x-first", "x-second"]
    assert stored(RUN).state is JobState.SUCCEEDED


@pytest.mark.parametrize("queue", [None, 60.0])
def test_a_job_that_no_process_watched_and_that_got_no_machines_moves(
    cloud: Cloud, queue: float | None
) -> None:
    """The cloud ended it, such as a spot job of SageMaker at MaxWaitTimeInSeconds."""
    target = submit_with_queue(cloud, queue)
    cloud.regions["a"].end(JobState.EXPIRED, reason="it did not get spot capacity")
    cloud.regions["b"].end(JobState.SUCCEEDED)
    followed(target, RUN)
    assert placements(stored(RUN)) == [
        "a expired: it did not get spot capacity",
        "b succeeded: None",
        "c",
    ]


@pytest.mark.parametrize("queue", [None, 60.0])
def test_a_job_that_no_process_watched_and_that_ran_until_its_limit_does_not_run_again(
    cloud: Cloud, queue: float | None
) -> None:
    target = submit_with_queue(cloud, queue)
    cloud.regions["a"].end(JobState.EXPIRED, reason="it reached its limit", started=at(1))
    followed(target, RUN)
    assert [name for name, _ in cloud.sent] == ["a"]
    assert stored(RUN).state is JobState.EXPIRED
