"""The built site, opened from its files by a browser that reaches no network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest

from rsctl.job.key_paths import job_keys
from tests.kit.browser import needs_browser
from tests.kit.live_browser import Tab, browser

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


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@needs_site
@needs_browser
def test_search_finds_pages(tab: Tab) -> None:
    """The pages are among the first three, by the address or by typing."""
    links = "[...document.querySelectorAll('a.md-search-result__link')].map(link => link.href)"

    def pages(shown: list[str]) -> set[str]:
        unique = dict.fromkeys(link.partition("?")[0] for link in shown)
        return {link.removeprefix(f"{SITE.as_uri()}/") for link in [*unique][:3]}

    for page in ("index.html", "guides/gate.html"):
        url = f"{(SITE / page).as_uri()}?q=stockouts"
        tab.open(url)
        tab.until(f"location.href === {json.dumps(url)} && {links}.length")
        assert "guides/rehearsals.html" in pages(tab.value(links))
    for words, expected in (
        ("shm", {"guides/data.html"}),
        ("hang", {"guides/hangs.html"}),
        ("resume", {"guides/resuming.html"}),
        ("timeout", {"reference/job.html", "guides/stopping.html"}),
        ("gate", {"guides/gate.html"}),
    ):
        tab.value(
            "(box => { box.value = " + json.dumps(words) + ";"
            " box.dispatchEvent(new Event('keyup', {bubbles: true})) })"
            "(document.querySelector('input[name=query]'))"
        )
        tab.until(f"{links}.some(link => link.includes('h={words}'))")
        assert expected <= pages(tab.value(links)), words


@needs_site
def test_each_key_of_the_job_file_has_an_anchor() -> None:
    ids = re.findall(r'\bid="?([^"\s>]+)', (SITE / "reference" / "job.html").read_text())
    assert [key for key, _ in job_keys() if ids.count(key) != 1] == []


@needs_site
@needs_browser
def test_the_copy_button_copies_commands_alone(tab: Tab) -> None:
    tab.open((SITE / "guides" / "placements.html").as_uri())
    buttons = "document.querySelectorAll('pre .md-code__button, pre .md-clipboard').length"
    tab.until(f"location.pathname.endsWith('/placements.html') && {buttons}")
    tab.value("document.execCommand = () => (window.copied = document.activeElement.value, true)")
    tab.value("[...document.querySelectorAll('[data-clipboard-target]')].at(-1).click()")
    copied = tab.until("window.copied")
    assert copied == (
        "rsctl submit job.yaml -t vertex --rehearse --rehearse-with process \\\n"
        "      --set 'targets.vertex.region=[us-central1,us-east1]' "
        "--behaviour 'stockouts_in=[\"us-central1\"]'\n"
        "rsctl list -v"
    )
