"""Who holds up a job, by reports of its ranks."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.runs.stalls.job_view import parse_ranges, ranges
from rsctl.runs.stalls.reports import Collective, Group, Held, NodeReport, RankReport
from rsctl.runs.stalls.verdict import find_verdict
from rsctl.runs.stalls.verdict_type import Verdict

NAMES = [f"worker-{n}" for n in range(4)]


def call(number: int, op: str = "all_reduce", sizes: Any = None, ended: bool = False) -> Collective:
    return Collective(number, op, sizes or [[8]], ["Float"], ended)


def group(*calls: Collective, ranks: str = "") -> Group:
    called = max((each.number for each in calls), default=0)
    ended = max((each.number for each in calls if each.ended), default=0)
    return Group(called, ended, ranks, list(calls))


def waits(number: int, *more: Collective, **keys: Any) -> dict[str, Any]:
    done = [call(n, ended=True) for n in range(1, number)]
    return {
        "groups": {"0": group(*done, *(more or (call(number),)))},
        "inside": "collective",
    } | keys


def done(number: int, **keys: Any) -> dict[str, Any]:
    return {"groups": {"0": group(*(call(n, ended=True) for n in range(1, number + 1)))}} | keys


def verdict(
    *ranks: dict[str, Any],
    absent: int = 0,
    missing: dict[int, list[int]] | None = None,
    unreached: dict[int, list[int]] | None = None,
    **of_node: Any,
) -> Verdict:
    """The verdict on a job of one rank a node; `missing` and `unreached` by the node's number."""
    nodes = [
        NodeReport(
            number=1,
            ranks=1,
            index=number,
            missing=(missing or {}).get(number, []),
            unreached=(unreached or {}).get(number, []),
            replica=f"worker-{number}",
            reports=(RankReport(number=1, rank=number, replica=f"worker-{number}", **fields),),
        )
        for number, fields in enumerate(ranks)
    ]
    extra = [NodeReport(replica=name, trains=False, held=held) for name, held in of_node.items()]
    expected = [f"worker-{n}" for n in range(len(ranks) + absent)]
    return find_verdict([*nodes, *extra], expected)


def test_a_rank_whose_threads_do_not_end_is_guilty_if_the_others_have_ended() -> None:
    at_exit = done(4, inside="exit", at="train.py:7 watch")
    found = verdict(at_exit, missing={0: [1, 2, 3]})
    assert (found.kind, found.guilty, found.replicas, found.message) == (
        "exit",
        (0,),
        ("worker-0",),
        "rank 0 (worker-0) does not end: its script has ended, and a thread of it has not, at "
        "train.py:7 watch",
    )
    assert verdict(at_exit, done(4, inside="collective")).guilty == (0,)
    assert verdict(at_exit, done(4, at="train.py:8 test")).guilty == ()


def test_a_rank_at_its_end_that_others_wait_for_is_guilty() -> None:
    found = verdict(waits(5), done(4, inside="exit"), waits(5))
    assert (found.guilty, found.message) == (
        (1,),
        "rank 1 (worker-1) has not called all_reduce of [8] Float (collective 5), for which ranks "
        "0 and 2 wait; its script has ended, and a thread of it has not",
    )


def test_the_rank_that_has_called_less_is_guilty_and_the_others_wait() -> None:
    found = verdict(waits(5), waits(5), done(4, at="train.py:7 step"), waits(5))
    assert (found.kind, found.guilty, found.replicas, found.waiting) == (
        "missing",
        (2,),
        ("worker-2",),
        (0, 1, 3),
    )
    assert found.message == (
        "rank 2 (worker-2) has not called all_reduce of [8] Float (collective 5), for which "
        "ranks 0-1, 3 wait; it is at train.py:7 step"
    )
    assert found.lines == (
        "rank 0 (worker-0), waits in all_reduce of [8] Float",
        "rank 1 (worker-1), waits in all_reduce of [8] Float",
        "rank 2 (worker-2), at train.py:7 step",
        "rank 3 (worker-3), waits in all_reduce of [8] Float",
    )


def test_what_is_known_of_one_of_several_guilty_ranks_is_said_of_that_one() -> None:
    at = {"at": "train.py:7 step"}
    found = verdict(waits(5), waits(5), done(4, **at), done(4, **at))
    assert found.message.endswith("for which ranks 0 and 1 wait; rank 2 is at train.py:7 step")
    stopped = {"answers": False, "state": "T", "pid": 77}
    assert verdict(waits(5), stopped, stopped, waits(5)).message.startswith(
        "rank 1 (worker-1) and rank 2 (worker-2) do not answer; rank 1's process 77 has been "
        "stopped by a signal; "
    )


def test_several_ranks_that_have_called_less_are_guilty() -> None:
    found = verdict(waits(5), done(4), done(4), waits(5))
    assert (found.kind, found.guilty, found.waiting) == ("missing", (1, 2), (0, 3))
    assert found.message == (
        "rank 1 (worker-1) and rank 2 (worker-2) have not called all_reduce of [8] Float "
        "(collective 5), for which ranks 0 and 3 wait"
    )


def test_who_waits_for_a_guilty_rank_in_another_group_is_not_guilty() -> None:
    """Rank 1 is late for all because it waits for rank 2 in a group of the two."""
    inner = group(call(1), ranks="1-2")
    world = [call(n, ended=True) for n in range(1, 5)]
    found = verdict(
        waits(5),
        {"groups": {"0": group(*world), "7": inner}},
        {"groups": {"0": group(*world), "7": Group(0, 0, "1-2")}},
        waits(5),
    )
    assert (found.guilty, found.waiting) == ((2,), (0, 1, 3))


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (
            call(5, "broadcast"),
            "called broadcast of [8] Float where ranks 0-1, 3 called all_reduce",
        ),
        (
            call(5, sizes=[[9]]),
            "called all_reduce of [9] Float where ranks 0-1, 3 called all_reduce",
        ),
    ],
)
def test_another_collective_than_most_is_a_mismatch(odd: Collective, text: str) -> None:
    mine = [call(n, ended=True) for n in range(1, 5)]
    found = verdict(waits(5), waits(5), waits(5, *mine, odd), waits(5))
    assert (found.kind, found.guilty) == ("mismatch", (2,))
    assert text in found.message


def test_a_rank_whose_calls_are_those_of_the_others_one_later_has_skipped_one() -> None:
    def buckets(*sizes: int) -> list[Collective]:
        return [call(n, sizes=[[size]]) for n, size in enumerate(sizes, 1)]

    others = {"groups": {"0": group(*buckets(10, 20, 30))}}
    found = verdict(others, others, {"groups": {"0": group(*buckets(20, 30))}}, others)
    assert (found.guilty, found.kind) == ((2,), "mismatch")
    assert found.message == (
        "rank 2 (worker-2) has skipped all_reduce of [10] Float (collective 1), which the other "
        "ranks have called"
    )


@pytest.mark.parametrize("before", [0, 4])
def test_two_sides_that_cannot_be_told_apart_are_both_named_and_none_is_guilty(before: int) -> None:
    """Not even where one call is new: a rank may have left out what the others do now and then."""
    steps = [call(n, ended=True) for n in range(1, before + 1)]
    found = verdict(waits(before + 1), waits(before + 1, *steps, call(before + 1, "broadcast")))
    assert (found.kind, found.guilty, found.replicas) == ("mismatch", (), ())
    assert "rank 0 (worker-0) called all_reduce" in found.message
    assert "rank 1 (worker-1) called broadcast" in found.message


@pytest.mark.parametrize("op", ["all_to_all", "scatter", "gather", "_all_gather_base"])
def test_collectives_whose_sizes_may_differ_are_no_mismatch(op: str) -> None:
    own = [{"groups": {"0": group(call(1, op, sizes=[[size]]))}} for size in (8, 8, 9)]
    assert verdict(*own).kind == "network"


def test_groups_of_different_ranks_with_one_name_are_told_apart() -> None:
    """Ranks 0 and 1 reduce [8] in their row of a mesh, ranks 2 and 3 [9] in theirs."""
    rows = [("0-1", 8), ("0-1", 8), ("2-3", 9), ("2-3", 9)]
    calls = [group(call(1, sizes=[[size]]), ranks=ranks) for ranks, size in rows]
    assert verdict(*({"groups": {"7": each}} for each in calls)).kind == "network"
    late = {"groups": {"7": Group(0, 0, "2-3")}, "at": "train.py:9 row"}
    found = verdict(*({"groups": {"7": each}} for each in calls[:3]), late)
    assert found.guilty == (3,)
    assert "of process group 7 of ranks 2-3" in found.message


def test_a_stopped_process_is_guilty_whatever_it_has_called() -> None:
    found = verdict(waits(5), {"answers": False, "state": "T", "pid": 77}, waits(5))
    assert (found.kind, found.guilty, found.waiting) == ("silent", (1,), (0, 2))
    assert found.message == (
        "rank 1 (worker-1) does not answer; its process 77 has been stopped by a signal; "
        "ranks 0 and 2 wait in all_reduce of [8] Float"
    )


def test_a_rank_whose_lock_is_held_by_native_code_is_guilty() -> None:
    held = {"answers": False, "locked": True, "at": "train.py:4 match"}
    found = verdict(waits(5), held, waits(5))
    assert (found.kind, found.guilty) == ("silent", (1,))
    assert found.message.startswith(
        "rank 1 (worker-1) does not answer; native code holds Python's lock at train.py:4 match; "
    )
    saves = verdict(waits(5), {**held, "inside": "checkpoint"}, waits(5))
    assert "lock while it reads or writes a checkpoint at train.py:4 match; " in saves.message


@pytest.mark.parametrize("inside", [None, "collective"])
def test_a_rank_that_may_only_be_slow_to_answer_is_not_guilty(inside: str | None) -> None:
    late = {"answers": False, "locked": inside is not None, "inside": inside}
    found = verdict(waits(5), late, waits(5))
    assert (found.kind, found.guilty, found.replicas) == ("unknown", (), ())
    assert found.message == (
        "the cause is not known: rank 1 does not answer; ranks 0 and 2 wait in all_reduce of [8] "
        "Float"
    )


def test_of_a_rank_that_has_called_less_and_a_node_without_a_report_the_rank_is_guilty() -> None:
    found = verdict(waits(5), waits(5), done(4), absent=1)
    assert (found.kind, found.guilty, found.replicas) == ("missing", (2,), ("worker-2",))


def test_a_rank_without_torch_is_guilty_where_the_others_wait_for_it() -> None:
    joining = {"inside": "collective", "at": "train.py:3 main"}
    found = verdict(joining, joining, missing={1: [2]})
    assert (found.guilty, found.replicas) == ((2,), ("worker-1",))
    assert found.message == (
        "rank 2 (worker-1) does not join the others: ranks 0 and 1 wait at train.py:3 main; it has "
        "not imported torch, or it has ended"
    )
    assert verdict(done(3), done(3), missing={1: [2]}).guilty == ()


def test_a_node_that_reaches_none_and_that_none_reaches_has_lost_its_network() -> None:
    waiting = [waits(5), waits(5), waits(5)]
    found = verdict(*waiting, unreached={0: [2], 1: [2], 2: [0, 1]})
    assert (found.kind, found.guilty, found.replicas) == ("network", (2,), ("worker-2",))
    assert found.message == (
        "worker-2 (rank 2) has lost its network: it reaches no other node, and no other node "
        "reaches it; ranks 0-2 wait"
    )


@pytest.mark.parametrize(
    "unreached",
    [
        {0: [1, 2], 1: [0, 2], 2: [0, 1]},  # such as a firewall before ports without a listener
        {0: [2], 1: [2]},
        {2: [0, 1]},
    ],
)
def test_nodes_that_do_not_agree_who_has_lost_the_network_name_none(
    unreached: dict[int, list[int]],
) -> None:
    found = verdict(waits(5), waits(5), waits(5), unreached=unreached)
    assert (found.kind, found.guilty, found.replicas) == ("network", (), ())
    assert "does not reach worker-" in found.message


def test_a_rank_that_is_one_collective_behind_in_the_network_is_not_guilty() -> None:
    """The others have got its part of the last collective; it has not got theirs."""
    found = verdict(waits(6), waits(6), waits(5))
    assert (found.kind, found.guilty) == ("network", ())


def test_no_rank_is_guilty_where_none_answers() -> None:
    found = verdict(*[{"answers": False}] * 3)
    assert (found.kind, found.guilty) == ("unknown", ())


def test_before_the_first_collective_who_is_not_in_torch_distributed_is_guilty() -> None:
    joining = {"inside": "collective", "at": "train.py:3 main"}
    found = verdict(joining, joining, {"at": "train.py:2 main"})
    assert (found.guilty, found.message) == (
        (2,),
        "rank 2 (worker-2) does not join the others: ranks 0 and 1 wait at train.py:3 main; it is "
        "at train.py:2 main",
    )


def test_a_node_without_a_report_is_guilty_where_ranks_wait() -> None:
    found = verdict(waits(5), waits(5), absent=1)
    assert (found.kind, found.guilty, found.replicas) == ("silent", (), ("worker-2",))
    assert found.message.startswith("worker-2 does not report: the node has stopped or has lost")


def test_a_reducer_that_has_stopped_is_guilty_where_all_ranks_wait() -> None:
    over = {"groups": {"reducers": group(call(1))}}
    found = verdict(over, over, **{"reducer-0": [Held(9, "T")]})
    assert (found.kind, found.guilty, found.replicas) == ("reducer", (), ("reducer-0",))


def test_where_all_have_called_the_same_the_network_is_at_fault_and_no_rank() -> None:
    before = [call(n, "broadcast", ended=True) for n in range(1, 5)]
    own = {"groups": {"0": group(*before, call(5), call(6, "barrier"))}}
    found = verdict(own, own)
    assert (found.kind, found.guilty) == ("network", ())
    assert found.message == (
        "all ranks have called all_reduce of [8] Float, and it does not end: the network between "
        "them does not deliver, or the backend hangs"
    )


def test_ranks_that_wait_for_each_other_in_two_groups_are_a_circle() -> None:
    first = {"groups": {"1": group(call(1), ranks="0-1"), "2": Group(0, 0, "0-1")}}
    second = {"groups": {"1": Group(0, 0, "0-1"), "2": group(call(1), ranks="0-1")}}
    found = verdict(first, second)
    assert (found.kind, found.guilty, found.waiting) == ("circle", (), (0, 1))
    assert "rank 0 (worker-0) waits in all_reduce of [8] Float of process group 1" in found.message


@pytest.mark.parametrize("number", [0, 3])
def test_without_anyone_who_waits_nobody_is_guilty(number: int) -> None:
    found = verdict(*[done(number, at="train.py:9 sleep")] * 3)
    assert (found.kind, found.guilty) == ("idle", ())


def test_the_last_rank_that_has_not_ended_is_named_with_its_line() -> None:
    found = verdict(done(4, at="train.py:9 finish"), missing={0: [1, 2]})
    assert (found.kind, found.guilty, found.replicas, found.message) == (
        "idle",
        (),
        ("worker-0",),
        "rank 0 (worker-0) is at train.py:9 finish, and no rank is known to wait for it",
    )


def test_a_node_without_a_report_for_which_no_rank_waits_may_have_succeeded() -> None:
    found = verdict(done(4, at="train.py:9 finish"), absent=1)
    assert (found.kind, found.replicas, found.message) == (
        "idle",
        ("worker-0",),
        "rank 0 (worker-0) is at train.py:9 finish, and no rank is known to wait for it; worker-1 "
        "does not report",
    )


@pytest.mark.parametrize(
    ("idle", "message"),
    [
        (8.0, "no process uses a processor, reads or writes"),
        (0.1, "no rank has imported torch, so rsctl does not know which rank waits for another"),
    ],
)
def test_of_ranks_without_torch_their_work_is_known(idle: float, message: str) -> None:
    assert (
        find_verdict([NodeReport(quiet=9.0, idle=idle, replica="worker-0")], ["worker-0"]).message
        == message
    )


def test_two_ranks_of_which_one_writes_a_checkpoint() -> None:
    """The network is not at fault, and the rank at the checkpoint does not wait."""
    found = verdict(done(4, inside="checkpoint", at="train.py:9 save"), waits(5))
    assert (found.kind, found.guilty, found.message) == (
        "missing",
        (0,),
        "rank 0 (worker-0) has not called all_reduce of [8] Float (collective 5), for which rank 1 "
        "waits; it reads or writes a checkpoint at train.py:9 save",
    )


def test_ranges_of_ranks_are_written_and_read() -> None:
    assert ranges([0, 1, 2, 5]) == "0-2, 5"
    assert ranges([4, 3]) == "3 and 4"
    assert parse_ranges("0-3,6") == {0, 1, 2, 3, 6}
    assert parse_ranges("0-99999999") == set()
    assert parse_ranges("x") == set()
