"""The NCCL that a program will use, and the plugins that it takes, from the library's own file."""

from __future__ import annotations

import importlib.util
import os
import re
from typing import NamedTuple

from rsctl.node.check import elf
from rsctl.node.check.loader import Loader

_NAME = "libnccl.so.2"
_VERSION = rb"NCCL version (\d+\.\d+\.\d+)"
_LOOKED_UP = rb"ncclNetPlugin_v(\d{1,2})\0"
_TORCH_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)


class Torch(NamedTuple):
    """An installed torch, found without importing it. `version` is `unknown` where it hides it."""

    folder: str
    version: str


class Nccl(NamedTuple):
    """An NCCL: the file that it is in, its version, and the plugin versions that it looks up."""

    path: str
    version: str
    takes: frozenset[int]


def find_torch() -> Torch | None:
    """The torch that this Python would import."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = next(iter(spec.submodule_search_locations))
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            version = _TORCH_VERSION.search(file.read())
    except (OSError, ValueError):
        version = None
    return Torch(folder, version[1] if version else "unknown")


def find_nccl(torch: Torch | None, loader: Loader) -> Nccl | None:
    """The NCCL that torch uses or, without torch, the one that any program would find."""
    if torch is None:
        found = loader.find(_NAME)
        return read_nccl(found[0]) if found else None
    import glob  # which the launches that only look for torch do without

    users = [
        path
        for pattern in ("libtorch_cuda*.so", "libtorch_nccl*.so")
        for path in sorted(glob.glob(os.path.join(glob.escape(torch.folder), "lib", pattern)))
    ]
    for user in users:
        if _NAME in elf.read_needs(user).libraries:
            found = loader.find(_NAME, needed_by=user) or loader.find(_beside(torch))
            return read_nccl(found[0]) if found else None
    # No library of it needs NCCL, so it is part of one of them, or torch was built without.
    return next(filter(None, map(read_nccl, users)), None)


def read_nccl(path: str) -> Nccl | None:
    """The NCCL in a file; None if it has none."""
    takes = plugin_versions(path)
    if not takes:
        return None
    version = next(elf.search(path, _VERSION), b"of unknown version")
    return Nccl(path, version.decode(), takes)


def plugin_versions(path: str) -> frozenset[int]:
    """The versions N of all `ncclNetPlugin_vN` that a file names: looked up, or exported."""
    return frozenset(int(version) for version in elf.search(path, _LOOKED_UP))


def _beside(torch: Torch) -> str:
    """Where torch's own packages bring NCCL, and torch loads it from if the loader has none."""
    return os.path.join(os.path.dirname(torch.folder), "nvidia", "nccl", "lib", _NAME)
