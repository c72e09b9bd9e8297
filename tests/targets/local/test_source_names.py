"""Files of the source that have the names of modules: rsctl's own programs never import them."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

import rsctl_start
from tests.kit.docker import needs_docker

from ..conftest import Rsctl, rehearsed

ROOT = Path(rsctl_start.__file__).parent
TOLERATED = {"hmac", "secrets", "statistics"}
"""Modules of the standard library that `import torch` does not need."""
OWN = "import sys\nname = 'the own one'\n"
SCRIPT = "import {name}\nprint('imported', {name}.name, flush=True)\n"


@functools.cache
def imported_modules() -> frozenset[str]:
    """The modules of the standard library that rsctl's files on a node import."""
    found = set()
    files = [ROOT / "rsctl_start.py", *(ROOT / "rsctl" / "node").rglob("*.py")]
    for file in [*files, *(ROOT / "rsctl" / "transport").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return sys.stdlib_module_names & found - {*sys.builtin_module_names}


def write_source(folder: Path, names: Set[str], script: str) -> Path:
    """A source folder with a file for each of these modules, which raise when they are imported."""
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the source')\n")
    (folder / "rsctl").mkdir()
    (folder / "rsctl" / "__init__.py").write_text("raise RuntimeError('rsctl of the source')\n")
    (folder / "train.py").write_text(script)
    return folder


@pytest.mark.parametrize("search_path", ["none", "source"])
@pytest.mark.parametrize("run", ["once", "none", "module"])
def test_a_file_for_every_module(rsctl: Rsctl, tmp_path: Path, run: str, search_path: str) -> None:
    names = imported_modules()
    assert {"argparse", "random", "secrets", "selectors", "typing"} <= names
    # A source on the path replaces what Python itself imports before it starts a program.
    names -= loaded_at_start() if search_path == "source" or run == "module" else set()
    source = write_source(tmp_path / "source", names, SCRIPT.format(name="secrets"))
    (source / "secrets.py").write_text(OWN)
    (source / "random.py").write_text(OWN)
    program = {"module": "train"} if run == "module" else {"script": "train.py"}
    if run == "none":
        program = {"command": [sys.executable, str(source / "train.py")]}
    env = {"PYTHONPATH": str(source)} if search_path == "source" else {}
    launcher = "none" if run == "none" else "once"
    job = rsctl.write_job(
        run={**program, "launcher": launcher, "env": env}, image={"source": str(source)}
    )
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "worker-0 | imported the own one" in done.stdout


def loaded_at_start() -> set[str]:
    """The modules that Python has loaded when it starts a script or, by `-m`, a module."""
    code = "import runpy, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(("-t", "compose"), marks=needs_docker),
        rehearsed("vertex"),
        rehearsed("sagemaker"),
    ],
    ids=lambda words: words[1],
)
def test_a_file_for_every_module_on_another_target(
    rsctl: Rsctl, tmp_path: Path, target: tuple[str, ...]
) -> None:
    source = write_source(tmp_path / "source", imported_modules(), SCRIPT.format(name="secrets"))
    (source / "secrets.py").write_text(OWN)
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"base": "rsctl-test-base:1", "source": str(source)},
        targets={
            "vertex": {"project": "rehearsal", "region": "us-central1"},
            "sagemaker": {"region": "us-east-1"},
        },
    )
    done = rsctl("submit", job, *target)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "imported the own one" in done.stdout


def test_torchrun_with_the_names_that_torch_tolerates(rsctl: Rsctl, tmp_path: Path) -> None:
    """The script's process imports torch, which needs other modules, as with plain torchrun."""
    script = (
        "import secrets\nimport torch.distributed as dist\nimport statistics\n"
        "dist.init_process_group('gloo')\ndist.barrier()\n"
        "print('imported', secrets.name, statistics.name, flush=True)\n"
    )
    source = write_source(tmp_path / "source", TOLERATED, script)
    for name in ("secrets", "statistics"):
        (source / f"{name}.py").write_text("name = 'own'\n")
    done = rsctl(
        "submit",
        rsctl.write_job(
            run={
                "script": "train.py",
                "env": {"PYTHONPATH": str(source)},
            },
            image={"source": str(source)},
        ),
    )
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "worker-0 | imported own own" in done.stdout


def test_the_binding_with_the_names_that_torch_tolerates(rsctl: Rsctl, tmp_path: Path) -> None:
    script = (
        "import os, statistics\n"
        "os.environ['RANK'], os.environ['WORLD_SIZE'] = os.environ['NODE_RANK'], '2'\n"
        "import torch, torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "dist.init_process_group('gloo')\n"
        "model = DistributedDataParallel(torch.nn.Linear(2, 2))\n"
        "for _ in range(3):\n    model(torch.ones(1, 2)).sum().backward()\n"
        "print('imported', statistics.name, flush=True)\n"
    )
    source = write_source(tmp_path / "source", set(), script)
    # DistributedDataParallel imports numpy, which needs the other modules.
    (source / "statistics.py").write_text("name = 'own'\n")
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"source": str(source)},
        workers={"count": 2},
        reducers={"count": 1},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "worker-0  | imported own" in done.stdout


def test_a_script_and_the_binding_have_each_its_own_modules(tmp_path: Path) -> None:
    """Whichever of the two imports a module first, and where the script never imports it."""
    script = (
        "import secrets\nimport rsctl_start\nrsctl_start.autoload()\n"
        "import rsctl.transport.client, rsctl.transport.pytorch.step_times, hmac\n"
        "print(secrets.name, hmac.name, rsctl.transport.handshake.secrets.token_hex(1))\n"
    )
    source = write_source(tmp_path / "source", TOLERATED, script)
    for name in ("secrets", "hmac"):
        (source / f"{name}.py").write_text("name = 'own'\n")
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=source,
        env={**os.environ, "RSCTL_RUN": "job-1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("own own ")


def test_the_agent_imports_nothing_of_the_source(tmp_path: Path) -> None:
    """The launcher's own processes, with a file for every module in the working directory."""
    source = write_source(tmp_path / "source", imported_modules() | {"torch"}, "")
    environ = {**os.environ, "RSCTL_HOME": str(tmp_path / "home")}
    # The script's own process, where torch is too old to load the binding by itself.
    for module in sorted({*programs()} - {"rsctl.node.run_with_binding"}):
        done = subprocess.run(
            [*rsctl_start.command(module), "--help"],
            cwd=source,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "of the source" not in done.stdout + done.stderr, module


def programs() -> Iterator[str]:
    """The modules that rsctl starts by `rsctl_start.command`."""
    texts = (file.read_text() for file in (ROOT / "rsctl").rglob("*.py"))
    for text in texts:
        for node in ast.walk(ast.parse(text)) if "rsctl_start.command(" in text else ():
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "rsctl_start.command"
                and isinstance(node.args[0], ast.Constant)
            ):
                yield node.args[0].value


def test_no_program_is_started_by_another_way() -> None:
    for file in (ROOT / "rsctl").rglob("*.*"):
        if file.suffix in (".py", ".sh"):
            text = file.read_text()
            assert '"-m", "rsctl' not in text, file
            assert "-m rsctl.node" not in text, file
