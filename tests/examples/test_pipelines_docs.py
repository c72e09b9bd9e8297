"""Every command of rsctl in the pipelines and in their page is one that rsctl has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rsctl.cli.app import run

from .pipelines import ALL, FOLDER, TOP

GUIDES = TOP / "docs" / "guides"
PAGES = (GUIDES / "pipelines.md", GUIDES / "pipeline-identities.md")
_COMMAND = re.compile(
    r"(?:^|[\s`/'\"])rsctl(?:\")? ((?:bench |gate )?[a-z]+(?:[^`|\n#;]|\|(?!\|))*)"
)


def commands() -> list[str]:
    texts = [script for pipeline in ALL for script in (*pipeline.scripts, *pipeline.afterwards)]
    pages = "\n".join(page.read_text() for page in PAGES)
    texts += [line[2:] for line in pages.splitlines() if line.startswith("$ rsctl ")]
    texts += re.findall(r"`(rsctl [^`]+)`", re.sub(r"\s+", " ", pages))
    texts += re.findall(r"(?m)^#\s+(rsctl .*?)(?:  .*)?$", (FOLDER / "bench/job.yaml").read_text())
    return [f"rsctl {found}" for text in texts for found in _COMMAND.findall(text)]


def test_commands_are_found() -> None:
    found = {" ".join(command.split()[:2]) for command in commands()}
    assert {"rsctl gate", "rsctl bench", "rsctl prune", "rsctl doctor"} <= found


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_its_options_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command.replace("…", "").replace('"${arguments[@]}"', ""))[1:]
    words = words[: words.index("||")] if "||" in words else words
    depth = 2 if words[0] == "bench" or words[:2] == ["gate", "calibrate"] else 1
    assert run([*words[:depth], "--help"]) == 0
    shown = capsys.readouterr().out
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown))
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert options <= known


@pytest.mark.parametrize("page", [*PAGES, FOLDER / "README.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
