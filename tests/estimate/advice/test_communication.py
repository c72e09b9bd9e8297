"""The communication of a step alone: with reducers if the computation is unknown, or sharded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.communication import exchange_alone, sharded_communication
from rsctl.estimate.advice.situation import ReducerMachine, Situation
from rsctl.transport import cost_model

MACHINE = ReducerMachine(name="cpu-16", bits=10e9, cores=16)
SITUATION = Situation(
    target="vertex",
    cluster=ModelledCluster(workers=8, worker_bits=10e9, worker_cores=16),
    reducer_machines=(MACHINE, replace(MACHINE, name="cpu-64")),
)
K = 10**9
RING = 2 * 7 / 8 * K / (0.98 * cost_model.net_rate(10e9))
"""Seconds on the network, without messages."""


def test_the_reducers_that_are_shown_are_one_half_all_and_the_jobs_own() -> None:
    """Of the usual machine, since the others are not known to be better."""
    made = exchange_alone(SITUATION, K, UNCALIBRATED)
    assert [(each.name, each.reducers, each.reducer_machine) for each in made.collectives] == [
        ("ring", 0, None),
        ("hybrid", 1, "cpu-16"),
        ("hybrid", 4, "cpu-16"),
        ("pool", 8, "cpu-16"),
    ]
    assert (made.saturating, made.documented, made.sharded) == (8, None, None)
    assert made.sentence == (
        "The exchange of a step takes 1.55 s without reducers and 860 ms with 8 reducers; 8 make "
        "the workers the bottleneck. Give model.step_seconds to learn whether reducers pay off."
    )
    own = replace(SITUATION, cluster=replace(SITUATION.cluster, workers=7), count=2, rule=6)
    made = exchange_alone(own, K, UNCALIBRATED)
    assert [each.reducers for each in made.collectives] == [0, 1, 2, 4, 6, 7]
    assert (made.saturating, made.documented) == (7, 6)


@pytest.mark.parametrize(
    "changes", [{"refused": "it brings EFA"}, {"reducer_machines": ()}], ids=lambda given: [*given]
)
def test_without_reducers_the_exchange_is_that_of_the_workers(changes: dict[str, Any]) -> None:
    made = exchange_alone(replace(SITUATION, **changes), K, UNCALIBRATED)
    [ring] = made.collectives
    # 38 buckets of 25 MiB and a small one, of 14 messages each
    assert ring.seconds == pytest.approx(RING + 40 * 14 * 100e-6, rel=0.001)
    assert (ring.worker_bytes, ring.bottleneck) == (1.75 * K, "workers' network")
    assert (made.saturating, made.target, made.workers, made.gradient_bytes) == (
        *(None, "vertex", 8),
        K,
    )
    assert made.sentence == (
        "The exchange of a step takes 1.55 s without reducers. Give model.step_seconds to learn "
        "whether reducers pay off."
    )


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (None, "2.24 s."),
        (0.5, "2.24 s; a step takes 2.24 s if all of it is prefetched, 2.74 s if none."),
        (4.0, "2.24 s; a step takes 4 s if all of it is prefetched, 6.24 s if none."),
    ],
)
@pytest.mark.parametrize("library", ["deepspeed", "fully_shard"])
def test_a_sharded_model_gathers_twice_and_scatters_once_in_a_step(
    step: float | None, sentence: str, library: str
) -> None:
    ideal = replace(UNCALIBRATED, alpha_seconds=0.0, ring_cpu_seconds_per_gb=0.0)
    situation = replace(SITUATION, refused="train.py shards", sharded=library, rule=3)
    made = sharded_communication(situation, K, step, ideal)
    assert [asdict(each) for each in made.collectives] == [
        {
            "name": name,
            "reducers": 0,
            "reducer_machine": None,
            "seconds": pytest.approx(RING / 2),
            "worker_bytes": 0.875 * K,
            "bottleneck": "workers' network",
        }
        for name in ("all-gather, forward", "all-gather, backward", "reduce-scatter")
    ]
    total = 1.5 * RING
    ends = (None, None) if step is None else (max(step, total), step + total)
    assert (made.low, made.high) == (ends if step is None else pytest.approx(ends))
    assert made.sentence == (
        f"Use no reducers: train.py shards. Communication of a step: {sentence}"
    )
    assert made.assumptions[1:] == (
        ["stages 1 and 2 of ZeRO gather once: 1.49 s"] if library == "deepspeed" else []
    )
    assert (made.target, made.workers, made.gradient_bytes) == ("vertex", 8, K)
    assert (made.sharded, made.saturating, made.documented) == (library, None, None)
