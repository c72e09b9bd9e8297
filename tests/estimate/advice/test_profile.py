"""Profiles: DDP's buckets, and when they are ready."""

from __future__ import annotations

import pytest

from rsctl.estimate.advice.profile import (
    MIB,
    GradientBucket,
    even_profile,
    profile_of_model,
    regroup,
)
from rsctl.job.job import Model


def test_model_of_the_spec_is_bytes_and_an_even_backward_pass() -> None:
    profile = profile_of_model(Model(parameters=8 * MIB, dtype="bf16", step_seconds=0.3))
    assert profile.gradient_bytes == sum(bucket.bytes for bucket in profile.buckets) == 16 * MIB
    assert profile.buckets[0].ready_seconds == pytest.approx(0.1 + 0.2 / 16)
    assert profile.backward_end_seconds == pytest.approx(0.3)
    assert profile.source == "spec"


def test_model_without_its_facts_is_refused() -> None:
    with pytest.raises(ValueError, match="step_seconds"):
        profile_of_model(Model(parameters=1000))


def test_waiting_for_data_comes_before_the_computation() -> None:
    profile = even_profile(2 * MIB, step_seconds=1.0, data_seconds=0.4)
    assert [b.ready_seconds for b in profile.buckets] == pytest.approx([0.8, 1.0])


def test_buckets_are_closed_by_the_gradient_that_reaches_their_limit() -> None:
    pieces = [
        GradientBucket(MIB, 0.1),
        GradientBucket(20 * MIB, 0.2),
        GradientBucket(9 * MIB, 0.3),
        GradientBucket(MIB, 0.4),
    ]
    assert regroup(pieces, None) == (
        GradientBucket(MIB, 0.1),
        GradientBucket(29 * MIB, 0.3),
        GradientBucket(MIB, 0.4),
    )
    assert regroup(pieces, 64) == (GradientBucket(31 * MIB, 0.4),)
    assert regroup(pieces, 64, scale=0.5) == (GradientBucket(31 * MIB // 2, 0.4),)


def test_no_gradients_are_no_buckets() -> None:
    assert regroup([], None) == ()
