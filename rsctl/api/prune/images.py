"""The images that rsctl built and that no kept run or bench uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

import msgspec

from rsctl.api.prune.items import PruneLimits
from rsctl.atomic_file import open_regular
from rsctl.bench.records import BenchRecord
from rsctl.images.built_images import BuiltImage
from rsctl.runs.home import run_directory
from rsctl.runs.store import RunRecord


def unused_images(
    images: list[BuiltImage],
    runs: Iterable[RunRecord],
    benches: Iterable[BenchRecord],
    limits: PruneLimits,
) -> list[BuiltImage]:
    """The images that are old enough and that none of these runs and benches names."""
    names = {name for run in runs for name in _names_of_run(run)}
    names |= {name for bench in benches for pair in bench.images.items() for name in pair}
    old = [image for image in images if limits.is_past(built_at(image))]
    return [image for image in old if not image.names & names]


def built_at(image: BuiltImage) -> str:
    """When it was built, as the time of an event: engines give more digits, or a time zone."""
    moment = msgspec.convert(image.created, datetime).astimezone(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _names_of_run(run: RunRecord) -> Iterator[str]:
    """All texts of its plan, its request and its rehearsal: one of them is the image's name."""
    yield from _texts(run.plan)
    for file in ("submission.json", "rehearsal.json"):
        try:
            with open_regular(run_directory(run.run) / file) as content:
                known = msgspec.json.decode(content.read())
            yield from _texts(known)
        except (OSError, msgspec.DecodeError):
            continue


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
