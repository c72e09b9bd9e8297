"""The frame of every page: its head, its navigation, and the places of what changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from rsctl import __version__
from rsctl.findings import Finding
from rsctl.results.report.html import Child, Markup, element, join, plain

_NAVIGATION = (("/", "Runs"), ("/benches", "Benches"))


def page(
    title: str, *children: Child, here: str = "", stream: str | None = None, **more: str
) -> str:
    """A whole document. `stream` is the address of the events that update it."""
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", plain(f"{title} · rsctl", 120)),
            Markup('<link rel="stylesheet" href="/assets/style.css">'),
            Markup('<link rel="icon" href="/assets/icon.svg">'),
            Markup('<script src="/assets/plot.js" defer></script>'),
            Markup('<script src="/assets/app.js" defer></script>'),
        ]
    )
    links = [
        element("a", text, href=address, aria_current="page" if address == here else None)
        for address, text in _NAVIGATION
    ]
    bar = element(
        "header",
        element("a", "rsctl", class_="brand", href="/"),
        element("nav", *links, aria_label="Pages"),
        element("span", "connecting …", class_="live", id="live", role="status"),
        class_="bar",
    )
    body = element(
        "body",
        bar,
        element("main", *children),
        element("footer", element("p", f"rsctl {__version__}", class_="faint")),
        data_stream=stream,
        **{f"data_{name}": value for name, value in more.items()},
    )
    return f"<!doctype html>\n{element('html', element('head', head), body, lang='en')}\n"


def part(name: str, *children: Child) -> Markup:
    """A place whose content the stream replaces."""
    return element("div", *children, id=f"part-{name}")


def address(path: str, parameters: Mapping[str, str | list[str]]) -> str:
    """A path with those parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def button(text: str, **attributes: str | None) -> Markup:
    """A button that the page's script handles."""
    return element("button", text, type="button", **attributes)


def finding_texts(findings: Iterable[Finding]) -> list[str]:
    """Each finding as one text, with its remedy."""
    return [f"{f.message}{f' → {f.remedy}' if f.remedy else ''}" for f in findings]
