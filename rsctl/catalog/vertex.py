"""Vertex AI's limits, default quotas, multi-regions and images of reducers."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from rsctl.catalog import read_data

_REGION = re.compile(r"([a-z]+)-[a-z]+[0-9]{1,2}")


class FlexStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which GPUs can be had by flex start, and the longest running time in seconds."""

    gpus: list[str]
    longest: int


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`vertex_rules.yaml`; `default_quotas` are, by quota, numbers and the regions that have it."""

    multi_regions: dict[str, str]
    reduction_server: str
    bucket_mb: int
    flex_start: FlexStart
    default_timeout: int
    needs_reservation: list[str]
    most_env: int
    own_env: list[str]
    most_label: int
    disk_gb: tuple[int, int]
    default_quotas: dict[str, dict[int, list[str]]]

    def multi_region(self, region: str) -> str | None:
        """us, europe or asia, whichever is nearest; None for what is no region."""
        found = _REGION.fullmatch(region)
        return self.multi_regions.get(found[1]) if found else None

    def reducer_image(self, region: str) -> str:
        """Reduction Server's image for a region. Google's own agent pulls it; nobody else may."""
        return self.reduction_server.format(multi_region=self.multi_region(region))

    def default_quota(self, quota: str, region: str) -> int | None:
        """How many of something a project may use in a region by default; None if not known."""
        for number, regions in self.default_quotas.get(quota, {}).items():
            if region in regions:
                return number
        return None


@lru_cache
def rules() -> Rules:
    """What holds on Vertex AI."""
    return read_data("vertex_rules.yaml", Rules)
