"""`rsctl-launch --check`: torch, the NCCL that it brings, and Python itself."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import interpreter, launch
from rsctl.node.check import elf

ROOT = Path(__file__).parents[3]
GO_TOGETHER = (
    "In image.python, use versions that are compatible with each other and with the base image, or "
    "use another base image."
)
FOR_CUDA = "A job on GPUs needs a torch build for CUDA."


def test_torch_is_imported(image: Any) -> None:
    image.torch(version="2.8.0+cpu")
    said = ["rsctl: transport none: NCCL has no network plugin; torch 2.8.0+cpu is imported"]
    assert image.check("none", "torchrun") == (0, [], said)


def test_no_torch(image: Any) -> None:
    assert image.check("none", "torchrun", python=("-S",)) == (
        3,
        [
            {
                "severity": "error",
                "code": "torch-missing",
                "message": f"the launcher torchrun needs torch, and {sys.executable} "
                "does not have it",
                "remedy": "Add torch to image.python, use an image.base that has it, or set "
                "run.launcher: once.",
            }
        ],
        [],
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "raise ImportError('libcudart.so.12: cannot open shared object file')",
            "ImportError: libcudart.so.12: cannot open shared object file",
        ),
        (
            "import os\nos.kill(os.getpid(), 4)",
            "was killed by signal 4 (Illegal instruction)",
        ),
        ("import sys\nsys.exit(0)", "ended with exit code 0"),
    ],
)
def test_a_torch_that_does_not_load(image: Any, body: str, reason: str) -> None:
    image.torch(body)
    checked = image.check("none", "torchrun")
    message = f"torch 2.8.0+cu128 cannot be imported: {reason}"
    broken = {"severity": "error", "code": "torch-broken"}
    assert checked == (3, [broken | {"message": message, "remedy": GO_TOGETHER}], [])


def test_a_torch_without_what_torchrun_needs(image: Any) -> None:
    (image.torch() / "distributed" / "run.py").unlink()
    (finding,) = image.check("none", "torchrun").findings
    assert finding["code"] == "torch-broken"
    assert finding["message"].endswith("No module named 'torch.distributed.run'")


def test_a_torch_for_cpus_brings_no_nccl(image: Any) -> None:
    image.torch(version="2.8.0+cpu")
    plugin = image.plugin(8, 10)
    lack = f"torch 2.8.0+cpu contains no NCCL, so the versions of {plugin} could not be compared"
    note = {"severity": "note", "code": "nccl-missing", "message": lack, "remedy": FOR_CUDA}
    said = [f"rsctl: transport efa: {plugin} has v8, v10 of ncclNetPlugin"]
    assert image.check() == (0, [note], said)


def test_an_nccl_that_is_part_of_torch(image: Any, nccl_strings: Callable[..., list[str]]) -> None:
    image.torch(version="1.13.1+cu117")
    texts = nccl_strings(4, 5, 6, nccl="2.14.3")
    image.library("libtorch_cuda.so", folder="site/torch/lib", texts=texts)
    image.library("libnccl.so.2", texts=nccl_strings(10, nccl="2.28.3"))
    plugin = image.plugin(6, 7)
    has = f"{plugin} has ncclNetPlugin_v6, NCCL 2.14.3 of torch 1.13.1+cu117 takes v4 to v6"
    assert image.check() == (0, [], [f"rsctl: transport efa: {has}"])


def test_an_nccl_on_the_loaders_path_comes_after_torchs_own(
    image: Any, nccl_strings: Callable[..., list[str]]
) -> None:
    image.cuda_torch(8, nccl="2.19.4")
    image.ldconfig(
        [image.library("libnccl.so.2", folder="sys", texts=nccl_strings(6, nccl="2.9.9"))]
    )
    image.plugin(8)
    assert "NCCL 2.19.4 of torch" in image.check().said[0]


def test_the_nccl_of_the_system(image: Any, nccl_strings: Callable[..., list[str]]) -> None:
    own = image.cuda_torch(8)
    own.unlink()
    image.library("libnccl.so.2", texts=nccl_strings(8, nccl="2.21.5"))
    image.plugin(8)
    assert "NCCL 2.21.5 of torch" in image.check().said[0]


def test_an_nccl_without_torch(image: Any, nccl_strings: Callable[..., list[str]]) -> None:
    nccl = image.library("libnccl.so.2", texts=nccl_strings(8, nccl="2.21.5"))
    plugin = image.plugin(8)
    has = f"{plugin} has ncclNetPlugin_v8, NCCL 2.21.5 of {nccl} takes v8"
    assert image.check(python=("-S",)).said == [f"rsctl: transport efa: {has}"]


def test_a_limit_that_is_no_number(image: Any) -> None:
    checked = image.check(RSCTL_CHECK_SECONDS="soon")
    assert (checked.code, [finding["code"] for finding in checked.findings]) == (
        2,
        ["environment-invalid"],
    )


def test_an_old_python_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 7, 12, "final", 0))
    assert launch.main(["--check"]) == 3
    assert json.loads(capfd.readouterr().out) == {
        "rsctl": "finding",
        "severity": "error",
        "code": "python-old",
        "message": f"{sys.executable} is Python 3.7.12, but rsctl's runtime needs 3.10",
        "remedy": "Use an image.base with Python 3.10 or newer.",
    }


def test_the_way_to_that_finding_parses_on_an_old_python() -> None:
    names = ["__init__", *(f"node/{name}" for name in ("__init__", "launch"))]
    names += [f"node/{name}" for name in ("errors", "interpreter", "structured_lines")]
    names += ["node/platforms/__init__", "node/platforms/slurm_probe"]
    for path in [*(ROOT / "rsctl" / f"{name}.py" for name in names), ROOT / "rsctl_start.py"]:
        ast.parse(path.read_text(), feature_version=(3, 7))


def test_what_is_imported_before_it_is_no_more_than_that() -> None:
    tree = ast.parse((ROOT / "rsctl" / "node" / "launch.py").read_text())
    modules = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "rsctl.node"
        for alias in node.names
    ]
    assert modules == [
        "__future__",
        "rsctl.node",
        *("rsctl.node.errors", "rsctl.node.structured_lines"),
    ]
    assert names == ["interpreter"]


def test_the_oldest_python_is_that_of_the_package() -> None:
    needed = ".".join(map(str, interpreter.OLDEST))
    assert f'requires-python = ">={needed}"' in (ROOT / "pyproject.toml").read_text()


def test_a_python_without_a_part_of_its_library(image: Any) -> None:
    (image.site / "sitecustomize.py").write_text("import sys; sys.modules['mmap'] = None")
    (finding,) = image.check().findings
    assert finding == {
        "severity": "error",
        "code": "python-incomplete",
        "message": f"{sys.executable} cannot import a module that rsctl's runtime needs: "
        "import of mmap halted; None in sys.modules",
        "remedy": "Use an image.base with the complete Python standard library, unlike "
        "python3-minimal.",
    }


def test_a_damaged_library_needs_nothing(image: Any) -> None:
    whole = image.library("libwhole.so", "", "-Wl,-rpath,$ORIGIN/x:/y", "-Wl,--no-as-needed", "-lm")
    content, cut = whole.read_bytes(), image.folder / "cut.so"
    needs = elf.read_needs(str(whole))
    assert needs.libraries[0] == "libm.so.6"
    assert (needs.rpath or needs.runpath) == (f"{whole.parent}/x", "/y")
    for length in range(0, len(content), 501):
        cut.write_bytes(content[:length])
        assert elf.read_needs(str(cut)).libraries in ((), needs.libraries)
