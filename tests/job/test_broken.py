"""Every broken spec gives exactly the findings written next to it, all in one reading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rsctl.findings import Finding
from rsctl.job.job import Job
from rsctl.job.other_launchers import KEYS
from rsctl.job.types import SpecType, key_paths
from rsctl.job.yaml_errors import explain

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "findings.md"


def test_findings(broken: Any, read_text: Any) -> None:
    document = read_text(broken.text)
    assert len(document.findings) == len(broken.expected), _shown(document.findings)
    codes = DOCUMENTED.read_text()
    for expected, finding in zip(broken.expected, document.findings, strict=True):
        assert expected.describes(finding), (expected, _shown([finding]))
        assert finding.file == document.path
        assert finding.remedy or finding.code == "value"
        assert f"| `{finding.code}` |" in codes  # pipelines read them


def test_values_of_the_file_reach_the_terminal_escaped(read_text: Any) -> None:
    text = (
        'name: "\\e[2J"\nrun: {script: "\\e]0;x\\a", launcher: "\\u202Eone", env: {A: "\\0\\e"}}\n'
    )
    for finding in read_text(text).findings:
        assert "".join([finding.message, finding.remedy or "", finding.path or ""]).isprintable(), (
            finding
        )


def test_the_names_of_other_launchers_lead_to_keys_that_exist() -> None:
    assert {*KEYS.values()} <= {*key_paths(SpecType(Job))}


def test_an_error_without_a_place_is_one_of_the_file() -> None:
    caught = explain(yaml.YAMLError("odd"), "job.yaml", "a: b\n")
    assert _shown(caught.findings) == [
        "1:1 None | this is not valid YAML: odd | start with the file of `rsctl init`"
    ]


def test_a_limit_of_the_parser_is_ours() -> None:
    """PyYAML 6.0.4 has one too."""
    caught = explain(yaml.YAMLError("exceeded maximum nesting depth"), "job.yaml", "a: b\n")
    assert _shown(caught.findings) == [
        "1:1 None | nested more than 64 levels deep | flatten it",
    ]


def _shown(findings: Sequence[Finding]) -> list[str]:
    return [f"{f.line}:{f.column} {f.path} | {f.message} | {f.remedy}" for f in findings]
