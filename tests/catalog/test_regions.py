"""The regions that are known are those that the vendors' own packages know."""

from __future__ import annotations

import botocore.session
from google.cloud.aiplatform.constants import base

from rsctl.catalog.regions import regions


def test_the_regions_of_vertex_ai() -> None:
    assert set(regions().vertex) == base.SUPPORTED_REGIONS - {"global"}


def test_the_regions_of_sagemaker() -> None:
    session = botocore.session.get_session()
    known = [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("sagemaker", partition_name=partition)
    ]
    assert sorted(regions().sagemaker) == sorted(known)
