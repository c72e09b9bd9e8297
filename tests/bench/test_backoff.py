"""How a bench waits for machines, and by which rules it is judged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.bench.backoff import Backoff
from rsctl.bench.rules import GateRules, rules_of
from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError, error


@given(st.floats(0.01, 100))
def test_waits_double_between_half_and_all_of_a_bound(factor: float) -> None:
    backoff = Backoff(None, factor)
    assert backoff.is_over(0.0)
    for bound in (15.0, 30.0, 60.0, 120.0, 120.0):
        wait = backoff.wait(1000.0, others_run=True)
        assert wait is not None
        assert bound / 2 * factor <= wait <= bound * factor
        assert not backoff.is_over(1000.0 + wait - factor * 1e-3)
        assert backoff.is_over(1000.0 + wait)
    backoff.reset()
    assert backoff.is_over(0.0)
    again = backoff.wait(1000.0, others_run=True)
    assert again is not None
    assert again <= 15.0 * factor


@pytest.mark.parametrize(("patience", "seconds"), [(None, 600.0), (60.0, 60.0)])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_it_is_given_up_when_none_of_the_own_runs_can_be_waited_for(
    patience: float | None, seconds: float, factor: float
) -> None:
    backoff = Backoff(patience, factor)
    end = 10.0 + seconds * factor
    assert backoff.wait(10.0, others_run=False) is not None
    assert backoff.wait(end, others_run=False) is not None
    assert backoff.wait(end + 0.01, others_run=False) is None
    assert backoff.wait(end + 1, others_run=True) is not None  # their machines become free
    assert backoff.wait(end + 1 + seconds * factor, others_run=False) is not None
    backoff.reset()
    assert backoff.wait(9 * end, others_run=False) is not None


@pytest.mark.parametrize(("code", "expected"), [("quota", True), ("stock-out", True), ("x", False)])
def test_what_is_a_want_of_machines(code: str, expected: bool) -> None:
    problem = RsctlError(ExitCode.REFUSED, error("other", "a"), error(code, "b"))
    assert Backoff(None, 1.0).is_about(problem) is expected


BLOCK: dict[str, Any] = {
    "baseline": "base.json",
    "max_regression": {"loss": 0.2, "throughput": "5%"},
    "repeat": 5,
    "confirm": 3,
}
FLOORS = {"loss": Floor(0.2, False), "throughput": Floor(0.05, True)}


def test_the_rules_of_a_block() -> None:
    assert rules_of(BLOCK) == GateRules(
        baseline="base.json",
        floors=FLOORS,
        repeat=5,
        confirm=3,
        is_from_file=True,
        is_history_from_file=True,
        only_limit=True,
    )
    assert rules_of({}) == GateRules(is_history_from_file=True)
    assert rules_of({"max_regression": None, "confirm": None}) == GateRules(
        is_history_from_file=True
    )


def test_options_count_more_than_the_block() -> None:
    found = rules_of(BLOCK, "other.json", ["throughput=2%", "f1=0.1"], 7, 0)
    assert found == GateRules(
        baseline="other.json",
        floors={**FLOORS, "throughput": Floor(0.02, True), "f1": Floor(0.1, False)},
        given=["throughput=2%", "f1=0.1"],
        repeat=7,
        confirm=0,
        is_from_file=False,
        only_limit=True,
    )
    assert rules_of({}, "other.json").is_from_file is False


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"baseline": ""}, "baseline", "--baseline is empty"),
        ({"max_regression": ["loss"]}, "gate", "max_regression loss=: expected a percentage of"),
        ({"max_regression": ["loss=100%"]}, "gate", "max_regression loss=100%: expected"),
        ({"max_regression": ["=5%"]}, "gate", "max_regression =5% does not name a metric"),
    ],
)
def test_options_that_say_nothing(options: Any, code: str, message: str) -> None:
    with pytest.raises(RsctlError) as caught:
        rules_of(BLOCK, **options)
    assert caught.value.exit_code == ExitCode.USAGE
    [finding] = caught.value.findings
    assert finding.code == code
    assert finding.message.startswith(message)
    assert finding.remedy
