"""`rsctl compare` and `rsctl diff`: every line of their output, for any comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import Comparison
from rsctl.bench.compare import Compared, Side, SideAbout
from rsctl.cli import compare, diff

from .conftest import Cli
from .test_runs import Make

ABOUT = [
    SideAbout(label="base.json", kind="baseline", made="2026-01-31T12:00:00.000000Z"),
    SideAbout(label="@now", kind="bench", made=""),
]
NOTE = (
    "values are medians of runs; a run's value is its sample over the steady part, where "
    "`rsctl list` shows the last value\n"
)


def side(*values: float | None, unit: str | None = "x/s") -> Side:
    known = [value for value in values if value is not None]
    middle = sorted(known)[len(known) // 2] if known else None
    return Side(n=len(known), value=middle, values=list(values), unit=unit)


def compared(*sides: Side, **fields: Any) -> Compared:
    return Compared(**{"name": "speed", "cell": {}, "sides": list(sides), **fields})


METRICS = [
    compared(
        side(100.0, 102.0, 101.0), side(50.0, None, 51.0),
        unit="x/s", goal="max", effect=-0.5, interval=(-0.51, -0.49), p=0.1,
    ),
    compared(
        side(1.0, unit="+s"), side(None, unit=None), name="=loss", cell={"n": 2},
        remark="-no data",
    ),
]  # fmt: skip


@pytest.fixture
def shown(rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Shows a comparison of two sides as `rsctl compare` does."""
    for index, name in enumerate("ab"):
        make_run(f"job-{name * 6}", second=index).succeed(10)
    asked: list[Any] = []

    def show(*words: str, metrics: Any = METRICS, sides: Any = ABOUT, **more: Any) -> Any:
        made = Comparison(**{"sides": sides, "differences": [], "metrics": metrics, **more})
        monkeypatch.setattr(compare, "compare", lambda *of, **how: asked.append((of, how)) or made)
        done = rsctl("compare", "job-a", "base.json", *words)
        [(of, how)] = asked
        assert (getattr(of[0], "id", None), of[1]) == ("job-aaaaaa", "base.json")
        return done, how["metrics"]

    return show


def test_a_comparison(shown: Any) -> None:
    done, metrics = shown(differences=["cpu: EPYC -> Xeon"])
    assert (done.code, metrics) == (0, [])
    assert done.out == (
        "METRIC  CELL  1 MEDIAN       2 MEDIAN      EFFECT  90 % INTERVAL  P\n"
        "speed         101 x/s (n=3)  51 x/s (n=2)  -50 %   -51 … -49 %    0.1\n"
        "=loss   n=2   1 +s           -\n"
    )
    assert done.err == (
        "1  baseline base.json  2026-01-31T12:00:00\n2  bench @now\n"
        f"they differ in\n  cpu: EPYC -> Xeon\n{NOTE}=loss (n=2): -no data\n"
    )


def test_a_comparison_without_differences_or_metrics(shown: Any) -> None:
    done, metrics = shown("-m", "speed", "--metric", "loss", metrics=[])
    assert (done.code, done.out, metrics) == (0, "", ["speed", "loss"])
    assert done.err == (
        "1  baseline base.json  2026-01-31T12:00:00\n2  bench @now\n"
        "no metric has data on either side\n"
    )


def test_a_comparison_for_a_spreadsheet(shown: Any) -> None:
    """The effect is of the last side; a text that could be a formula is quoted."""
    done, _ = shown("-o", "csv")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "metric,unit,goal,cell,side,n,median,values,effect,low,high,p,remark\n"
        "speed,x/s,max,,base.json,3,101.0,100.0 102.0 101.0,,,,,\n"
        "speed,x/s,max,,'@now,2,51.0,50.0  51.0,-0.5,-0.51,-0.49,0.1,\n"
        "'=loss,'+s,,n=2,base.json,1,1.0,1.0,,,,,\n"
        "'=loss,,,n=2,'@now,0,,,,,,,'-no data\n"
    )


def test_one_side_for_a_spreadsheet_has_no_effect(shown: Any) -> None:
    done, _ = shown("-o", "csv", metrics=[compared(side(2.0), remark="x")], sides=ABOUT[:1])
    assert done.out.splitlines()[1:] == ["speed,x/s,,,base.json,1,2.0,2.0,,,,,"]


def test_other_outputs_of_a_comparison(shown: Any) -> None:
    done, _ = shown("-o", "json")
    assert [metric["name"] for metric in done.json["metrics"]] == ["speed", "=loss"]


def test_a_comparison_in_markdown(shown: Any) -> None:
    done, _ = shown("-o", "markdown", differences=["cpu: EPYC -> Xeon"])
    assert done.code == 0
    assert "| speed |" in done.out


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["nothing differs: job file, arguments, code, versions and machines are equal"]),
        (
            {"differences": ["ps: 1 -> 2"], "moved_most": "data: +1 s",
             "steps": ["data: +1 s", "sync: +0 s"], "metrics": ["loss: -5 %"]},
            ["differs:", "  ps: 1 -> 2", "moved most in a step:", "  data: +1 s",
             "parts of a step:", "  sync: +0 s", "metrics:", "  loss: -5 %"],
        ),
        (
            {"differences": ["x"], "moved_most": "data", "steps": ["data"],
             "ranks": [f"rank {n}" for n in range(8)]},
            ["differs:", "  x", "moved most in a step:", "  data", "ranks:",
             *(f"  rank {n}" for n in range(8))],
        ),
        (
            {"differences": ["x"], "ranks": [f"rank {n}" for n in range(10)]},
            ["differs:", "  x", "ranks:", *(f"  rank {n}" for n in range(8)),
             "  and 2 more: -o json"],
        ),
    ],
)  # fmt: skip
def test_what_differs_and_moved(
    rsctl: Cli,
    make_run: Make,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, list[str]],
    lines: list[str],
) -> None:
    """The part that moved most is not named twice."""
    runs = [make_run(f"job-{name * 6}", second=i).succeed(9) for i, name in enumerate("ab")]
    sides = [run.store.find(run.run) for run in runs]
    empty: dict[str, Any] = {"differences": [], "moved_most": None, "steps": [], "ranks": []}
    known = {**empty, "metrics": [], "remarks": ["a\x07 remark"], **fields}
    most = known["moved_most"]
    known["steps"] = [most if step == most else step for step in known["steps"]]
    monkeypatch.setattr(diff, "diff", lambda *_: SimpleNamespace(sides=sides, **known))
    done = rsctl("diff", "job-a", "job-b")
    assert (done.code, done.err) == (0, "a\\x07 remark\n")
    assert done.out.splitlines() == ["job-aaaaaa (succeeded) -> job-bbbbbb (succeeded)", *lines]
