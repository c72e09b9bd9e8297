"""Images to check: a folder with an own torch, own libraries and an own idea of the system."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
ELASTIC = {
    "__init__.py": "",
    "distributed/__init__.py": "",
    "distributed/run.py": "parse_args = run = None\n",
    "distributed/elastic/__init__.py": "",
    "distributed/elastic/agent/__init__.py": "",
    "distributed/elastic/agent/server/__init__.py": "",
    "distributed/elastic/agent/server/api.py": "SimpleElasticAgent = WorkerState = object\n",
    "distributed/elastic/multiprocessing/__init__.py": "",
    "distributed/elastic/multiprocessing/api.py": "SignalException = PContext = SystemExit\n",
    "distributed/elastic/multiprocessing/errors.py": "ChildFailedError = SystemExit\n",
    "distributed/elastic/rendezvous/__init__.py": "",
    "distributed/elastic/rendezvous/static_tcp_rendezvous.py": "StaticTCPRendezvous = object\n",
}
HANG = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {
  FILE *file = fopen("pid", "w"); fprintf(file, "%d", getpid()); fclose(file);
  for (;;) pause();
}
"""


_compiled: dict[tuple[Any, ...], bytes] = {}


class Checked(NamedTuple):
    """What `rsctl-launch --check` has said: findings without the key `rsctl`, and other lines."""

    code: int
    findings: list[dict[str, Any]]
    said: list[str]


class Image:
    """Something like an image: `environ` is what its processes see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lib, self.site = self._folder("lib"), self._folder("site")
        self.environ = {
            "PATH": f"{self._folder('bin')}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.site}:{ROOT}",
            "LD_LIBRARY_PATH": str(self.lib),
            "DPKG_ADMINDIR": str(self._folder("dpkg")),
        }
        self.ldconfig([])

    def ldconfig(self, libraries: Iterable[Path]) -> None:
        """Have the loader's cache list these libraries."""
        rows = [f"\t{path.name} (libc6,x86-64) => {path}" for path in libraries]
        text = "\n".join([f"{len(rows)} libs found in cache `/etc/ld.so.cache'", *rows])
        (self.folder / "bin" / "ldconfig").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (self.folder / "bin" / "ldconfig").chmod(0o755)

    def dpkg(self, *packages: str, status: str = "install ok installed") -> None:
        """Have these Debian packages, and one that has been removed."""
        blocks = [f"Package: {name}\nStatus: {status}\nVersion: 1\n" for name in packages]
        (self.folder / "dpkg" / "status").write_text("\n".join(blocks))

    def library(
        self,
        name: str,
        source: str = "",
        *flags: str,
        folder: str = "lib",
        texts: Iterable[str] = (),
    ) -> Path:
        """Compile a library, once for all images; `texts` are strings in it, and `flags` begin in
        the image's folder.
        """
        strings = "".join(f'const char *text{n} = "{text}";\n' for n, text in enumerate(texts))
        target = self._folder(folder) / name
        key = (source, strings, flags)
        if key not in _compiled:
            command = ["gcc", "-x", "c", "-shared", "-fPIC", "-o", str(target), "-", "-x", "none"]
            subprocess.run(
                [*command, *flags],
                input=f"{source}\n{strings}",
                cwd=self.folder,
                text=True,
                check=True,
            )
            _compiled[key] = target.read_bytes()
        target.write_bytes(_compiled[key])
        target.chmod(0o755)
        return target

    def plugin(
        self, *versions: int, name: str = "libnccl-net.so", source: str = "", **more: Any
    ) -> Path:
        """A network plugin; that of EFA if nothing else is said."""
        symbols = "".join(f"int ncclNetPlugin_v{version};\n" for version in versions)
        more.setdefault("texts", ["NET/OFI"])
        return self.library(name, source + symbols, *more.pop("flags", ()), **more)

    def torch(self, body: str = "", version: str = "2.8.0+cu128") -> Path:
        """A torch without CUDA; returns its folder."""
        for name, text in (ELASTIC | {"__init__.py": body, "version.py": ""}).items():
            path = self.site / "torch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.site / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
        return self.site / "torch"

    def cuda_torch(self, *takes: int, nccl: str = "2.27.3") -> Path:
        """A torch with an NCCL of its own, as its packages have it; returns that NCCL's file."""
        self.torch()
        path = self.library(
            "libnccl.so.2",
            "int ncclGetVersion(int *version) { *version = 0; return 0; }",
            "-Wl,-soname,libnccl.so.2",
            folder="site/nvidia/nccl/lib",
            texts=nccl_texts(*takes, nccl=nccl),
        )
        self.library(
            "libtorch_cuda.so",
            "int ncclGetVersion(int *); int version(void) { int v; return ncclGetVersion(&v); }",
            str(path.relative_to(self.folder)),
            "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib",
            folder="site/torch/lib",
        )
        return path

    def without_transport(self) -> Path:
        """The runtime as an image has it, alone in a folder, which this returns."""
        root = self._folder("opt")
        copied = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "rsctl" / "node", root / "rsctl" / "node", ignore=copied)
        shutil.copy(ROOT / "rsctl" / "__init__.py", root / "rsctl")
        shutil.copy(ROOT / "rsctl_start.py", root)
        return root

    def check(
        self,
        transport: str = "efa",
        launcher: str = "once",
        python: tuple[str, ...] = (),
        root: Path = ROOT,
        **env: str,
    ) -> Checked:
        """What `rsctl-launch --check` says of this image."""
        options = ["--check", "--transport", transport, "--launcher", launcher]
        done = subprocess.run(
            [sys.executable, *python, root / "rsctl_start.py", "rsctl.node.launch", *options],
            env={**self.environ, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        lines = done.stdout.splitlines()
        findings = [json.loads(line) for line in lines if line.startswith('{"rsctl": "finding"')]
        for finding in findings:
            del finding["rsctl"]
        return Checked(done.returncode, findings, [line for line in lines if line[0] != "{"])

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def nccl_texts(*takes: int, nccl: str) -> list[str]:
    """The strings by which a file shows that it is an NCCL."""
    plugins = [f"nccl{kind}Plugin_v{version}" for version in takes for kind in ("Net", "CollNet")]
    return [f"NCCL version {nccl}+cuda12.9", *plugins]


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """An image without torch and without plugins, but for the torch of the tests' own Python."""
    return Image(tmp_path / "image")


@pytest.fixture
def nccl_strings() -> Callable[..., list[str]]:
    """The strings of an NCCL, for a library that has it inside."""
    return nccl_texts


@pytest.fixture
def hang() -> str:
    """Source of a library that never ends to load, and writes its process id into `pid`."""
    return HANG
