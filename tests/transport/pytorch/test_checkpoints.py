"""The report of a checkpoint's seconds."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.transport.pytorch import checkpoints


@pytest.mark.parametrize(("rank", "reports"), [("0", 1), ("1", 0)])
def test_rank_0_reports_what_it_saves_to_a_path(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], rank: str, reports: int
) -> None:
    """Not what goes into an open file. The script's own call gets what it would without rsctl."""
    calls: list[tuple[Any, ...]] = []

    def save(obj: object, f: Any, *args: Any, **more: Any) -> str:
        calls.append((obj, f, args, more))
        return "saved"

    torch = SimpleNamespace(save=save, serialization=SimpleNamespace(save=save))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("RANK", rank)
    checkpoints.measure()
    file, path = io.BytesIO(), Path("a.pt")
    assert torch.save({}, path, 1, protocol=2) == "saved"
    assert torch.serialization.save({}, file) == "saved"
    assert calls == [({}, path, (1,), {"protocol": 2}), ({}, file, (), {})]
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(lines) == reports
    for line in lines:
        assert line["rsctl"] == "telemetry"
        assert 0 <= line["checkpoint"]["seconds"] < 10
