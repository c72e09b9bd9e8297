"""Runs the commands that README and the first pages show, with no more than they install."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from .pages import DOCS, TOP, check_page

PAGES = [TOP / "README.md", DOCS / "index.md", *sorted((DOCS / "start").glob("*.md"))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_page(
    page: Path, tmp_path: Path, programs: Path, readers_forks: dict[str, str]
) -> None:
    check_page(page, tmp_path, programs, **readers_forks)


def test_a_reader_has_what_the_pages_install_and_no_more(programs: Path) -> None:
    """What only the developers have would hide that a page needs it."""
    code = (
        "from importlib.util import find_spec as find\n"
        "names = ('torch', 'sklearn', 'boto3', 'typer', 'matplotlib', 'pytest', 'pandas')\n"
        "print(*(name for name in names if find(name)), find('google.cloud'))"
    )
    command = [programs / "python", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "torch sklearn boto3 typer None\n"


def test_the_pages_say_how_many_workers_the_quickstart_has() -> None:
    job = TOP / "examples" / "quickstart" / "job.yaml"
    count = yaml.safe_load(job.read_text())["workers"]["count"]
    said = {"two": 2, "three": 3, "four": 4, "eight": 8}
    many = rf"\b({'|'.join(said)})\b [a-z ]*(?:workers|processes|containers)\b"
    for page in (job, DOCS / "start" / "install.md", DOCS / "start" / "first-run.md"):
        assert {said[word] for word in re.findall(many, page.read_text())} <= {count}, page
