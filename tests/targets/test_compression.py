"""Gradients of 8 bits in a plan: refused where nothing can add them, otherwise a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.plan import make_plan
from rsctl.targets import get
from rsctl.targets.compression import compression_findings
from tests.kit.rendering import RUN, findings_of, read_job

_JOB: dict[str, Any] = {
    "name": "j",
    "run": {"command": ["python", "-c", "pass"]},
    "workers": {"count": 2},
}


def _found(folder: Path, target: str, kind: str, **more: Any) -> list[tuple[str, str, str]]:
    job = {**_JOB, "comm": {"compression": kind}, **more}
    found = findings_of(folder, job, get(target))
    return [
        (f.severity, f.code, f.message) for f in found if f.path == "comm.compression" or f.is_error
    ]


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_eight_bits_need_reducers(tmp_path: Path, kind: str) -> None:
    message = f"compression {kind} needs reducers, and there are none"
    assert _found(tmp_path, "process", kind) == [("error", "comm", message)]


def test_eight_bits_with_reducers_change_the_results(tmp_path: Path) -> None:
    ((severity, code, message),) = _found(tmp_path, "process", "int8", reducers={"count": 1})
    assert (severity, code) == ("note", "lossy")
    assert message.startswith("int8 changes the results: 256 gradients travel as")


def test_reduction_server_cannot_add_eight_bits(tmp_path: Path) -> None:
    job = {**_JOB, "reducers": {"count": 1}, "comm": {"compression": "fp8"}}
    document = read_job(tmp_path, job)
    planned = make_plan(document, get("process"), RUN)
    (finding,) = compression_findings(planned.job, planned.plan.pools, "reduction-server")
    message = "Google's Reduction Server cannot add gradients of fp8"
    assert (finding.severity, finding.message) == ("error", message)


def test_sixteen_bits_need_nothing(tmp_path: Path) -> None:
    assert _found(tmp_path, "process", "bf16") == []
