"""Environments of their own: torchx, the nearest peer, and rsctl by a plain `pip install .`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import ROOT

VERSION = "0.7.0"
_PEERS = Path(__file__).with_name(".peers")
_SECONDS = 300


def torchx() -> Path | None:
    """Its program, installed if need be; None where that is not possible, such as offline."""
    return _installed(f"torchx-{VERSION}", "torchx", [f"torchx=={VERSION}", "setuptools"])


def plain_rsctl() -> Path | None:
    """rsctl as users install it, with the newest packages that it allows; None where offline.

    It is made again when `pyproject.toml` changes.
    """
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()[:12]
    return _installed(f"rsctl-{digest}", "rsctl", ["--editable", str(ROOT)])


def _installed(name: str, program: str, wanted: list[str]) -> Path | None:
    place = _PEERS / name
    path, mark = place / "bin" / program, place / "installed"
    if not mark.exists():
        try:
            _call(sys.executable, "-m", "venv", "--clear", str(place))
            _call(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted)
            _call(str(path), "--version")
        except (OSError, subprocess.SubprocessError):
            return None
        mark.touch()
    return path


def _call(*argv: str) -> None:
    subprocess.run(
        argv,
        check=True,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "RSCTL_CORE": "none"},  # rsctl's C++ core takes no part in start-up
    )
