"""Runs the commands that guides and explanations show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import fork_server

from .pages import DEVELOPERS, all_pages, check_page, read_page
from .test_start import PAGES

GUIDES = [path for path in all_pages() if path not in PAGES and read_page(path).commands]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.stem)
def test_the_page(
    page: Path, tmp_path: Path, command_server: Path, torch_forks: dict[str, str]
) -> None:
    (tmp_path / "bin").mkdir()
    fork_server.write_program(tmp_path / "bin" / "rsctl", command_server, "-m", "rsctl")
    check_page(page, tmp_path, f"{tmp_path / 'bin'}:{DEVELOPERS}", **torch_forks)
