"""Finds the folders of runs, and the buckets of rehearsals, that kept runs and benches use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rsctl.atomic_file import UNREADABLE, open_regular
from rsctl.runs.forget import RESULTS
from rsctl.runs.home import home, run_directory
from rsctl.runs.records import RunRecord

_NAME = r"[^/\s,;:'\"]+"
_BUCKET = re.compile(rf"(?:gs|s3)://{_NAME}")


def used_runs(value: Any, is_everything: bool) -> set[str]:
    """The runs into whose folders a plan or spec points, in any of its texts.

    Unless `is_everything` goes with a run, its outputs and checkpoints stay anyway: then these do
    not count.
    """
    bases = {str(path) for path in (home() / "runs", (home() / "runs").resolve())}
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, bases))})/+({_NAME})(?:/+({_NAME}))?")
    found = set()
    for text in _with_targets_of_links(texts(value)):
        for run, part in pattern.findall(text):
            if is_everything or part not in RESULTS:
                found.add(run)
    return found


def used_buckets(run: RunRecord) -> set[str]:
    """The buckets, such as `gs://NAME`, that a run's plan names."""
    return {bucket for text in texts(run.plan) for bucket in _BUCKET.findall(text)}


def texts_of_run(run: RunRecord) -> Iterator[str]:
    """All texts of its plan, its request and its rehearsal."""
    yield from texts(run.plan)
    for file in ("submission.json", "rehearsal.json"):
        try:
            with open_regular(run_directory(run.run) / file) as content:
                known = msgspec.json.decode(content.read())
            yield from texts(known)
        except UNREADABLE:
            continue


def texts(value: Any) -> Iterator[str]:
    """All texts in a value of mappings and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def _with_targets_of_links(found: Iterable[str]) -> Iterator[str]:
    """The texts, and where a path leads that goes through a link."""
    for text in found:
        yield text
        if text.startswith("/") and "\0" not in text and (real := os.path.realpath(text)) != text:
            yield real
