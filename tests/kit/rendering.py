"""Job files made of a base and changes, and what `rsctl plan -o json` shows of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rsctl.findings import Finding, RsctlError
from rsctl.job.document import Document, read
from rsctl.plan import make_plan
from rsctl.targets.base import Target

RUN = "job-7f3k2a"
"""The id of the run that is planned."""


def merged(value: Any, changes: Any) -> Any:
    """Mappings are merged, a None removes, all else replaces."""
    if not isinstance(value, dict) or not isinstance(changes, dict):
        return changes
    both = {**value, **{k: merged(value.get(k), v) for k, v in changes.items()}}
    return {key: item for key, item in both.items() if item is not None}


def read_job(folder: Path, job: dict[str, Any]) -> Document:
    """The document of a job, written into a folder; its environment has a secret TOKEN."""
    (folder / "job.yaml").write_text(yaml.dump(job, Dumper=yaml.CSafeDumper, sort_keys=False))
    return read(str(folder / "job.yaml"), (), {"TOKEN": "s3cret"})


def plan_of(folder: Path, job: dict[str, Any], target: Target) -> dict[str, Any]:
    """The plan of a job, as `-o json` prints it."""
    plan = make_plan(read_job(folder, job), target, RUN).plan
    shown: dict[str, Any] = msgspec.to_builtins(plan)
    return shown


def findings_of(folder: Path, job: dict[str, Any], target: Target) -> list[Finding]:
    """All findings of a job, whether it can be planned or not, whose codes are documented."""
    document = read_job(folder, job)
    try:
        make_plan(document, target, RUN)
        found = document.findings
    except RsctlError as problem:
        found = list(problem.findings)
    assert {finding.code for finding in found} <= documented_codes()
    return found


@cache
def documented_codes() -> frozenset[str]:
    """The codes of findings that the reference explains."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text()
    return frozenset(re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE))
