"""What rsctl reads of its catalogue is what people have edited."""

from __future__ import annotations

from rsctl.estimate.catalog import COMPILED
from rsctl.estimate.catalog.compile import compiled


def test_the_json_is_that_of_the_yaml_files() -> None:
    """If this fails: `make schema`."""
    assert COMPILED.read_bytes() == compiled()
