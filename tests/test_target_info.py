"""What targets say of themselves agrees with what others know of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.estimate.catalog import read_file
from rsctl.findings import RsctlError
from rsctl.job.installed_targets import complete_job
from rsctl.job.types import fields_of
from rsctl.target_info import BUILT_IN, has_target, import_object, target_info, target_names
from rsctl.targets import get

ROOT = Path(__file__).parents[1]


def references(value: Any) -> Iterator[str]:
    """Every MODULE:NAME and MODULE:FILE of a target's data."""
    if isinstance(value, str):
        if re.fullmatch(r"[a-z_]+(\.\w+)+:[\w.]+", value):
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from references(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from references(each)


def test_ours_are_the_entry_points_of_the_distribution() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    section = text.partition('[project.entry-points."rsctl.targets"]\n')[2].partition("\n\n")[0]
    lines = [line.split(" = ") for line in section.splitlines()]
    assert {name: reference.strip('"') for name, reference in lines} == BUILT_IN


def test_all_targets_are_those_of_the_spec() -> None:
    job = fields_of(complete_job())
    assert job["target"].type.arguments == target_names()
    assert tuple(fields_of(job["targets"].type.kind)) == target_names()
    assert target_names()[: len(BUILT_IN)] == tuple(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_target_is_what_its_data_says(name: str) -> None:
    info = target_info(name)
    assert info.name == name
    assert get(name).info is info
    found = list(references(msgspec.to_builtins(info)))
    assert info.target in found
    for reference in found:
        if reference.endswith(".yaml"):
            assert read_file(reference, object)
        else:
            assert import_object(reference) is not None


def test_there_is_no_such_target() -> None:
    assert not has_target("slurmy")
    with pytest.raises(RsctlError) as caught:
        get("slurmy")
    [finding] = caught.value.findings
    assert "there is no target 'slurmy'; the targets are vertex, sagemaker" in finding.message
