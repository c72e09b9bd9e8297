"""The rules of a gate, and its decision as the report of a bench finds it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.bench.decision import decision_about, keep_decision
from rsctl.bench.folder import BenchFolder
from rsctl.bench.gate import evaluate
from rsctl.bench.rules import GateRules, rules_of
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.gate_checks import HISTORY_FORMS

from .test_gate import FIVE_PERCENT, STEADY, results


def test_a_decision_is_found_by_the_bench_and_by_its_confirmation() -> None:
    baseline = results(STEADY)
    gate = replace(evaluate(baseline, results(STEADY), FIVE_PERCENT), candidate="b-1")
    for name in ("b-1", "b-2"):
        BenchFolder(name).path.mkdir(parents=True)
        assert decision_about(name) is None
    assert keep_decision(gate) is gate
    assert decision_about("b-2") is None
    keep_decision(replace(gate, confirmation="b-2"), baseline)
    for name in ("b-1", "b-2"):
        found = decision_about(name)
        assert found is not None
        assert (found.gate, found.baseline) == (replace(gate, confirmation="b-2"), baseline)
    BenchFolder("b-1").decision.write_text("{}")  # as another version may write it
    assert decision_about("b-1") is None


BLOCK = {
    **{"baseline": "b.json", "repeat": 3, "confirm": 2, "looks": 4},
    **{"history": "h.jsonl", "window": 7},
}
OF_BLOCK = GateRules(
    **{"baseline": "b.json", "repeat": 3, "confirm": 2, "looks": 4},  # type: ignore[arg-type]
    **{"history": "h.jsonl", "window": 7, "only_limit": True},  # type: ignore[arg-type]
    is_from_file=True,
    is_history_from_file=True,
)


@pytest.mark.parametrize(
    ("block", "options", "expected"),
    [
        ({}, {}, GateRules(is_history_from_file=True)),
        (BLOCK, {}, OF_BLOCK),
        (
            BLOCK,
            {"repeat": 9, "confirm": 0, "looks": 1, "window": 2},
            replace(OF_BLOCK, repeat=9, confirm=0, looks=1, window=2),
        ),
        (
            BLOCK,
            {"baseline": "other"},
            replace(
                OF_BLOCK,
                baseline="other",
                is_from_file=False,
                history=None,
                is_history_from_file=False,
            ),
        ),
        (
            BLOCK,
            {"history": "other"},
            replace(OF_BLOCK, history="other", is_history_from_file=False, only_limit=False),
        ),
    ],
)
def test_options_override_the_block(
    block: dict[str, Any], options: dict[str, Any], expected: GateRules
) -> None:
    """A baseline or a history as an option overrides both of the block."""
    assert rules_of(block, **options) == expected


NO_HISTORY = error(
    "gate", "--window needs a history", "give --history WHERE, or set gate.history in the job file"
)


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (
            {"baseline": ""},
            error(
                *("baseline", "--baseline is empty"),
                "give FILE, gs://…, s3://…, git:REF:PATH or a bench",
            ),
        ),
        ({"history": ""}, error("history", "--history is empty", HISTORY_FORMS)),
        ({"window": 3}, NO_HISTORY),
        ({"baseline": "b", "window": 3}, NO_HISTORY),
    ],
    ids=["baseline", "history", "window", "window of a baseline"],
)
def test_options_that_say_nothing(options: dict[str, Any], finding: Finding) -> None:
    with pytest.raises(RsctlError) as caught:
        rules_of({"history": "h"} if "baseline" in options else {}, **options)
    assert (caught.value.exit_code, caught.value.findings) == (ExitCode.USAGE, (finding,))


def test_rules_that_allow_no_regression() -> None:
    rules_of({}, max_regression=["loss=5%"]).require_floors("a")
    with pytest.raises(RsctlError) as caught:
        rules_of({}).require_floors("a")
    remedy = "give --max-regression METRIC=5%, or set gate.max_regression in the job file"
    finding = error("a", "no metric has an allowed regression", remedy)
    assert (caught.value.exit_code, caught.value.findings) == (ExitCode.USAGE, (finding,))


def test_several_looks_share_the_error_bound_of_one_gate() -> None:
    assert rules_of({"looks": 4}).alpha == rules_of({}).alpha / 4
