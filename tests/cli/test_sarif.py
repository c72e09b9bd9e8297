"""`rsctl validate -o sarif`, by the schema of SARIF 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import Cli

SCHEMA = Path(__file__).parents[1] / "fixtures" / "real" / "sarif-schema-2.1.0.json"


def test_findings_stand_at_their_lines(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a job.yaml").write_text("name: job\nrun: {command: [true]}\nworker: {count: 2}\n")
    monkeypatch.chdir(tmp_path)
    done = rsctl("validate", "a job.yaml", "-o", "sarif")
    assert done.code == 2
    log = json.loads(done.out)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(log)
    [result] = [r for r in log["runs"][0]["results"] if r["ruleId"] == "unknown-key"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["level"], place["artifactLocation"]["uri"]) == ("error", "a%20job.yaml")
    assert place["region"] == {"startLine": 3, "startColumn": 1}
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert rules[result["ruleIndex"]]["id"] == "unknown-key"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_paths_are_relative_to_the_repository(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """GitHub takes a path from there, and resolves no link, by the sections "Specifying the root
    for source files" and "Resolving symlinks" of its page on SARIF; nor does it read base IDs. The
    `.git` of a worktree or submodule is a file.
    """
    jobs = tmp_path / "repository" / "teams" / "jobs"
    jobs.mkdir(parents=True)
    git = tmp_path / "repository" / ".git"
    git.mkdir() if kind == "folder" else git.write_text("gitdir: elsewhere\n")
    for name in ("teams/jobs/job.yaml", "other.yaml", "../outside.yaml"):
        (tmp_path / "repository" / name).write_text("worker: {count: 2}\n")
    (jobs / "link.yaml").symlink_to("../../other.yaml")
    monkeypatch.chdir(jobs.parent)  # `working-directory` of a workflow
    for path, uri in (
        ("jobs/job.yaml", "teams/jobs/job.yaml"),
        ("../other.yaml", "other.yaml"),
        ("jobs/link.yaml", "other.yaml"),
        ("../../outside.yaml", f"file://{tmp_path}/outside.yaml"),
    ):
        results = json.loads(rsctl("validate", path, "-o", "sarif").out)["runs"][0]["results"]
        places = [result["locations"][0]["physicalLocation"] for result in results]
        assert {place["artifactLocation"]["uri"] for place in places} == {uri}


def test_a_file_without_mistakes(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text('name: job\nrun: {command: ["true"]}\n')
    monkeypatch.chdir(tmp_path)
    done = rsctl("validate", "job.yaml", "-o", "sarif")
    log = json.loads(done.out)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(log)
    assert (done.code, log["runs"][0]["results"]) == (0, [])


def test_what_is_in_no_file_has_no_place(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text('name: job\nrun: {command: ["true"]}\n')
    monkeypatch.chdir(tmp_path)
    done = rsctl("validate", "job.yaml", "--set", "workers.count=no", "-o", "sarif")
    [result] = json.loads(done.out)["runs"][0]["results"]
    assert "locations" not in result
