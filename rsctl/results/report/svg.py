"""SVG of matplotlib as a part of an HTML page.

It is rebuilt from the elements and attributes that a drawing needs, without all others. Its colours
become CSS variables, so that they follow the page's.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from rsctl.results.report import palette
from rsctl.results.report.html import Markup, plain

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_TAGS = frozenset({"svg", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect"})
_ATTRIBUTES = frozenset(
    {"id", "d", "style", "transform", "x", "y", "width", "height", "clip-path", "viewBox", "class"}
)
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([\w-]+)\)")
_SAFE_STYLE = re.compile(r"[\w\s:;,.#%'()\"-]*")


def inline_svg(text: str, prefix: str, title: str) -> Markup:
    """The drawing as an element of an HTML page, with colours that follow the page's."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(text)  # noqa: S314 - written by matplotlib a moment ago
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", text))
    clean = _cleaned(root, used, prefix)
    for name in ("width", "height"):
        clean.attrib.pop(name, None)
    clean.set("role", "img")
    clean.set("aria-label", plain(title, 200))
    body = ElementTree.tostring(clean, encoding="unicode", short_empty_elements=True)
    return Markup(body.replace(f' xmlns="{_SVG}"', ""))


def _cleaned(node: ElementTree.Element, used: set[str], prefix: str) -> ElementTree.Element:
    tag = str(node.tag).removeprefix(f"{{{_SVG}}}")
    made = ElementTree.Element(tag)
    for name, value in node.attrib.items():
        kept = _attribute(name, value, used, prefix)
        if kept is not None:
            made.set("href" if name == _HREF else name, kept)
    if tag in ("text", "tspan"):
        made.text = node.text
    for child in node:
        child_tag = child.tag if isinstance(child.tag, str) else ""
        if child_tag.removeprefix(f"{{{_SVG}}}") in _TAGS and child_tag.startswith(f"{{{_SVG}}}"):
            made.append(_cleaned(child, used, prefix))
    return made


def _attribute(name: str, value: str, used: set[str], prefix: str) -> str | None:
    if name == _HREF:
        return f"#{prefix}{value[1:]}" if value.startswith("#") else None
    if name not in _ATTRIBUTES or (name == "id" and value not in used):
        return None
    if name == "id":
        return prefix + value
    if name == "style" and not _SAFE_STYLE.fullmatch(value):
        return None
    value = _REFERENCE.sub(lambda match: f"url(#{prefix}{match[1]})", value)
    if name == "style":
        return _COLOR.sub(_variable, value)
    return _NUMBER.sub(lambda match: f"{float(match[0]):.1f}", value)


def _variable(match: re.Match[str]) -> str:
    color = palette.ALL.get(match[0])
    return f"var(--{color.name})" if color else match[0]
