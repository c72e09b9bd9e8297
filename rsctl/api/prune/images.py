"""The images that rsctl built and that no kept run or bench uses."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

import msgspec

from rsctl.api.prune.items import PruneLimits
from rsctl.api.prune.uses import texts_of_run
from rsctl.bench.records import BenchRecord
from rsctl.images.built_images import BuiltImage
from rsctl.runs.store import RunRecord


def unused_images(
    images: list[BuiltImage],
    runs: Iterable[RunRecord],
    benches: Iterable[BenchRecord],
    limits: PruneLimits,
) -> list[BuiltImage]:
    """The images that are old enough and that none of these runs and benches names."""
    names = {name for run in runs for name in texts_of_run(run)}
    names |= {name for bench in benches for pair in bench.images.items() for name in pair}
    old = [image for image in images if limits.is_past(built_at(image))]
    return [image for image in old if not image.names & names]


def built_at(image: BuiltImage) -> str:
    """When it was built, as the time of an event: engines give more digits, or a time zone."""
    moment = msgspec.convert(image.created, datetime).astimezone(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
