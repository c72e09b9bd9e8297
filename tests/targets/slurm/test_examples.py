"""The jobs of other launchers in examples/slurm: planned, and at most a third of their lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rsctl.api import load, plan

EXAMPLES = Path(__file__).parents[3] / "examples" / "slurm"
ROW = re.compile(r"\| \[(\w+\.yaml)\]\(\S+\) \| .* \| (\d+) \| (\d+) \|")
COUNTS = {m[1]: (int(m[2]), int(m[3])) for m in ROW.finditer((EXAMPLES / "README.md").read_text())}


def test_all_examples_are_listed() -> None:
    """With the lines of the original."""
    assert sorted(COUNTS) == sorted(path.name for path in EXAMPLES.glob("*.yaml"))


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_an_example_is_planned(name: str, tmp_path: Path) -> None:
    """Without errors, for the nodes that the original asks for."""
    shutil.copy(EXAMPLES / name, tmp_path)
    for script in ("src/train.py", "mingpt/main.py"):
        (tmp_path / script).parent.mkdir()
        (tmp_path / script).touch()
    made = plan(load(str(tmp_path / name)))
    lines = [line for line in (EXAMPLES / name).read_text().splitlines() if line.strip()]
    counted = [line for line in lines if not line.startswith("#")]
    original, here = COUNTS[name]
    assert len(counted) == here <= original / 3
    nodes = {"fsdp.yaml": (4, 32), "mingpt.yaml": (2, 2), "nemo.yaml": (8, 64)}[name]
    assert (made.pools[0].count, made.world_size) == nodes


def test_what_the_ported_jobs_ask_of_slurm(tmp_path: Path) -> None:
    """Options of the originals that rsctl derives from other keys."""
    wanted = {
        "fsdp.yaml": ["--exclusive", "--no-requeue", "--time=720", "--gpus-per-node=8"],
        "mingpt.yaml": ["--cpus-per-task=4", "--gpus-per-node=1"],
        "nemo.yaml": ["--account=a", "--partition=p", "--time=30", "--gpus-per-node=8"],
    }
    for script in ("src/train.py", "mingpt/main.py"):
        (tmp_path / script).parent.mkdir()
        (tmp_path / script).touch()
    for name, options in wanted.items():
        shutil.copy(EXAMPLES / name, tmp_path)
        script = plan(load(str(tmp_path / name))).request["script"]
        assert [f"#SBATCH {option}\n" in script for option in options] == [True] * len(options)
