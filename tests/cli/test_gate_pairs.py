"""`rsctl gate` of a paired bench of the store: by its pairs, and by what was measured before."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rsctl.bench.history import make_record
from rsctl.bench.history_files import append_record, read_history
from rsctl.runs.store import Store
from tests.bench.test_history import commit
from tests.cli.conftest import Cli
from tests.cli.test_gate import STEADY, record
from tests.cli.test_gate_against import record_pairs

CPUS = ["EPYC"] * 5
LIMIT = ("--max-regression", "throughput=5%")


def scaled(factor: float) -> list[float | None]:
    return [factor * value for value in STEADY]


@pytest.fixture
def faster(rsctl: Cli) -> None:
    """A paired bench whose candidate is faster by a fifth."""
    record_pairs(scaled(1.0), scaled(1.2), CPUS)


@pytest.mark.usefixtures("faster")
def test_an_improvement_over_the_other_side_cannot_fail(rsctl: Cli) -> None:
    done = rsctl("gate", "pairs", "--fail-on-improvement")
    assert (done.code, done.out) == (2, "")
    assert "--fail-on-improvement needs a stored baseline, and pairs ran in turn with" in done.err
    assert rsctl("gate", "pairs").code == 0


@pytest.mark.usefixtures("faster")
def test_a_baseline_of_a_bench_takes_the_place_of_its_pairs(rsctl: Cli) -> None:
    record("before", STEADY)
    for options, code in (((), 0), (("--fail-on-improvement",), 7)):
        done = rsctl("gate", "pairs", "--baseline", "before", *options, "-o", "json")
        gate = json.loads(done.out)
        assert (done.code, gate["baseline"], gate["outdated"]) == (
            code,
            "before",
            ["throughput is 20 % better"],
        )
        assert [(check["cell"], check["runs"]) for check in gate["checks"]] == [({}, [5, 5])]
    done = rsctl("gate", "before", "--baseline", "pairs", *LIMIT, "-o", "json")
    [check] = json.loads(done.out)["checks"]
    assert (done.code, check["verdict"]) == (7, "regressed")
    assert check["effect"] == pytest.approx(1 / 1.2 - 1)


@pytest.mark.usefixtures("faster")
def test_its_candidate_becomes_a_baseline(rsctl: Cli) -> None:
    done = rsctl("gate", "pairs", "--update-baseline", "--baseline", "b.json")
    assert (done.code, done.err) == (0, "b.json: 1 cell, 5 runs each, from pairs\n")
    metrics = {one["name"]: one for one in json.loads(Path("b.json").read_text())["metrics"]}
    assert metrics["throughput"]["cell"] == {}
    assert metrics["throughput"]["values"] == pytest.approx(scaled(1.2))


@pytest.mark.parametrize(
    ("factor", "options", "code"),
    [
        (1.0, (), 0),
        (0.9, (), 7),
        (0.9, ("--window", "2"), 7),
        (1.12, (), 0),
        (1.12, ("--fail-on-improvement",), 7),
    ],
)
def test_a_history_takes_the_place_of_its_pairs(
    rsctl: Cli, factor: float, options: tuple[str, ...], code: int
) -> None:
    """By the candidate alone, whatever the other side of the bench was."""
    record_pairs(scaled(0.5), scaled(factor), CPUS)
    written(rsctl, 5)
    done = rsctl("gate", "pairs", "--history", "h.jsonl", *options, "-o", "json")
    gate = json.loads(done.out)
    count = 2 if "--window" in options else 5
    assert (done.code, gate["exit_code"]) == (code, code)
    assert gate["baseline"] == f"h.jsonl, last {count} commits"
    assert [(check["cell"], check["runs"]) for check in gate["checks"]] == [({}, [5 * count, 5])]


def written(rsctl: Cli, count: int) -> None:
    """A history of so many commits, measured as recorded benches are."""
    from rsctl.bench.records import Benches
    from rsctl.bench.results import bench_results

    record("steady", STEADY)
    store = Store()
    results = bench_results(store, Benches(store).find("steady"))
    store.close()
    for number in range(count):
        levels = [
            msgspec.structs.replace(
                one, values=[v if v is None else (1 + number % 2 / 500) * v for v in one.values]
            )
            for one in results.series
        ]
        of = f"bench-{number}"
        at = msgspec.structs.replace(results, series=levels, label=of)
        append_record(make_record(at, "job", commit(number), 86400 * number), "h.jsonl")
    assert len(read_history("h.jsonl").records) == count


@pytest.mark.usefixtures("faster")
def test_its_sides_are_compared(rsctl: Cli) -> None:
    found = json.loads(rsctl("compare", "pairs", "-o", "json", "-m", "throughput").out)
    assert [side["label"] for side in found["sides"]] == ["main (cccccccccccc)", "pairs"]
    assert [metric["effect"] for metric in found["metrics"]] == [pytest.approx(0.2)]
    record("other", STEADY)
    found = json.loads(rsctl("compare", "pairs", "other", "-o", "json", "-m", "throughput").out)
    assert [metric["effect"] for metric in found["metrics"]] == [pytest.approx(1 / 1.2 - 1)]


def test_the_floors_of_cells(rsctl: Cli) -> None:
    """A floor of a cell applies to the pair with its values."""
    record_pairs(scaled(1.0), scaled(0.9), CPUS, {"workers.count": 2})
    wide = ("--max-regression", "throughput[workers.count=2]=20%")
    assert [rsctl("gate", "pairs", *LIMIT, *more).code for more in ((), wide)] == [7, 0]
    done = rsctl("gate", "pairs", *LIMIT, "--max-regression", "throughput[side=candidate]=20%")
    assert (done.code, "no cell has these values" in done.err) == (2, True)
