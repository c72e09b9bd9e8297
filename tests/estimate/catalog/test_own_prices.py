"""The user's own price tables, and every mistake in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.estimate.catalog.prices import Price, price_of
from rsctl.findings import ExitCode, RsctlError

HEAD = "vertex:\n  source: ours\n  as_of: 2026-11-01\n"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "rsctl-config" / "prices.yaml"
    path.parent.mkdir()
    return path


def test_ones_own_prices_come_first_and_changes_are_seen(own: Path) -> None:
    for dollars in (0.5, 0.25):
        own.write_text(f"{HEAD}  machines:\n    n1-standard-4: {{any: {{on_demand: {dollars}}}}}\n")
        found = price_of("vertex", "n1-standard-4", region="europe-west1")
        assert found == Price(
            dollars=dollars, spot=False, region="any", source="ours", as_of="2026-11-01"
        )
    own.unlink()
    found = price_of("vertex", "n1-standard-4", region="europe-west1")
    assert isinstance(found, Price)
    assert found.source != "ours"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1:1 it has no tables"]),
        ("- a\n", ["1:1 it has no tables"]),
        ("azure: {}\n", ["1:1 unknown key 'azure'"]),
        ("vertex: {as_of: 2026-11-01}\n", ["1:9 the key 'source' is missing in vertex"]),
        (HEAD.replace("2026-11-01", "last week"), ["3:10 'last week' is not a date"]),
        (
            HEAD + "  machines:\n    n1-standard-4: {any: {on_demand: -1}}\n",
            ["5:38 expected a number of at least 0, got the number -1"],
        ),
        (
            HEAD + "  machines:\n    n1-standard-4: {any: {ondemand: 1}}\n",
            ["5:27 unknown key 'ondemand' in vertex.machines.n1-standard-4.any"],
        ),
    ],
)
def test_every_mistake_has_its_place(own: Path, text: str, expected: list[str]) -> None:
    own.write_text(text)
    with pytest.raises(RsctlError) as caught:
        price_of("vertex", "n1-standard-4")
    found = [(f"{f.line}:{f.column}", f.message, f.file) for f in caught.value.findings]
    assert [f"{place} {message}" for place, message, _ in found] == expected
    assert {file for _, _, file in found} == {str(own)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("prices", None, "begin with vertex: or sagemaker:, see docs/guides/costs.md")),
        (
            HEAD.replace("2026-11-01", "today"),
            ("prices", "vertex.as_of", "write it in the form 2026-11-01"),
        ),
    ],
)
def test_a_table_that_is_wrong_as_a_whole_says_how_to_write_it(
    own: Path, text: str, expected: tuple[str, str | None, str]
) -> None:
    own.write_text(text)
    with pytest.raises(RsctlError) as caught:
        price_of("vertex", "n1-standard-4")
    assert [(f.code, f.path, f.remedy) for f in caught.value.findings] == [expected]
    assert caught.value.exit_code == ExitCode.USAGE


def test_fetched_prices_that_cannot_be_read(own: Path) -> None:
    (own.parent / "prices.refreshed.json").write_text("{")
    with pytest.raises(RsctlError, match="cannot read the fetched prices"):
        price_of("vertex", "n1-standard-4")
