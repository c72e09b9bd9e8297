"""Findings as SARIF 2.1.0, which code scanning shows beside the lines of a job file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rsctl import __version__
from rsctl.findings import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "note": "note"}


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """The log of one run of `rsctl validate`.

    Paths are relative to the top of the git repository, because code scanning takes them from there
    and ignores `uriBaseId`. Outside a repository they are relative to the working directory.
    """
    codes = list(dict.fromkeys(finding.code for finding in findings))
    driver = {
        "name": "rsctl",
        "version": __version__,
        "rules": [{"id": code, "name": _pascal(code)} for code in codes],
    }
    results = [_result(finding, codes.index(finding.code)) for finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    key = f"{finding.path}: " if finding.path else ""
    remedy = f"\n{finding.remedy}" if finding.remedy else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{key}{finding.message}{remedy}"},
    }
    location = _location(finding)
    return {**result, "locations": [location]} if location else result


def _location(finding: Finding) -> dict[str, Any] | None:
    """The location of a finding; a value from --set or standard input is in no file."""
    if not finding.file or finding.file == "-" or finding.file.startswith("--set "):
        return None
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line:
        location["region"] = {"startLine": finding.line, "startColumn": finding.column or 1}
    return {"physicalLocation": location}


def _uri(path: str) -> str:
    file = Path(os.path.realpath(path))  # code scanning does not follow links
    tops = [folder for folder in file.parents if os.path.lexists(folder / ".git")]
    for top in (*tops[:1], Path(os.path.realpath("."))):
        if file.is_relative_to(top):
            return quote(file.relative_to(top).as_posix())
    return file.as_uri()


def _pascal(code: str) -> str:
    return "".join(part.capitalize() for part in code.split("-"))
