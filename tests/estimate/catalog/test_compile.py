"""What rsctl reads of its catalogue is what people have edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.estimate.catalog import COMPILED, read_file
from rsctl.estimate.catalog.compile import compiled


def test_the_json_is_that_of_the_yaml_files() -> None:
    """If this fails: `make schema`."""
    assert COMPILED.read_bytes() == compiled()


def test_a_file_of_another_package_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_cloud").mkdir()
    (tmp_path / "their_cloud" / "__init__.py").touch()
    (tmp_path / "their_cloud" / "data.yaml").write_bytes("region: [Zürich]\n".encode())
    monkeypatch.syspath_prepend(tmp_path)
    found = read_file("their_cloud:data.yaml", dict[str, list[str]])
    assert found == {"region": ["Zürich"]}
