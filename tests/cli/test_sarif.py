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
