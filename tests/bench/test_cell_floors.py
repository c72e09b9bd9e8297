"""Allowed regressions of some cells."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.bench.floors import floor_of, make_floors
from rsctl.bench.gate import evaluate
from rsctl.bench.rules import rules_of
from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError

from .test_gate import STEADY, results, scaled

BLOCK: dict[str, Any] = {
    "max_regression": {"throughput": "5%"},
    "cells": [
        {"cell": {"workers.count": 8}, "max_regression": {"throughput": "20%"}},
        {
            "cell": {"workers.count": 8, "run.args.mode": "fast"},
            "max_regression": {"throughput": "2"},
        },
    ],
}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ({"workers.count": 2}, Floor(0.05)),
        ({"workers.count": 8}, Floor(0.2)),
        ({"workers.count": 8, "run.args.mode": "slow"}, Floor(0.2)),
        ({"workers.count": 8, "run.args.mode": "fast"}, Floor(2.0, is_relative=False)),
        ({}, Floor(0.05)),
    ],
)
def test_the_last_entry_that_applies_counts(cell: dict[str, Any], expected: Floor) -> None:
    assert floor_of(make_floors(BLOCK, ()), "throughput", cell) == expected


def test_options_override_the_file() -> None:
    texts = ["throughput=3%", "throughput[workers.count=8, run.args.mode=fast]=9%"]
    floors = make_floors(BLOCK, texts)
    fast = {"workers.count": 8, "run.args.mode": "fast"}
    assert floor_of(floors, "throughput", fast) == Floor(0.09)
    assert floor_of(floors, "throughput", {"workers.count": 8}) == Floor(0.2)
    assert floor_of(floors, "throughput", {"workers.count": 2}) == Floor(0.03)


def test_a_gate_judges_each_cell_by_its_own_floor() -> None:
    baseline = results({"2": STEADY, "8": STEADY})
    candidate = results({"2": scaled(0.9), "8": scaled(0.9)})
    gate = evaluate(baseline, candidate, make_floors(BLOCK, ()))
    assert [(check.title, check.verdict.value, check.floor) for check in gate.checks] == [
        ("throughput (workers.count=2)", "regressed", 0.05),
        ("throughput (workers.count=8)", "pass", 0.2),
        ("throughput (all cells)", "pass", 0.125),
    ]


def test_amounts_and_percentages_have_no_check_across() -> None:
    floors = make_floors({}, ["throughput=5%", "throughput[workers.count=8]=20"])
    sides = results({"2": STEADY, "8": STEADY})
    gate = evaluate(sides, sides, floors)
    assert [check.title for check in gate.checks] == [
        "throughput (workers.count=2)",
        "throughput (workers.count=8)",
    ]


@pytest.mark.parametrize(
    ("texts", "cells", "message", "remedy"),
    [
        (
            ["loss=5%", "throughput[n=8]=8%"],
            [{"n": 8}],
            "throughput[n=8]: throughput has no allowed regression in other cells",
            "set max_regression of throughput too",
        ),
        (
            ["loss=5%", "loss[n=9]=8%"],
            [{"n": 8}],
            "loss[n=9]: no cell has these values",
            "use keys and values of the matrix: n: 8",
        ),
        (
            ["loss=5%", "loss[n=9]=8%"],
            [{}],
            "loss[n=9]: no cell has these values",
            "omit it: the job has no matrix",
        ),
        (
            ["loss[9]=8%"],
            [{}],
            "max_regression loss[9]=8%: expected KEY=VALUE of the matrix in the brackets",
            "for example throughput[workers.count=8]=8%",
        ),
        (
            ["loss[n=9]=x"],
            [{}],
            "max_regression loss=x: expected a percentage of the baseline such as 5%, or an amount "
            "such as 0.2",
            "for example loss=5%",
        ),
    ],
)
def test_wrong_floors_of_cells(
    texts: list[str], cells: list[dict[str, Any]], message: str, remedy: str
) -> None:
    with pytest.raises(RsctlError) as caught:
        rules_of({}, max_regression=texts).floors.require_cells(cells)
    [finding] = caught.value.findings
    assert (caught.value.exit_code, finding.message, finding.remedy) == (
        ExitCode.USAGE,
        message,
        remedy,
    )
