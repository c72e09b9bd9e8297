"""When a job has stalled, by the reports of its nodes and its log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rsctl.runs.stalls.monitor import ANSWER_SECONDS, StallMonitor
from rsctl.runs.stalls.reports import Collective, Group, NodeReport, RankReport, StallReports
from rsctl.runs.stream.events import LogEvent

TWO = ("worker-0", "worker-1")
LIMIT = 100.0


class Nodes:
    """A monitor, and what it has asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.monitor = StallMonitor(LIMIT, self._ask)

    def _ask(self, replicas: Collection[str], number: int) -> None:
        assert set(replicas) == set(TWO)
        self.asked.append(number)

    def say(self, replica: str, asked: int | None = None, **fields: Any) -> None:
        fields = {"quiet": LIMIT, "idle": LIMIT, **fields}
        self.monitor.report(NodeReport(replica=replica, asked=asked, **fields))

    def answer(self, time: float, reports: dict[str, Any] | None = None) -> str | None:
        """What comes of an inquiry that all nodes answer."""
        assert self.verdict(time) is None
        for replica in TWO:
            of_node = (reports or {}).get(replica, ())
            self.say(replica, asked=self.asked[-1], reports=of_node)
        return self.verdict(time)

    def verdict(self, time: float) -> str | None:
        found = self.monitor.judge(TWO, time)
        return found.kind if found else None


def test_a_job_has_stalled_when_all_nodes_are_quiet_and_idle() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    assert nodes.verdict(100) is None
    assert nodes.asked == [1]
    nodes.say("worker-0", asked=1)
    assert nodes.verdict(101) is None
    nodes.say("worker-1", asked=1)
    assert nodes.verdict(102) is None
    assert nodes.answer(103) == "idle"  # two inquiries agree
    assert nodes.verdict(150) is None  # it is reported once


def test_a_node_that_writes_a_checkpoint_is_waited_for() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    nodes.verdict(100)
    nodes.say("worker-0", asked=1)
    nodes.say("worker-1", asked=1, quiet=3.0)
    assert nodes.verdict(101) is None
    assert nodes.verdict(150) is None
    assert nodes.asked == [1]
    nodes.say("worker-1")
    assert [nodes.answer(151), nodes.answer(152)] == [None, "idle"]


def test_nodes_whose_own_report_is_lost_are_asked_again() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    nodes.verdict(100)
    nodes.say("worker-0", asked=1)
    nodes.say("worker-1", asked=1, quiet=3.0)
    assert nodes.verdict(101) is None
    assert [nodes.answer(201), nodes.answer(202)] == [None, "idle"]


def test_answers_from_before_the_last_line_of_the_log_do_not_count() -> None:
    """The answers come with new lines of the log, and nothing wakes the reader until the next
    stall.
    """
    nodes = Nodes()
    nodes.say("worker-0")
    nodes.verdict(100)
    for replica in TWO:
        nodes.say(replica, asked=1, quiet=0.5)
    nodes.monitor.output(101)
    for replica in TWO:
        nodes.say(replica)
    assert nodes.verdict(150) is None
    assert nodes.asked == [1]
    assert [nodes.answer(201), nodes.answer(202)] == [None, "idle"]


def test_a_report_of_a_nodes_own_replaces_its_older_answer() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    nodes.verdict(100)
    for replica in TWO:
        nodes.say(replica, asked=1, quiet=0.5)
    for replica in TWO:
        nodes.say(replica)
    assert nodes.verdict(150) is None
    assert nodes.answer(151) == "idle"


def test_a_node_that_does_not_answer_twice_is_named() -> None:
    nodes = Nodes()
    waiting = (RankReport(number=1, rank=0, inside="collective", replica="worker-0"),)
    nodes.say("worker-0")
    nodes.verdict(100)
    nodes.say("worker-0", asked=1, reports=waiting)
    assert nodes.verdict(101) is None
    assert nodes.verdict(101 + ANSWER_SECONDS) is None
    assert nodes.verdict(120) is None
    nodes.say("worker-0", asked=2, reports=waiting)
    assert nodes.verdict(122) is None
    assert nodes.verdict(120 + ANSWER_SECONDS) == "silent"


def test_nodes_that_cannot_be_asked_are_judged_by_their_own_reports() -> None:
    nodes = Nodes()
    waiting = {
        name: (RankReport(number=1, rank=rank, inside="collective", replica=name),)
        for rank, name in enumerate(TWO)
    }
    nodes.say("worker-0", reports=waiting["worker-0"])
    assert nodes.verdict(100) is None
    assert nodes.verdict(100 + ANSWER_SECONDS) is None  # worker-1 may progress
    nodes.say("worker-1", reports=waiting["worker-1"])
    assert nodes.verdict(300) is None
    assert nodes.verdict(300 + ANSWER_SECONDS) is None
    assert nodes.verdict(320) is None
    assert nodes.verdict(320 + ANSWER_SECONDS) == "network"
    assert nodes.asked == [1, 2, 3]


def held(rank: int) -> dict[str, Any]:
    """The reports of two ranks, of which one is stopped and the other one waits."""
    stopped = RankReport(number=1, rank=rank, state="T", answers=False, replica=f"worker-{rank}")
    other = RankReport(number=1, rank=1 - rank, inside="collective", replica=f"worker-{1 - rank}")
    return {stopped.replica: (stopped,), other.replica: (other,)}


def test_inquiries_that_name_different_ranks_name_none_until_two_agree() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    kinds = [nodes.answer(100.0 + n, held(n % 2)) for n in range(4)]
    assert kinds == [None, None, None, "unknown"]
    found = nodes.monitor.verdict
    assert found is not None
    assert (found.guilty, found.replicas) == ((), ())
    assert nodes.verdict(150) is None  # it asks again, but not immediately
    assert [nodes.answer(300, held(1)), nodes.answer(301, held(1))] == [None, "silent"]
    assert nodes.monitor.verdict is not None
    assert nodes.monitor.verdict.guilty == (1,)
    assert nodes.verdict(1000) is None
    assert nodes.asked == [1, 2, 3, 4, 5, 6]


def test_a_line_of_the_log_is_progress() -> None:
    nodes = Nodes()
    nodes.monitor.output(90)
    nodes.say("worker-0")
    assert nodes.verdict(189) is None
    assert nodes.asked == []
    nodes.verdict(190)
    assert nodes.asked == [1]


def test_nodes_that_compute_and_wait_for_no_one_have_not_stalled() -> None:
    nodes = Nodes()
    nodes.say("worker-0")
    nodes.verdict(100)
    for replica in TWO:
        nodes.say(replica, asked=1, idle=0.0)
    assert nodes.verdict(101) is None


def test_a_stall_that_is_over_can_be_followed_by_another() -> None:
    nodes = Nodes()
    for time in (100, 1000):
        nodes.say("worker-0")
        assert [nodes.answer(time), nodes.answer(time + 1)] == [None, "idle"]
        nodes.say("worker-0", over=True)


def line(text: str, replica: str = "worker-0") -> LogEvent:
    return LogEvent("2026-01-01T00:00:00.000000Z", replica, "1", "stdout", text)


def test_lines_of_one_report_are_put_together_and_others_are_passed_over() -> None:
    reports = StallReports()
    hostile = '{"rsctl": "rank", "number": 3, "rank": -1}'
    mine = '{"rsctl": "rank", "number": 3, "rank": 1, "at": "a\\u001b[31m.py:1"}'
    late = '{"rsctl": "rank", "number": 2, "rank": 0}'
    for text in (hostile, late, mine, '{"rsctl": "rank", "number": 3, "rank": 9, "groups": 5}'):
        assert reports.read(line(text)) is None
    assert reports.read(line('{"rsctl": "stall", "number": 3}', "worker-1")) is not None
    node = reports.read(line('{"rsctl": "stall", "number": 3, "ranks": 1, "quiet": 5}'))
    assert node is not None
    assert [(rank.rank, rank.replica) for rank in node.reports] == [(1, "worker-0")]
    assert "\x1b" not in str(node.reports[0].at)


def test_ranks_that_failed_in_different_collectives_are_told_by_their_last_reports() -> None:
    """The backend of a rank may call its last collective ended, though an exception ended it."""
    nodes = Nodes()

    def end(replica: str, rank: int, op: str, is_ended: bool) -> None:
        calls = [Collective(1, "barrier", ended=True), Collective(2, op, ended=is_ended)]
        group = Group(2, 2 if is_ended else 1, "", calls)
        report = RankReport(number=1, rank=rank, replica=replica, groups={"0": group})
        nodes.say(replica, ended=True, reports=(report,))

    assert nodes.monitor.collapse() is None
    end("worker-0", 0, "all_reduce", False)
    end("worker-1", 1, "all_reduce", True)
    assert nodes.monitor.collapse() is None
    end("worker-1", 1, "broadcast", True)
    found = nodes.monitor.collapse()
    assert found is not None
    assert (found.kind, found.message) == (
        "mismatch",
        "the ranks do not call the same collective (number 2): rank 0 (worker-0) called "
        "all_reduce; rank 1 (worker-1) called broadcast",
    )
