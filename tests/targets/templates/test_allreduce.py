"""The all-reduce benchmark that users start from: it measures, checks and reports every method."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ..conftest import Done, Rsctl

FIELDS = {
    *("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "wrong"),
    *("method", "backend", "engine", "ranks", "reducers", "wire_bw", "efficiency", "identical"),
}
KNOWN = """\
import os, runpy
os.environ["RSCTL_NET_BANDWIDTH"] = "1e9"
runpy.run_path("bench.py", run_name="__main__")
"""
"""Tells the benchmark of a bandwidth, as target compose does where it limits the network."""

SMALL = ("--set", "run.args.sizes=64K,1M", "--set", "run.args.iters=2")


@pytest.fixture(autouse=True)
def forked(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    """Its jobs do not spend their time on importing torch."""
    rsctl.env.update(torch_forks)


def submit(rsctl: Rsctl, workers: int, reducers: int | str, *more: str) -> Done:
    counts = ("--set", f"workers.count={workers}", "--set", f"reducers.count={reducers}")
    return rsctl("submit", "allreduce/job.yaml", "-o", "json", *counts, *SMALL, *more)


def lines(done: Done) -> list[str]:
    """What the chief printed."""
    logged = [event for event in done.events if event["type"] == "log"]
    return [event["text"] for event in logged if event["replica"] == "worker-0"]


def rows(done: Done) -> list[dict[str, Any]]:
    """The benchmark's results, in their order."""
    return [json.loads(text) for text in lines(done) if text.startswith('{"size"')]


@pytest.mark.parametrize("target", ["process", "compose"])
def test_its_plan_has_a_reducer_for_each_worker(rsctl: Rsctl, target: str) -> None:
    assert rsctl("init", "allreduce").exit_code == 0
    plan = json.loads(rsctl("plan", "allreduce/job.yaml", "-t", target, "-o", "json").stdout)
    assert [(pool["role"], pool["count"]) for pool in plan["pools"]] == [
        ("worker", 4),
        ("reducer", 4),
    ]
    assert [f for f in plan["findings"] if f["severity"] != "note"] == []


def test_all_methods_side_by_side(rsctl: Rsctl) -> None:
    assert rsctl("init", "allreduce").exit_code == 0
    done = submit(rsctl, 2, "auto")
    assert done.exit_code == 0, done.stderr
    found = rows(done)
    assert [(row["method"], row["size"], row["reducers"]) for row in found] == [
        ("ring", 64_000, 0),
        ("central", 64_000, 1),
        ("pool", 64_000, 2),
        ("ring", 1_000_000, 0),
        ("central", 1_000_000, 1),
        ("pool", 1_000_000, 2),
    ]
    for row in found:
        assert set(row) == FIELDS
        assert (row["wrong"], row["identical"], row["ranks"]) == (0, True, 2)
        assert (row["type"], row["redop"], row["root"]) == ("float", "sum", -1)
        assert row["count"] == row["size"] // 4
        assert row["algbw"] == pytest.approx(row["size"] / row["time"] / 1e3, rel=1e-3)
        assert row["busbw"] == row["wire_bw"] == row["algbw"]  # 2(N-1)/N is 1 for two ranks
        assert row["efficiency"] is None  # nothing limits the network of this target
        assert row["backend"] == ("gloo" if row["method"] == "ring" else "rsctl")
    metrics = done.result["metrics"]
    for row in found:
        size = {64_000: "64KB", 1_000_000: "1MB"}[row["size"]]
        for name in ("algbw", "busbw"):
            assert metrics[f"{name}.{row['method']}.{size}"]["last"] == row[name]
    assert "hybrid is left out: 2 reducers can do all by themselves" in lines(done)
    shown = [line for line in lines(done) if not line.startswith("{")]
    table = [line.split()[0] for line in shown[-10:]]
    assert table == [
        *("64KB", "ms", "ring", "central", "pool"),
        *("1MB", "ms", "ring", "central", "pool"),
    ]


def test_a_small_pool_of_a_known_network_in_half_precision(rsctl: Rsctl) -> None:
    assert rsctl("init", "allreduce").exit_code == 0
    (rsctl.folder / "allreduce" / "known.py").write_text(KNOWN)
    halves = ("--set", "run.args.dtype=bfloat16", "--set", "run.args.op=avg")
    done = submit(rsctl, 3, 1, *halves, "--set", "run.script=known.py")
    assert done.exit_code == 0, done.stderr
    found = rows(done)
    assert [row["method"] for row in found] == ["ring", "central", "hybrid"] * 2
    net_rate = 1e9 / 8 * 1448 / 1514
    # Three workers and a reducer with the power of one: by BytePS' formula, t = 12/10 of K/B.
    factors = {"ring": 4 / 3, "central": 3, "hybrid": 12 / 10}
    for row in found:
        assert (row["wrong"], row["identical"]) == (0, True)
        assert (row["type"], row["redop"], row["count"]) == ("bfloat16", "avg", row["size"] // 2)
        limit = factors[row["method"]] * row["size"] / net_rate
        assert row["efficiency"] == pytest.approx(limit / (row["time"] / 1e6), rel=1e-3)
    assert "pool is left out: there is one reducer, and that is central" in lines(done)


def test_wrong_arguments(rsctl: Rsctl) -> None:
    assert rsctl("init", "allreduce").exit_code == 0
    program = [sys.executable, rsctl.folder / "allreduce" / "bench.py", "--sizes", "1M,25X"]
    done = subprocess.run(program, env=rsctl.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "argument --sizes: '25X' is not a valid size such as 64K, 25M or 25Mi" in done.stderr


def test_wrong_results_of_the_ring_alone_fail_the_job(rsctl: Rsctl) -> None:
    assert rsctl("init", "allreduce").exit_code == 0
    with open(rsctl.folder / "allreduce" / "methods.py", "a", encoding="utf-8") as script:
        script.write("\n\nRanks._by_ring = lambda ranks, tensor: tensor\n")
    done = submit(rsctl, 2, 0, "--set", "run.args.methods=ring,pool")
    assert done.exit_code == 1
    found = [(row["method"], row["wrong"], row["identical"]) for row in rows(done)]
    assert found == [("ring", 2 * 16_000, False), ("ring", 2 * 250_000, False)]
    assert "pool is left out: there are no reducers; set reducers.count" in lines(done)
    assert "some results are wrong: see `wrong` and `identical` above" in lines(done)
