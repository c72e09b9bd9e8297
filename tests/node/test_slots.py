"""Slots of a packed job on its nodes: how they travel, meet and end."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import slots
from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.options import Options
from rsctl.node.slot_meeting import Meeting, Start
from rsctl.node.slots import Cell, Slots, SlotStop
from rsctl.node.soft_stop import SoftStop
from rsctl.node.structured_lines import lock_of
from rsctl.runs.slots import SlotMarks
from rsctl.runs.stream.events import LogEvent
from tests.kit.polling import wait_until

MANY = Slots(
    [Cell(["train.py", "--lr", str(n)], True, 0, {"A": str(n), "B": None}) for n in range(40)],
    [n % 40 for n in range(400)],
    90.0,
)


def test_slots_travel_in_variables_that_every_cloud_takes() -> None:
    """SageMaker takes 100 of 512 characters."""
    variables = slots.encode(MANY)
    assert len(variables) < 20
    assert max(map(len, variables.values())) <= 512
    assert all(text.isalnum() for text in variables.values())
    assert slots.decode({"OTHER": "1", **variables}) == MANY


def test_damaged_slots_are_refused() -> None:
    variables = slots.encode(MANY)
    variables["RSCTL_SLOTS_0"] = variables["RSCTL_SLOTS_0"][:-8] + "AAAAAAAA"
    with pytest.raises(LaunchError, match="do not have slots") as refused:
        slots.decode(variables)
    assert refused.value.exit_code == 2


def cluster(index: int, port: int, nodes: int = 2) -> Cluster:
    return Cluster("worker", index, ("127.0.0.1",) * nodes, (), "lo", port)


@pytest.fixture
def meetings() -> Iterator[list[Meeting]]:
    """A chief and a worker that have met."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    environ = {"RSCTL_TOKEN": "t", "RSCTL_RUN": "r", "RSCTL_RESOLVE_SECONDS": "60"}
    yield [Meeting(cluster(index, port), environ) for index in range(2)]
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def enter_both(meetings: list[Meeting], slot: int) -> list[Start | None]:
    """Both nodes enter a slot; the chief in this thread."""
    starts: list[Start | None] = []
    other = threading.Thread(target=lambda: starts.append(meetings[1].enter(slot)))
    other.start()
    starts.append(meetings[0].enter(slot))
    other.join()
    return starts


def test_nodes_enter_each_slot_together_with_a_port_of_its_own(meetings: list[Meeting]) -> None:
    first, second = enter_both(meetings, 0), enter_both(meetings, 1)
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first[0] is not None
    assert second[0] is not None
    assert first[0].port != second[0].port
    assert first[0].epoch < second[0].epoch


def test_a_failure_on_one_node_ends_this_slot_on_the_other(meetings: list[Meeting]) -> None:
    enter_both(meetings, 0)
    meetings[1].ended(0, code=1)
    wait_until(lambda: meetings[0].must_end, "the failure")
    enter_both(meetings, 1)
    assert not meetings[0].must_end
    meetings[0].ended(1, code=1)
    wait_until(lambda: meetings[1].must_end, "the failure")


def test_a_lost_node_ends_the_job(meetings: list[Meeting]) -> None:
    enter_both(meetings, 0)
    for sock in meetings[1]._socks:
        sock.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: meetings[0].must_end, "the loss")
    with pytest.raises(LaunchError, match="worker-1 is lost"):
        meetings[0].enter(1)


def test_a_node_that_is_stopped_while_it_waits_for_another_ends_with_the_code_of_the_signal(
    free_port: int,
) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        code = slots.run_slots(
            MANY,
            cluster(0, free_port),
            Options([], "once"),
            {"RSCTL_TOKEN": "t"},
            lambda *_: pytest.fail("a slot began"),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert code == 128 + signal.SIGTERM


Ran = list[tuple[list[str], int, dict[str, str]]]


def run_alone(stopped_in: int = -1) -> tuple[int, Ran]:
    """The exit code of a node that is alone and runs three slots, each of which fails; and the
    command, the placeholders and the variables of each. One may be stopped from outside.
    """
    ran: Ran = []
    packed = Slots(
        [Cell(["train.py", "x"], True, 1, {"A": "1", "B": None}), Cell(["sh"], False, 0, {})],
        [0, 1, 0],
        90.0,
    )
    environ = {"B": "b", "C": "c", "RSCTL_SLOTS_0": "X", "RSCTL_STOP_AFTER_SECONDS": "60"}

    def run(_cluster: Cluster, options: Any, own: Mapping[str, str], stop: SoftStop) -> int:
        shown = {name: own[name] for name in ("RSCTL_SLOT", *environ, "A") if name in own}
        ran.append((options.command, options.fill, shown))
        if len(ran) - 1 == stopped_in:
            stop.ask()
        stop.end()
        return 1

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    options = Options([], "once")
    try:
        return slots.run_slots(packed, cluster(0, 0, nodes=1), options, environ, run), ran
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_each_slot_has_the_command_and_the_variables_of_its_cell() -> None:
    """A slot that fails is a sample that is missing, and not the end of the job."""
    script = [sys.executable, "-u", "train.py", "x"]
    assert run_alone() == (
        0,
        [
            (script, 1, {"RSCTL_SLOT": "0", "C": "c", "A": "1"}),
            (["sh"], 0, {"RSCTL_SLOT": "1", "B": "b", "C": "c"}),
            (script, 1, {"RSCTL_SLOT": "2", "C": "c", "A": "1"}),
        ],
    )


def test_a_slot_that_is_stopped_is_the_last() -> None:
    code, ran = run_alone(stopped_in=1)
    assert (code, len(ran)) == (128 + signal.SIGTERM, 2)


def test_several_nodes_need_the_token() -> None:
    with pytest.raises(LaunchError, match="RSCTL_TOKEN"):
        Meeting(cluster(0, 0), {})


def test_the_time_limit_asks_and_then_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grace is a part of the limit, as it is of a whole job."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    stop = SlotStop({"RSCTL_GRACE_SECONDS": "10"}, "TERM", 60.0, lambda: False)
    assert stop.wait_seconds() == 50.0
    assert stop.due_signal() is None
    clock[0] = 150.0
    assert stop.due_signal() == signal.SIGTERM
    assert stop.why == "timeout"
    clock[0] = 160.0
    assert stop.due_signal() == signal.SIGKILL
    assert not stop.is_from_outside
    stop.end()


def marks(capfd: pytest.CaptureFixture[str], count: int) -> list[str]:
    """The lines of a launcher with so many slots."""
    keys = slots._keys(2 * count)
    print('{"rsctl": "slots", "lock": "%s"}' % lock_of(keys[-1]), flush=True)  # noqa: UP031
    for number in range(count):
        slots._mark(keys, number, "began")
        slots._mark(keys, number, "ended", code=0, why=None)
    return capfd.readouterr().out.splitlines()


def read(lines: list[str], reader: SlotMarks | None = None) -> list[tuple[int, bool]]:
    reader = reader or SlotMarks()
    events = [LogEvent("", "worker-0", str(n), "stdout", line) for n, line in enumerate(lines)]
    return [(mark.slot, mark.has_ended) for event in events if (mark := reader.read(event))]


def test_only_the_launcher_can_print_a_mark(capfd: pytest.CaptureFixture[str]) -> None:
    """A mark counts once; lost ones do not matter; those of another launcher are not read."""
    lines, others = marks(capfd, 3), marks(capfd, 3)
    expected = [(n, ended) for n in range(3) for ended in (False, True)]
    assert read(lines) == expected
    assert read([*lines[:4], *lines[:4], *others, *lines[4:]]) == expected
    assert read([lines[0], *lines[3:]]) == expected[2:]
    changed = lines[3].replace('"number": 1', '"number": 1, "x": 1').replace("key", "keys")
    assert read([*lines[:3], changed]) == expected[:2]


def test_a_slot_that_has_no_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="the source of a slot cannot be entered"):
        slots._enter(str(tmp_path / "missing"))
