"""SageMaker's data parallel library with a torch that is too old to load the binding by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import rsctl_start
from rsctl.node import binding, process_spec
from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError

ROOT = Path(__file__).parents[2]
ALONE = Cluster("worker", 0, ("algo-1",), (), None, 29500, platform="sagemaker")
SMDDP = {"RSCTL_COMM_BACKEND": "smddp"}
PYTHON = [sys.executable, "-u"]

SHOW = """
import json, sys, torch
json.dump([torch.bound, __name__, __file__, sys.argv, sys.path[0]], sys.stdout)
"""


@pytest.fixture
def old_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for Python's path with something like torch 2.4 and a binding for it."""
    files = {
        "torch/__init__.py": "bound = False\n",
        "torch-2.4.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n",
        "bound.py": "def load():\n    import torch\n    torch.bound = True\n",
        "rsctl-9.dist-info/METADATA": "Metadata-Version: 2.1\nName: rsctl\nVersion: 9\n",
        "rsctl-9.dist-info/entry_points.txt": "[torch.backends]\nrsctl = bound:load\nx = x:x\n",
    }
    site = tmp_path / "site"
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(str(site))
    return site


def command_of(command: list[str], **environ: str) -> list[str]:
    argv = process_spec.torchrun(ALONE, 1, command, environ).argv
    return argv[argv.index("--") + 1 :]


def test_only_smddp_is_wrapped(old_torch: Path) -> None:
    script = [*PYTHON, "train.py", "--lr", "1"]
    assert command_of(script) == script
    wrapped = [
        *PYTHON,
        rsctl_start.__file__,
        "rsctl.node.run_with_binding",
        "train.py",
        "--lr",
        "1",
    ]
    assert command_of(script, **SMDDP) == wrapped
    binding.require_autoload(SMDDP)
    with pytest.raises(LaunchError, match=r"which torch 2\.4\.1 does not have"):
        binding.require_autoload({"RSCTL_COMM_BUCKET_MB": "50"})


def test_a_command_that_is_no_script(old_torch: Path) -> None:
    with pytest.raises(LaunchError, match=r"smddp reaches only Python scripts with torch 2\.4\.1"):
        command_of(["sh", "-c", "train"], **SMDDP)


def test_with_a_newer_torch_it_is_torchs_own_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "_torch_version", lambda: "2.5.1+cu124")
    assert command_of([*PYTHON, "train.py"], **SMDDP) == [*PYTHON, "train.py"]


def run(site: Path, folder: Path, *command: str) -> Any:
    done = subprocess.run(
        [*PYTHON, rsctl_start.__file__, "rsctl.node.run_with_binding", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{site}:{ROOT}"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_script_finds_itself_as_ever(old_torch: Path, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SHOW)
    path = os.path.join("src", "train.py")
    assert run(old_torch, tmp_path, path, "-m", "x") == [
        True, "__main__", path, [path, "-m", "x"], str(tmp_path / "src")
    ]  # fmt: skip


def test_objects_of_a_script_end_as_in_a_python_of_its_own(old_torch: Path, tmp_path: Path) -> None:
    text = """
    import os
    class Log:
        def __del__(self, write=os.write):
            write(1, b"1")
    log = Log()
    log.itself = log
    """
    (tmp_path / "train.py").write_text(dedent(text))
    assert run(old_torch, tmp_path, "train.py") == 1
    show = "import gc; print(list(gc.get_threshold()))"
    (tmp_path / "train.py").write_text(show)
    alone = subprocess.run([sys.executable, "-c", show], stdout=subprocess.PIPE, check=True)
    assert run(old_torch, tmp_path, "train.py") == json.loads(alone.stdout)


def test_a_module_finds_itself_as_ever(old_torch: Path, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(SHOW)
    path = str(tmp_path / "package" / "train.py")
    assert run(old_torch, tmp_path, "-m", "package.train", "x") == [
        True, "__main__", path, [path, "x"], str(tmp_path)
    ]  # fmt: skip
