"""Runs the commands that README and the first pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import DOCS, TOP, check_page

PAGES = [TOP / "README.md", DOCS / "index.md", *sorted((DOCS / "start").glob("*.md"))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_page(page: Path, tmp_path: Path) -> None:
    check_page(page, tmp_path)
