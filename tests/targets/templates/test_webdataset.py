"""Template webdataset: the same samples as small files and as shards, mounted and copied."""

from __future__ import annotations

import os
import runpy
import sys

import pytest

from ..conftest import Rsctl
from .test_all import OPTIONS

PACKAGES = os.environ.get("WEBDATASET", "")
"""The folder of `.ci/webdataset`."""

SAMPLES = 12
CLOUDS = {
    "vertex": "inputs.train.uri.vertex=gs://bucket/train-{000..007}.tar",
    "sagemaker": "inputs.train.uri.sagemaker=s3://bucket/train-{000..007}.tar",
}


@pytest.fixture
def made(rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch) -> Rsctl:
    """The template with few samples."""
    assert rsctl("init", "webdataset", "mine").exit_code == 0
    words = ["make_data.py", "--samples", str(SAMPLES), "--sample-bytes", "100"]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(rsctl.folder / "mine/make_data.py"), run_name="__main__")
    return rsctl


@pytest.mark.parametrize("target", OPTIONS)
def test_it_is_planned_for_every_target(made: Rsctl, target: str) -> None:
    own = ("--set", CLOUDS[target]) if target in CLOUDS else ()
    done = made.look("plan", "mine/job.yaml", "-t", target, *OPTIONS[target], *own)
    assert done.exit_code == 0, done.stderr
    assert "train: mount" in done.stdout
    assert ", 8 shards" in done.stdout


def test_it_reads_small_files_mounted_and_copied(made: Rsctl) -> None:
    files = ("--set", "matrix.inputs.train.uri.local=[./data/files]")
    done = made("bench", "run", "mine/job.yaml", "-o", "json", *files)
    assert done.exit_code == 0, done.stderr
    cells = done.result["cells"]
    assert [cell["values"]["inputs.train.mode"] for cell in cells] == ["mount", "copy"]
    for cell in cells:
        assert cell["metrics"]["samples_per_second"]["values"][0] > 0


@pytest.mark.skipif(
    not PACKAGES and os.environ.get("CI") != "true", reason="WEBDATASET: see .ci/webdataset"
)
def test_webdataset_reads_each_sample_of_the_shards_once(
    made: Rsctl, torch_forks: dict[str, str]
) -> None:
    shards = '["./data/shards/train-{000..007}.tar"]'
    done = made(
        *(
            "bench",
            "run",
            "mine/job.yaml",
            "-o",
            "json",
            "--set",
            "matrix.inputs.train.mode=[copy]",
        ),
        *("--set", f"matrix.inputs.train.uri.local={shards}", "--set", "run.args.epochs=2"),
        *("--set", f"run.env.PYTHONPATH={torch_forks['PYTHONPATH']}{os.pathsep}{PACKAGES}"),
        *("--set", f"run.env.TORCH_FORKS={torch_forks['TORCH_FORKS']}"),
    )
    assert done.exit_code == 0, done.stderr
    read = [e for e in done.events if e["type"] == "metric" and e["name"] == "samples"]
    assert {e["step"] for e in read} == {1, 2}
    assert [sum(e["value"] for e in read if e["step"] == step) for step in (1, 2)] == [SAMPLES] * 2
