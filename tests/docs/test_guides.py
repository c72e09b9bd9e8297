"""Runs the commands that guides and explanations show."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import all_pages, check_page, read_page
from .test_start import PAGES

GUIDES = [path for path in all_pages() if path not in PAGES and read_page(path).commands]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.stem)
def test_the_page(page: Path, tmp_path: Path, torch_forks: dict[str, str]) -> None:
    check_page(page, tmp_path, **torch_forks)
