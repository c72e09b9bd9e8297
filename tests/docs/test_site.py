"""The built site, opened from its files by a browser that reaches no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.kit.browser import browse, needs_browser

from .pages import TOP

SITE = TOP / "site"

needs_site = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not (SITE / "index.html").exists(),
    reason="needs the site: make docs",
)


@needs_site
def test_no_page_loads_anything_from_a_network() -> None:
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 40
    assert [(page.name, loads.findall(page.read_text())) for page in pages if
            loads.search(page.read_text())] == []  # fmt: skip


@needs_site
@needs_browser
@pytest.mark.parametrize("page", ["index.html", "guides/gate.html"])
def test_search_finds_pages(page: str, tmp_path: Path) -> None:
    options = ("--virtual-time-budget=20000", "--dump-dom")
    shown = browse(SITE / page, tmp_path, *options, query="?q=stockouts")
    results = re.findall(r'<a href="([^"?]*)[^"]*" class="md-search-result__link"', shown)
    assert (SITE / "guides" / "rehearsals.html").as_uri() in results
