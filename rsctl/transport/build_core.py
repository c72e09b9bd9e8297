"""Builds the C++ core: `python -m rsctl.transport.build_core [--output FILE] [--sanitize LIST]`.

With `ziglang` installed the library runs with any glibc since 2.17, so one that is built here also
loads in images whose C library is older. Other compilers bind it to this machine's glibc or newer.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).parent / "core"
LIBRARY = Path(__file__).parent / "librsctl_core.so"

_OLDEST_GLIBC = "2.17"
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-ffp-contract=off",  # a fused multiply-add would round differently from the Python engine
    "-fvisibility=hidden",
)
_WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow")


def compiler() -> list[str] | None:
    """The command of a C++ compiler: zig if installed, then $CXX, then the system's; or None."""
    if importlib.util.find_spec("ziglang"):
        target = f"{platform.machine()}-linux-gnu.{_OLDEST_GLIBC}"
        return [sys.executable, "-m", "ziglang", "c++", "-target", target, "-fno-sanitize=all"]
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return [name]
    return None


def command(compiler: Sequence[str], output: Path, sanitize: str | None = None) -> list[str]:
    """The command that builds the library, or a sanitized one for tests."""
    sources = [str(source) for source in sorted(SOURCES.glob("*.cc"))]
    static = [] if "ziglang" in compiler else ["-static-libstdc++", "-static-libgcc"]
    extra = [*static, "-Wl,-s"]
    if sanitize:
        extra = [f"-fsanitize={sanitize}", "-g", "-fno-omit-frame-pointer"]
    return [*compiler, *_FLAGS, *_WARNINGS, *extra, "-shared", "-o", str(output), *sources]


def build(output: Path = LIBRARY, sanitize: str | None = None) -> str | None:
    """Build the library; why it could not be built, or None. The old one stays until then."""
    if not sys.platform.startswith("linux"):
        return f"the core is only for Linux, not for {sys.platform}"
    found = compiler()
    if found is None:
        return "there is no C++ compiler: install ziglang or g++"
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        made = Path(folder) / output.name
        done = subprocess.run(
            command(found, made, sanitize), capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            return next((line for line in lines if "error" in line), f"exit {done.returncode}")
        made.replace(output)
    return None


def main() -> int:
    """Build from the command line; 1 if that failed."""
    parser = argparse.ArgumentParser(prog="python -m rsctl.transport.build_core")
    parser.add_argument("--output", type=Path, default=LIBRARY)
    parser.add_argument("--sanitize", help="address, thread or undefined, separated by commas")
    options = parser.parse_args()
    problem = build(options.output, options.sanitize)
    if problem is not None:
        print(f"the transport's core was not built: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
