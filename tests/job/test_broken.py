"""Every broken spec gives exactly the findings written next to it, all in one reading."""

from __future__ import annotations

from typing import Any

from rsctl.findings import Finding


def test_findings(broken: Any, read_text: Any) -> None:
    document = read_text(broken.text)
    assert len(document.findings) == len(broken.expected), _shown(document.findings)
    for expected, finding in zip(broken.expected, document.findings, strict=True):
        assert expected.describes(finding), (expected, _shown([finding]))
        assert finding.file == document.path
        assert finding.remedy or finding.code == "value"


def test_values_of_the_file_reach_the_terminal_escaped(read_text: Any) -> None:
    text = (
        'name: "\\e[2J"\nrun: {script: "\\e]0;x\\a", launcher: "\\u202Eone", env: {A: "\\0\\e"}}\n'
    )
    for finding in read_text(text).findings:
        assert "".join([finding.message, finding.remedy or "", finding.path or ""]).isprintable(), (
            finding
        )


def _shown(findings: list[Finding]) -> list[str]:
    return [f"{f.line}:{f.column} {f.path} | {f.message} | {f.remedy}" for f in findings]
