"""The samples of the conformance suite cover the job file, so that no new key escapes rule one."""

from __future__ import annotations

from rsctl.job.job import Job
from rsctl.job.types import SpecType, key_paths
from rsctl.targets.testing.spec_keys import OF_RSCTL, SAMPLES

_LOCATIONS = "inputs.NAME.uri.local"
"""One location of several, by target: `inputs.NAME.uri` has the sample."""


def test_every_key_has_a_sample_or_is_of_rsctl() -> None:
    sampled = {sample.key.replace(".data", ".NAME") for sample in SAMPLES}
    keys = {key for key in key_paths(SpecType(Job)) if key.partition(".")[0] not in OF_RSCTL}
    blocks = {key for key in keys if any(other.startswith(f"{key}.") for other in keys)}
    assert keys - blocks - sampled == {_LOCATIONS}


def test_no_sample_is_of_a_key_that_does_not_exist() -> None:
    keys = set(key_paths(SpecType(Job)))
    sampled = {sample.key.replace(".data", ".NAME") for sample in SAMPLES}
    assert sampled - keys == set()
