"""The examples of docs/guides/python.md, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Write

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "python.md"
RUNS, BENCHES = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


def output_of(example: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(example, str(DOCS), "exec"), {})
    return capsys.readouterr().out.splitlines()


def test_runs(write_job: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write_job()
    plan, *metrics, result = output_of(RUNS, capsys)
    assert plan == "2 [2]"
    assert sorted(metrics) == [
        *("worker-0 loss 0.25", "worker-0 loss 0.5", "worker-1 loss 0.25", "worker-1 loss 0.5"),
    ]
    assert result == "succeeded 0.25"


def test_benches_and_gates(write_job: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write_job("echo loss=0.5")
    *progress, summary, verdict = output_of(BENCHES, capsys)
    assert sorted(progress) == [f"{repetition} succeeded 0.5" for repetition in range(3)]
    assert summary == "{} [0.5, 0.5, 0.5]"
    assert verdict.endswith(" against baseline.json: no regression beyond the allowed limits")
