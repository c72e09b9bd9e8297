"""README and the documentation: length, links and pictures, and how their commands are checked."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from rsctl.job.document import read
from rsctl.job.job import Job

from .pages import DOCS, TOP, all_pages, fits, read_page

NOT_RUN = 10
"""Console blocks that CI does not run. Each says why."""


def ids(path: Path) -> str:
    return str(path.relative_to(TOP))


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_a_page_is_short(page: Path) -> None:
    limit = 760 if page.name == "README.md" else 1200
    assert len(page.read_text().split()) < limit


_BESIDE_THE_SITE = ("README.md", "AGENTS.md", "CONTRIBUTING.md", "SECURITY.md", "examples/**/*.md")


@pytest.mark.parametrize(
    "page", [path for name in _BESIDE_THE_SITE for path in sorted(TOP.glob(name))], ids=ids
)
def test_links_lead_somewhere(page: Path) -> None:
    """`mkdocs build --strict` checks the links of the site."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_one_that_can_be_read() -> None:
    pages = [read_page(path) for path in all_pages()]
    assert sum(bool(page.steps) for page in pages) > 15
    assert sum(len(page.not_run) for page in pages) <= NOT_RUN


def test_what_the_site_shows_has_no_other_source() -> None:
    """Nothing is loaded from a network when a page is read."""
    images = [
        (path.name, link)
        for path in DOCS.rglob("*.md")
        for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)|<(?:img|script)[^>]+src=", path.read_text())
        if not (path.parent / link).exists()
    ]
    assert images == []


@pytest.mark.parametrize("page", all_pages(), ids=ids)
def test_parts_of_job_files_are_valid(page: Path, tmp_path: Path) -> None:
    """Each ```yaml block of keys of the job file, with a name and a script where it has none."""
    (tmp_path / "train.py").touch()
    file = tmp_path / "job.yaml"
    for block in re.findall(r"```yaml[^\n]*\n(.*?)```", page.read_text(), re.DOTALL):
        keys = yaml.safe_load(block)
        if isinstance(keys, dict) and keys.keys() <= set(Job.__struct_fields__):
            needed = {"name": "x", "run": {"script": "train.py"}}
            rest = {key: value for key, value in needed.items() if key not in keys}
            file.write_text(f"{yaml.safe_dump(rest) if rest else ''}{dedent(block)}")
            found = [f for f in read(str(file)).findings if f.severity == "error"]
            assert [f for f in found if f.code not in ("file", "tracking")] == []


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a-7f3k2a on process, 4 replicas", "a-9zzz9z on process, 2 replicas\n", True),
        ("TIME  EXIT\n0:01  0", "TIME      EXIT\n1:15:02      0\n", True),
        ("  outputs: /home/me/runs/a-7f3k2a/outputs", "  outputs: /x/runs/a-aaaaaa/outputs", True),
        ("first\n...\nlast", "first\nlast\n", True),
        ("first\n...\nlast", "first\n2\n3\nlast\n", True),
        ("note: this ...\nend", "note: this and that\nend\n", True),
        ("first\n...", "second\n", False),
        ("first", "first\nsecond\n", False),
        ("first\nsecond", "first\n", False),
        ("it failed", "it succeeded\n", False),
        ("note: this ...", "note: that\n", False),
    ],
)
def test_outputs_are_compared(expected: str, printed: str, same: bool) -> None:
    assert fits(tuple(expected.split("\n")), printed) is same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\nrsctl list\n```\n", "begins with"),
        ("<!-- not run: no reason -->\n\ntext\n", "no console block follows"),
    ],
)
def test_marks_are_checked(tmp_path: Path, text: str, message: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_page(page)
