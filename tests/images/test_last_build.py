"""What has changed since the last build."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.images.last_build import ImageChange, changes_since_last_build, save_build
from rsctl.images.recipe import Recipe, make_recipe

from .conftest import ReadJob


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def recipe(job: ReadJob) -> Recipe:
    return make_recipe(job("base: base\n  python: requirements.txt"), "compose")


def test_a_first_build_has_nothing_to_compare_with(recipe: Recipe) -> None:
    assert changes_since_last_build(recipe) is None


def test_nothing_has_changed(recipe: Recipe) -> None:
    save_build(recipe)
    assert changes_since_last_build(recipe) == []


def test_a_build_succeeds_where_it_cannot_be_saved(recipe: Recipe, home: Path) -> None:
    home.touch()
    save_build(recipe)
    assert changes_since_last_build(recipe) is None


def test_what_has_changed(recipe: Recipe, job: ReadJob, tmp_path: Path) -> None:
    save_build(recipe)
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "new.py").touch()
    (tmp_path / "requirements.txt").unlink()
    changed = make_recipe(job("base: base\n  python: [scipy]"), "vertex")
    assert changes_since_last_build(changed) == [
        ImageChange("Dockerfile", "changed"),  # for another platform
        ImageChange("requirements/requirements.txt", "changed"),
        ImageChange("source/job.yaml", "changed"),
        ImageChange("source/new.py", "added"),
        ImageChange("source/requirements.txt", "removed"),
        ImageChange("source/train.py", "changed"),
    ]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_record_is_as_none(recipe: Recipe, home: Path, content: bytes) -> None:
    save_build(recipe)
    (home / "images" / "job.json").write_bytes(content)
    assert changes_since_last_build(recipe) is None
