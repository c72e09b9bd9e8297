"""A step: what the backward pass hides, what waits for input, and what is named as bottleneck."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rsctl.estimate.advice.calibration import UNCALIBRATED
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.profile import MIB, GradientBucket, Profile, even_profile
from rsctl.estimate.advice.step import ExchangeSettings, finish_seconds, predict

IDEAL = replace(
    UNCALIBRATED,
    alpha_seconds=0.0,
    worker_cpu_seconds_per_gb=0.0,
    reducer_cpu_seconds_per_gb=0.0,
    ring_cpu_seconds_per_gb=0.0,
)
SLOW = ModelledCluster(workers=4, worker_bits=200e6, reducers=4, reducer_bits=200e6)
FAST = replace(SLOW, worker_bits=100e9, reducer_bits=100e9)


def test_buckets_are_reduced_one_after_another_from_when_they_are_ready() -> None:
    buckets = [GradientBucket(10, 0.1), GradientBucket(20, 0.2), GradientBucket(5, 0.9)]
    # 0.1 + 0.2; then 0.3 + 0.4, for it was ready at 0.2; then 0.9 + 0.1, idle in between
    assert finish_seconds(buckets, lambda size: size * 0.02) == pytest.approx(1.0)


def test_the_next_bucket_does_not_wait_for_the_latency_of_the_one_before() -> None:
    buckets = [GradientBucket(10, 0.1), GradientBucket(20, 0.2), GradientBucket(5, 0.9)]
    # 0.1 + 0.2, then 0.3 + 0.4; ready at 0.9 with 0.1, and 0.05 more for what is still under way
    finish = finish_seconds(buckets, lambda size: size * 0.02 + 0.05, lambda _: 0.05)
    assert finish == pytest.approx(1.05)


def test_a_fast_network_hides_behind_the_backward_pass_but_for_the_last_bucket() -> None:
    profile = even_profile(100 * MIB, 0.3)
    step = predict(profile, FAST, "ring", IDEAL)
    assert step.exposed_seconds < step.exchange_seconds / 3
    assert step.bottleneck == "computation"
    assert step.efficiency == pytest.approx(0.3 / step.step_seconds)


def test_a_slow_network_is_named_and_reducers_help_as_the_transport_says() -> None:
    profile = even_profile(25_000_000, 0.05)
    ring, pool = (predict(profile, SLOW, name, IDEAL) for name in ("ring", "pool"))
    assert ring.bottleneck == pool.bottleneck == "workers' network"
    assert ring.exchange_seconds / pool.exchange_seconds == pytest.approx(1.5, rel=0.02)
    assert pool.topology == "pool"
    assert predict(profile, replace(SLOW, reducers=1), "pool", IDEAL).topology == "hybrid"


def test_without_overlap_all_communication_is_waited_for() -> None:
    profile = even_profile(25_000_000, 1.0)
    step = predict(profile, SLOW, "ring", replace(IDEAL, overlap=0.0))
    assert step.exposed_seconds == pytest.approx(step.exchange_seconds)
    assert step.step_seconds == pytest.approx(1.0 + step.exchange_seconds)


def test_half_the_bytes_take_half_the_time() -> None:
    profile = even_profile(25_000_000, 0.05)
    whole, half = (
        predict(profile, SLOW, "ring", IDEAL, ExchangeSettings(bucket_mb=64, sent_part=part))
        for part in (1.0, 0.5)
    )
    assert half.exchange_seconds == pytest.approx(whole.exchange_seconds / 2)


def test_communication_that_a_loader_needs_anyway_costs_nothing() -> None:
    profile = even_profile(1_000_000, step_seconds=1.0, data_seconds=0.6)
    step = predict(profile, SLOW, "ring", IDEAL)
    assert step.exposed_seconds > 0
    assert (step.step_seconds, step.bottleneck) == (1.0, "input data")


def test_a_loader_in_the_training_process_comes_on_top() -> None:
    profile = replace(even_profile(1_000_000, 1.0, data_seconds=0.6), data_overlaps=False)
    step = predict(profile, SLOW, "ring", IDEAL)
    assert step.step_seconds == pytest.approx(1.0 + step.exposed_seconds)


def test_cores_that_all_nodes_share_can_be_the_bottleneck() -> None:
    here = ModelledCluster(workers=4, worker_bits=None, reducers=4, shared_cores=2)
    profile = even_profile(25_000_000, 0.01)
    ring, pool = (predict(profile, here, name, UNCALIBRATED) for name in ("ring", "pool"))
    assert ring.bottleneck == pool.bottleneck == "shared cores"
    one = 25e6 / 1e9 * UNCALIBRATED.ring_cpu_seconds_per_gb
    assert ring.parts["shared cores"] == pytest.approx(4 * one / 2, rel=0.05)


def test_without_gradients_there_is_nothing_to_wait_for() -> None:
    nothing = Profile(gradient_bytes=0, step_seconds=0.5, buckets=())
    step = predict(nothing, SLOW, "ring", UNCALIBRATED)
    assert (step.topology, step.step_seconds, step.exchange_seconds) == ("none", 0.5, 0.0)
    assert (step.bottleneck, step.efficiency, step.exposed_seconds) == ("computation", 1.0, 0.0)


def test_large_buckets_send_less_often() -> None:
    profile = even_profile(100 * MIB, 0.01)
    slow_to_start = replace(IDEAL, alpha_seconds=0.05)
    small, large = (
        predict(profile, SLOW, "ring", slow_to_start, ExchangeSettings(bucket_mb=size))
        for size in (10, 100)
    )
    assert small.parts["latency"] == pytest.approx(10 * large.parts["latency"])


def test_the_size_of_buckets_is_the_specs_then_the_scripts_then_the_default() -> None:
    script = replace(even_profile(40 * MIB, 0.1), bucket_mb=20.0)
    kinds = {
        "spec": predict(script, SLOW, "pool", IDEAL, ExchangeSettings(bucket_mb=40)),
        "script": predict(script, SLOW, "pool", IDEAL),
        "default": predict(replace(script, bucket_mb=None), SLOW, "pool", IDEAL),
    }
    times = {name: one.step_seconds for name, one in kinds.items()}
    assert times["script"] < times["spec"] == times["default"]
