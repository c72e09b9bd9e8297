"""The example target passes the conformance suite, and a job runs on it where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from rsctl import target_info
from rsctl.targets.testing.conformance import TargetConformance

EXAMPLE = Path(__file__).parents[2] / "examples" / "target"


class TestSpool(TargetConformance):
    target_name = "spool"

    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(EXAMPLE))
        monkeypatch.setenv("PYTHONPATH", str(EXAMPLE), prepend=os.pathsep)
        entry = EntryPoint("spool", "spool_target.info:INFO", target_info.GROUP)
        monkeypatch.setattr(target_info, "_others", lambda: {"spool": entry})
        options = {"folder": str(tmp_path / "spool")}
        monkeypatch.setattr(type(self), "job_keys", {"targets": {"spool": options}})


def test_a_job_runs_on_it(tmp_path: Path) -> None:
    installed = tmp_path / "site"
    metadata = installed / "rsctl_spool_target-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    text = (EXAMPLE / "pyproject.toml").read_text()
    entry = text.partition('[project.entry-points."rsctl.targets"]\n')[2].partition("\n\n")[0]
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rsctl-spool-target\nVersion: 0.1.0\n"
    )
    (metadata / "entry_points.txt").write_text("[rsctl.targets]\n" + entry.replace('"', "") + "\n")
    (tmp_path / "job.yaml").write_text(
        "name: demo\n"
        "target: spool\n"
        "run: {script: train.py, launcher: once}\n"
        f"targets: {{spool: {{folder: '{tmp_path / 'spool'}'}}}}\n"
        "metrics: {loss: {regex: 'loss=([0-9.]+)'}}\n"
    )
    (tmp_path / "train.py").write_text(
        "import os, pathlib\n"
        "print('loss=0.5 rank', os.environ['NODE_RANK'], os.environ['RSCTL_TARGET'], flush=True)\n"
        "pathlib.Path(os.environ['RSCTL_OUTPUT_DIR'], 'model').write_text('weights')\n"
    )
    environ = {
        **os.environ,
        "RSCTL_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{installed}{os.pathsep}{EXAMPLE}",
    }

    def rsctl(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "rsctl", *arguments],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    result = rsctl("submit", "job.yaml", "-o", "json")[-1]
    assert result["state"] == "succeeded"
    assert result["metrics"]["loss"]["last"] == 0.5
    run = result["run"]
    lines = [event["text"] for event in rsctl("logs", run, "-o", "json") if "text" in event]
    assert lines.count("loss=0.5 rank 0 spool") == 1
    assert (tmp_path / "home" / "runs" / run / "outputs" / "model").read_text() == "weights"
