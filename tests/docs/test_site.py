"""The built site, opened from its files by a browser that reaches no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rsctl.job.key_paths import job_keys
from tests.kit.browser import browse, needs_browser
from tests.kit.live_browser import browser

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
@pytest.mark.parametrize(
    ("page", "words", "found"),
    [
        ("index.html", "stockouts", "guides/rehearsals.html"),
        ("guides/gate.html", "stockouts", "guides/rehearsals.html"),
        ("index.html", "shm", "guides/data.html"),
        ("index.html", "hang", "guides/hangs.html"),
        ("index.html", "resume", "guides/resuming.html"),
        ("index.html", "timeout", "reference/job.html"),
        ("index.html", "timeout", "guides/stopping.html"),
        ("index.html", "gate", "guides/gate.html"),
    ],
)
def test_search_finds_pages(page: str, words: str, found: str, tmp_path: Path) -> None:
    """The page is among the first three."""
    options = ("--virtual-time-budget=20000", "--dump-dom")
    shown = browse(SITE / page, tmp_path, *options, query=f"?q={words}")
    links = re.findall(r'<a href="([^"?]*)[^"]*" class="md-search-result__link"', shown)
    assert (SITE / found).as_uri() in list(dict.fromkeys(links))[:3]


@needs_site
def test_each_key_of_the_job_file_has_an_anchor() -> None:
    ids = re.findall(r'\bid="?([^"\s>]+)', (SITE / "reference" / "job.html").read_text())
    assert [key for key, _ in job_keys() if ids.count(key) != 1] == []


@needs_site
@needs_browser
def test_the_copy_button_copies_commands_alone(tmp_path: Path) -> None:
    with browser(tmp_path) as tab:
        tab.open((SITE / "guides" / "placements.html").as_uri())
        tab.until("document.querySelectorAll('pre .md-code__button, pre .md-clipboard').length")
        tab.value(
            "document.execCommand = () => (window.copied = document.activeElement.value, true)"
        )
        tab.value("[...document.querySelectorAll('[data-clipboard-target]')].at(-1).click()")
        copied = tab.until("window.copied")
    assert copied == (
        "rsctl submit job.yaml -t vertex --rehearse --rehearse-with process \\\n"
        "      --set 'targets.vertex.region=[us-central1,us-east1]' "
        "--behaviour 'stockouts_in=[\"us-central1\"]'\n"
        "rsctl list -v"
    )
