"""Machines that are asked for by name, region and accelerator."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl import api
from rsctl.findings import ExitCode, RsctlError

from .recorded import refused


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            {"sort": "speed"},
            "value",
            "'speed' is not one of price, spot, price-per-gbps, gbps, vcpus, memory -> use one of "
            "these",
        ),
        (
            {"region": "us-centrall1"},
            "region",
            "'us-centrall1' is not a known region of these clouds -> did you mean us-central1",
        ),
        (
            {"region": "mars"},
            "region",
            "'mars' is not a known region of these clouds -> see the cloud's documentation",
        ),
        (
            {"gpu": "v1"},
            "accelerator",
            "'v1' is not an accelerator in the catalogue of vertex or sagemaker -> did you mean "
            "v100",
        ),
        (
            {"gpu": "h10:8", "target": "vertex"},
            "accelerator",
            "'h10' is not an accelerator in the catalogue of vertex -> did you mean",
        ),
        (
            {"gpu": "xyz"},
            "accelerator",
            "'xyz' is not an accelerator in the catalogue of vertex or sagemaker -> name one of "
            "a100-40gb",
        ),
        (
            {"target": "process"},
            "target",
            "target process has no machines in the catalogue -> name vertex or sagemaker",
        ),
    ],
)
def test_machines_that_are_asked_for_by_a_wrong_name(options: Any, code: str, message: str) -> None:
    with pytest.raises(RsctlError) as caught:
        api.machines(**options)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.findings[0].code == code
    assert refused(caught.value).startswith(message)


def test_a_region_is_one_cloud_s() -> None:
    assert {offer.target for offer in api.machines(region="us-central1")} == {"vertex"}
    assert {offer.target for offer in api.machines(region="us-east-1")} == {"sagemaker"}
    assert {offer.target for offer in api.machines()} == {"vertex", "sagemaker"}
    assert {offer.target for offer in api.machines("vertex", gpu="v100:8")} == {"vertex"}
    assert api.price_tables("vertex").keys() == {"vertex"}
    assert api.price_tables().keys() == {"vertex", "sagemaker"}
