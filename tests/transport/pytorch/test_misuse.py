"""Ranks that do not do the same over backend `rsctl`: every collective raises, as gloo's does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

ENGINES = pytest.mark.parametrize("engine", ["on", "off"], ids=["core", "python"])
LIMIT = "2"
"""The process group's timeout in seconds, where a rank is missing."""

Misuse = Callable[..., Any]


@pytest.fixture
def misuse(run: Callable[..., Any], reducers: Callable[..., Any]) -> Misuse:
    """Run a case of misuse.py over two reducers."""

    def misuse(case: str, *more: str, engine: str = "on", **options: Any) -> Any:
        pool = reducers(2, lanes=options.get("ranks", 1), engine=engine)
        options = {"nodes": 2, "ranks": 1, **options}
        return run("misuse.py", case, "rsctl", *more, **options, **pool.environ)

    return misuse


def found(ended: Any) -> list[Any]:
    """What the script's calls gave, by rank."""
    lines = [json.loads(row) for row in ended.out.splitlines() if row.startswith('{"rank"')]
    return [line["found"] for line in sorted(lines, key=lambda line: int(line["rank"]))]


def codes(ended: Any) -> set[str]:
    """The codes of the findings, which must all be errors."""
    findings = ended.printed("finding")
    assert {finding["severity"] for finding in findings} <= {"error"}
    return {finding["code"] for finding in findings}


@ENGINES
@pytest.mark.parametrize("case", ["sizes", "dtypes", "ops", "waited", "future"])
def test_a_mismatch_raises_as_do_all_later_ones(misuse: Misuse, case: str, engine: str) -> None:
    ended = misuse(case, engine=engine)
    assert found(ended) == [["raised"] * 4] * 2
    assert codes(ended) == {"collective-mismatch"}
    assert "disagree about operation 1" in ended.printed("finding")[0]["message"]
    assert ended.code == 1


def test_a_failed_work_says_so_by_all_its_methods(misuse: Misuse) -> None:
    assert found(misuse("state")) == [[0.0, "raised"]] * 2


def test_collectives_of_gloo_do_not_follow_a_failed_one(misuse: Misuse) -> None:
    assert found(misuse("others")) == [["raised"] * 4] * 2


@pytest.mark.parametrize("case", ["swallowed", "unwaited"])
@pytest.mark.parametrize("destroy", ["", "1"])
def test_a_script_that_goes_on_ends_with_an_error(misuse: Misuse, case: str, destroy: str) -> None:
    ended = misuse(case, DESTROY=destroy)
    assert codes(ended) == {"collective-mismatch"}
    assert ended.code == 1
    assert "ends with exit code 1, because a collective has failed" in ended.err


def test_a_script_that_leaves_without_exit_handlers_ends_with_an_error(misuse: Misuse) -> None:
    ended = misuse("swallowed", LEAVE="1")
    assert ended.code == 1
    assert "ends with exit code 1, because a collective has failed" in ended.err
    assert ended.out.count('{"child": 0}') == 2, "a forked child ends as it says"


@ENGINES
def test_the_timeout_of_the_script_counts_and_the_missing_rank_is_named(
    misuse: Misuse, engine: str
) -> None:
    ended = misuse("missing_later", LIMIT, nodes=3, engine=engine)
    assert found(ended) == [[6.0, "raised"], [6.0, "raised"], [6.0]]
    assert codes(ended) == {"collective-timeout"}
    texts = [finding["message"] for finding in ended.printed("finding")]
    assert all("operation 2 has made no progress for 2 s" in text for text in texts), texts
    assert all("waits for rank 2" in text for text in texts), texts


def test_the_timeout_counts_among_the_ranks_of_a_node_too(misuse: Misuse) -> None:
    ended = misuse("missing_beside", LIMIT, ranks=2)
    assert found(ended) == [[10.0, "raised"]] * 3 + [[10.0]]
    assert "a collective among the ranks of a node (2, 3) failed: " in ended.err


def test_a_rank_that_never_connects_is_named(misuse: Misuse) -> None:
    ended = misuse("missing", LIMIT)
    assert found(ended) == [["raised"], []]
    (finding,) = ended.printed("finding")
    assert finding["code"] == "collective-timeout"
    assert "rank 1 did not connect to the reducers" in finding["message"]


def test_a_setting_of_the_job_wins_over_the_timeout_of_the_script(misuse: Misuse) -> None:
    ended = misuse("missing_later", "20", RSCTL_TRANSPORT_TIMEOUT="1")
    assert found(ended) == [[3.0, "raised"], [3.0]]
    assert "no progress for 1 s" in ended.printed("finding")[0]["message"]


def test_a_wait_with_a_timeout_of_its_own(misuse: Misuse) -> None:
    assert found(misuse("missing_async")) == [[3.0, "raised"], [3.0]]


def test_a_rank_that_has_left_is_named(misuse: Misuse) -> None:
    ended = misuse("left")
    assert found(ended) == [[3.0], [3.0, "raised"]]
    assert codes(ended) == {"collective-mismatch"}
    assert "rank 0 left before operation 2" in ended.printed("finding")[0]["message"]


def test_collectives_in_different_orders_end_by_the_timeout(misuse: Misuse) -> None:
    """Who gives up first may meet the other's next collective, which is the same then."""
    ranks = found(misuse("order", LIMIT))
    assert len(ranks) == 2
    assert all("raised" in calls and set(calls) <= {"raised", 3.0} for calls in ranks), ranks


@ENGINES
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("callback", [6.0, 6.0, 3.0]),
        ("callback_sync", [6.0, 3.0, 3.0, 3.0]),
        ("callbacks_in_callbacks", [96.0, 3.0, 3.0, 3.0]),
    ],
)
def test_a_callback_awaits_collectives_of_its_own(
    misuse: Misuse, case: str, expected: list[float], engine: str
) -> None:
    ended = misuse(case, engine=engine)
    assert (ended.code, found(ended)) == (0, [expected] * 2)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("timely", [[3.0, 1.0, 3.0]] * 2),
        ("noncontiguous", [[3.0] * 4] * 2),
        ("subgroup", [[1.0, 3.0, 3.0, 3.0, 3.0], [2.0, 3.0, 3.0, 3.0, 3.0]]),
    ],
)
def test_what_is_right_goes_on_as_with_gloo(
    misuse: Misuse, run: Callable[..., Any], case: str, expected: list[Any]
) -> None:
    import torch.distributed as dist

    of_gloo = expected
    if case == "timely" and "std::__exception_ptr" in str(dist.Work.exception.__doc__):
        # PyTorch 2.4 and 2.5 cannot convert what gloo's `exception` returns; that of rsctl returns.
        of_gloo = [[3.0, "TypeError", 3.0]] * 2
    assert found(run("misuse.py", case, "gloo", nodes=2, ranks=1)) == of_gloo
    ended = misuse(case)
    assert (ended.code, found(ended)) == (0, expected)


def test_ranks_of_a_lane_have_their_numbers_in_the_job(misuse: Misuse) -> None:
    ended = misuse("missing_later", LIMIT, ranks=2)
    assert ended.code == 1
    texts = [finding["message"] for finding in ended.printed("finding")]
    # Rank 2 waits inside its node; ranks 0 and 1 for their lanes: ranks 0 and 2, 1 and 3.
    assert any("(2, 3) failed: " in text for text in texts), texts
    assert any(re.search("(waits for )?rank 3( left)?", text) for text in texts), texts


def test_powersgd_of_the_script_goes_over_the_reducers(
    run: Callable[..., Any], reducers: Callable[..., Any]
) -> None:
    ended = run("own_hook.py", "powersgd", nodes=2, ranks=1, **reducers(2).environ)
    assert len(ended.digest) == 64


def test_a_compiled_model_goes_over_the_reducers(
    run: Callable[..., Any], reducers: Callable[..., Any]
) -> None:
    plain = run("own_hook.py", "none", nodes=2, ranks=1, **reducers(2).environ)
    ended = run("own_hook.py", "compiled", nodes=2, ranks=1, **reducers(2).environ)
    assert ended.digest == plain.digest
