"""The regions that are known are those that the vendors' own packages know."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import botocore.session
import pytest

from rsctl.estimate.catalog import load
from rsctl.estimate.catalog.regions import unknown_region


def test_the_regions_of_vertex_ai() -> None:
    # From the file: importing google.cloud.aiplatform takes 2 s of processor.
    package = find_spec("google.cloud.aiplatform")
    assert package is not None
    assert package.origin is not None
    constants = (Path(package.origin).parent / "constants" / "base.py").read_text()
    known = re.search(r"SUPPORTED_REGIONS = frozenset\((.*?)\)", constants, re.DOTALL)
    assert known is not None
    assert set(load("vertex").regions) == ast.literal_eval(known[1].strip()) - {"global"}


def test_the_regions_of_sagemaker() -> None:
    session = botocore.session.get_session()
    known = [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("sagemaker", partition_name=partition)
    ]
    assert sorted(load("sagemaker").regions) == sorted(known)


@pytest.mark.parametrize(
    ("region", "remedy"),
    [
        ("us-centrall1", "did you mean us-central1?"),
        ("europe-wst4", "did you mean europe-west4 or europe-west9?"),
        ("moon-north1", "check its spelling"),
    ],
)
def test_a_region_that_nobody_knows(region: str, remedy: str) -> None:
    found = unknown_region("vertex", region)
    assert found is not None
    assert (found.severity, found.path) == ("warning", "targets.vertex.region")
    assert found.remedy == remedy


def test_a_known_region_has_no_finding() -> None:
    assert unknown_region("vertex", "us-central1") is None
