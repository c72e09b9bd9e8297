"""The examples of the pages for developers: a first change, and the files of a target."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.estimate import catalog
from rsctl.estimate.catalog import price_tables
from rsctl.estimate.catalog.prices import Price, price_of
from rsctl.runs.stream import diagnosis
from rsctl.runs.stream.causes import CAUSES
from rsctl.runs.stream.failure_lines import failure_lines
from rsctl.runs.stream.service_causes import cause
from rsctl.target_info import CatalogInfo, TargetInfo

from .pages import DOCS, TOP, read_page


def test_the_first_change_is_still_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """rsctl does not know the error of the example, and knows it by the example's cause."""
    page = (TOP / "CONTRIBUTING.md").read_text().partition("## Your first change")[2]
    (line,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (table,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (described,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (chosen,) = re.findall(r'test_diagnosis.py -k "(.*?)"', page)
    example = json.loads(line)
    assert all(word in example["text"][:50] for word in chosen.split(" and "))
    assert yaml.safe_load(described).keys() == {example["code"]}

    def codes() -> list[str]:
        lines = example["text"].splitlines()
        return [each.code for each in diagnosis.known_causes(failure_lines(lines), 1, None)]

    assert codes() == ["exception"]
    scope: dict[str, Any] = {"cause": cause}
    exec(" ".join(table.split()), scope)
    added = [row for row in scope["CAUSES"] if row is not ...]
    monkeypatch.setattr(diagnosis, "CAUSES", (*added, *CAUSES))
    assert codes() == [example["code"]]


def test_the_machines_of_a_target_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue and the prices are read as docs/targets.md shows them."""
    package = tmp_path / "mycloud"
    package.mkdir()
    (package / "__init__.py").touch()
    for step in read_page(DOCS / "targets.md").steps:
        (package / step.file).write_text(step.text)
    monkeypatch.syspath_prepend(str(tmp_path))
    files = CatalogInfo("mycloud:machines.yaml", "mycloud:prices.yaml")
    info = TargetInfo(name="mycloud", title="mine", target="mycloud:TARGET", catalog=files)
    for module in (catalog, price_tables):
        monkeypatch.setattr(module, "target_info", lambda _: info)
    found = catalog.load("mycloud")
    assert [(m.name, m.vcpus, m.memory_gib) for m in found.machines.values()] == [
        ("small", 2, 8),
        ("large", 8, 32),
    ]
    assert found.machines[found.reducer].gbps == 10
    price = price_of("mycloud", "large", region="here")
    assert isinstance(price, Price)
    assert (price.dollars, price.as_of) == (0.4, "2026-11-01")
