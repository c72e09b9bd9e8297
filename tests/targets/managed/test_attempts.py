"""Attempts of a job that its cloud restarts: counted, explained, and ended when it is enough."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rsctl.findings import JobState
from rsctl.node.structured_lines import lock_of
from rsctl.runs.folder import RestartLimit, RunDescription, RunFolder
from rsctl.runs.stream.events import StateEvent
from rsctl.targets.base import replica_names
from rsctl.targets.managed.service import JobStatus

from .conftest import POOLS, FakeCloud, FakeTarget, at, followed, line, reported, stored

NODE = f'{{"rsctl": "node", "replica": "worker-0", "host": "h", "lock": "{lock_of("k")}"}}'


def died(second: int, code: int = 139, **more: Any) -> str:
    time = f"2026-11-21T12:00:{second:02}.000000Z"
    fields = ", ".join(f'"{name}": "{value}"' for name, value in more.items())
    comma = ", " if fields else ""
    head = f'"rsctl": "exit", "code": {code}, "rank": 0, "time": "{time}", "key": "k"'
    return f"{{{head}{comma}{fields}}}"


def limited(run: str, limit: RestartLimit | None) -> None:
    RunFolder(run).create(
        RunDescription(
            run=run, target="vertex", request={}, replicas=replica_names(POOLS), restarts=limit
        )
    )


def attempts(run: str) -> list[tuple[int, str | None, int | None]]:
    return [
        (each.attempt, each.reason, each.failure.exit_code if each.failure else None)
        for each in stored(run).attempts
    ]


class Cancelled(FakeCloud):
    """A cloud whose job has been cancelled as soon as somebody wants that."""

    def call(self, name: str) -> None:
        super().call(name)
        if name == "cancel":
            self.end(JobState.CANCELLED)


@pytest.fixture
def cloud() -> FakeCloud:
    cloud = Cancelled()
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(1))
    return cloud


def test_a_job_is_ended_at_the_first_restart_too_many(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    limited(run, RestartLimit(1, is_spot=False))
    cloud.lines = [
        line(1, "worker-0", NODE),
        line(2, "worker-0", "Segmentation fault"),
        line(3, "worker-0", died(3)),
        line(10, "worker-0", NODE),
        line(12, "worker-0", died(12, 134)),
        line(20, "worker-0", NODE),
    ]
    events = followed(target, run)
    assert cloud.calls.count("cancel") == 1
    why = "it was restarted more often than the limit of 1 restart allows: ended by rsctl"
    assert reported(events)[-4:] == [
        "worker-0 cancelled (stopped after worker-0 had failed)",
        "worker-1 cancelled (stopped after worker-0 had failed)",
        "reducer-0 cancelled (stopped after worker-0 had failed)",
        f"job failed ({why})",
    ]
    known = stored(run)
    assert (known.state, known.attempt, known.reason) == (JobState.FAILED, 3, why)
    assert known.first_failure is not None
    assert known.first_failure.exit_code == 134
    assert attempts(run) == [
        (1, "worker-0 failed with exit code 139", 139),
        (2, "worker-0 failed with exit code 134", 134),
    ]
    assert known.attempts[0].failure is not None
    assert known.attempts[0].failure.lines[-1] == "Segmentation fault"


def test_without_a_limit_it_is_only_counted(cloud: FakeCloud, target: FakeTarget, run: str) -> None:
    limited(run, None)
    for second in range(0, 20, 2):
        cloud.lines.append(line(second, "worker-0", NODE))
        cloud.lines.append(line(second + 1, "worker-0", died(second + 1)))
    cloud.end(JobState.SUCCEEDED)
    followed(target, run)
    assert "cancel" not in cloud.calls
    assert (stored(run).attempt, len(attempts(run))) == (10, 9)


def test_a_state_before_running_is_a_restart_where_nothing_prints(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """Of images that are not ours."""
    limited(run, RestartLimit(0, is_spot=False))
    events = target.events(run, {}, follow=True)
    next(events)
    cloud.status = JobStatus(state=JobState.STARTING, time=at(9), reason="being prepared")
    rest = [event for batch in events for event in batch]
    assert reported(rest)[-1].startswith(
        "job failed (it was restarted more often than the limit of 0 restarts allows"
    )
    assert attempts(run) == [(1, "it was started again; the reason is unknown", None)]


def test_a_log_that_is_later_than_the_state_still_explains_the_attempt(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    limited(run, RestartLimit(3, is_spot=False))
    cloud.lines = [line(1, "worker-0", NODE)]
    events = target.events(run, {}, follow=True)
    seen = next(events)
    while "worker-0 running" not in reported(seen):
        seen += next(events)
    cloud.status = JobStatus(state=JobState.STARTING, time=at(9))
    while stored(run).attempt == 1:
        next(events)
    cloud.lines += [line(3, "worker-0", died(3)), line(11, "worker-0", NODE)]
    cloud.end(JobState.SUCCEEDED)
    seen += [event for batch in events for event in batch]
    runs = [e for e in seen if isinstance(e, StateEvent) and e.replica == "worker-0"]
    running = [(e.attempt, e.time) for e in runs if e.state is JobState.RUNNING]
    assert running == [(1, at(1)), (2, at(11))]
    assert (stored(run).attempt, stored(run).first_failure) == (2, None)
    assert attempts(run) == [(1, "worker-0 failed with exit code 139", 139)]


def test_a_job_that_waits_for_its_next_attempt_has_no_running_replica(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """As after a requeue by Slurm, which may last for hours."""
    limited(run, None)
    cloud.lines = [line(1, "worker-0", NODE), line(1, "reducer-0", NODE)]
    events = target.events(run, {}, follow=True)
    while "reducer-0 running" not in reported(next(events)):
        pass
    cloud.status = JobStatus(state=JobState.QUEUED, time=at(9), attempt=2)
    while stored(run).attempt == 1:
        next(events)
    states = {each.replica: each.state for each in stored(run).replicas}
    assert states == {"worker-0": JobState.QUEUED, "reducer-0": JobState.QUEUED}
    cloud.lines += [line(11, "worker-0", NODE)]
    cloud.end(JobState.CANCELLED)
    rest = reported([event for batch in events for event in batch])
    assert "worker-0 running" in rest


def test_a_replica_that_restarts_alone_leaves_the_others_running(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """As with `targets.vertex.restart: worker`: the other containers do not start again."""
    limited(run, None)
    cloud.lines = [line(1, "worker-0", NODE), line(1, "worker-1", NODE)]
    cloud.lines += [line(9, "worker-0", NODE), line(10, "worker-1", "step 3")]
    events = target.events(run, {}, follow=True)
    while "step 3" not in [getattr(event, "text", "") for event in next(events)]:
        pass
    states = {each.replica: each.state for each in stored(run).replicas}
    assert stored(run).attempt == 2
    assert states == {"worker-0": JobState.RUNNING, "worker-1": JobState.RUNNING}


def test_two_restarts_between_two_looks_are_two_attempts(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    """Where the service counts, and its count arrives before the log."""
    limited(run, None)
    cloud.lines = [line(1, "worker-0", NODE)]
    events = target.events(run, {}, follow=True)
    while "worker-0 running" not in reported(next(events)):
        pass
    cloud.status = JobStatus(state=JobState.RUNNING, time=at(1), attempt=3)
    while stored(run).attempt == 1:
        next(events)
    for second, code in ((3, 139), (7, 134)):
        cloud.lines += [line(second, "worker-0", died(second, code)), line(9, "worker-0", NODE)]
    cloud.end(JobState.SUCCEEDED)
    cloud.status = msgspec.structs.replace(cloud.status, attempt=3)
    for _ in events:
        pass
    assert (stored(run).attempt, stored(run).first_failure) == (3, None)
    assert attempts(run) == [
        (1, "worker-0 failed with exit code 139", 139),
        (2, "worker-0 failed with exit code 134", 134),
    ]


@pytest.mark.parametrize(
    ("mark", "is_counted"),
    [
        ([], False),
        ([died(3, 143, signal="SIGTERM")], False),
        ([died(3, 137, signal="SIGKILL")], False),
        ([died(3, 137, signal="SIGKILL").replace('"rank"', '"oom_kills": 2, "rank"')], True),
        (["RuntimeError: Connection closed by peer", died(3, 1)], False),
        (["ValueError: no", died(3, 1)], True),
    ],
)
def test_interruptions_of_spot_machines_are_not_counted(
    cloud: FakeCloud, target: FakeTarget, run: str, mark: list[str], is_counted: bool
) -> None:
    limited(run, RestartLimit(0, is_spot=True))
    cloud.lines = [line(1, "worker-0", NODE)]
    cloud.lines += [line(3, "worker-0", text) for text in mark]
    cloud.lines.append(line(9, "worker-0", NODE))
    events = target.events(run, {}, follow=True)
    seen = next(events)
    while stored(run).attempt == 1 and not stored(run).state.is_final:
        seen += next(events)
    for _ in range(5):
        next(events, None)
    assert ("cancel" in cloud.calls) is is_counted
    assert len(attempts(run)) == 1


@pytest.mark.parametrize(
    ("code", "signal", "is_requeue", "reason"),
    [
        (143, {"signal": "SIGTERM"}, True, "Slurm has requeued it"),
        (139, {"signal": "SIGSEGV"}, True, "worker-0 failed with exit code 139"),
        (137, {"signal": "SIGKILL"}, False, "worker-0 failed with exit code 137"),
    ],
)
def test_ranks_that_the_service_has_signalled_do_not_explain_a_restart(
    cloud: FakeCloud,
    target: FakeTarget,
    run: str,
    code: int,
    signal: dict[str, Any],
    is_requeue: bool,
    reason: str,
) -> None:
    """As in a preemption: Slurm sends SIGTERM, and starts the job again."""
    limited(run, None)
    cloud.lines = [line(1, "worker-0", NODE), line(3, "worker-0", died(3, code, **signal))]
    events = target.events(run, {}, follow=True)
    while "worker-0 running" not in reported(next(events)):
        pass
    restarted = "Slurm has requeued it" if is_requeue else "exit code 137"
    queued = JobStatus(state=JobState.QUEUED, time=at(9), attempt=2, restarted=restarted)
    cloud.status = msgspec.structs.replace(queued, is_interrupted=is_requeue)
    while stored(run).attempt == 1:
        next(events)
    cloud.end(JobState.CANCELLED)
    for _ in events:
        pass
    assert [(each[0], each[1]) for each in attempts(run)] == [(1, reason)]


def test_a_cancel_that_does_not_get_through_is_sent_again(
    cloud: FakeCloud, target: FakeTarget, run: str
) -> None:
    limited(run, RestartLimit(0, is_spot=False))
    cloud.lines = [line(1, "worker-0", NODE), line(9, "worker-0", NODE)]
    events = target.events(run, {}, follow=True)
    next(events)
    cloud.unreachable = 5
    rest = [event for batch in events for event in batch]
    assert reported(rest)[-1].startswith("job failed")
