"""torchx, the nearest peer, in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VERSION = "0.7.0"
_PLACE = Path(__file__).with_name(".peers") / f"torchx-{VERSION}"
_SECONDS = 300


def torchx() -> Path | None:
    """Its program, installed if need be; None where that is not possible, such as offline."""
    program = _PLACE / "bin" / "torchx"
    installed = _PLACE / "installed"
    if not installed.exists():
        try:
            _call(sys.executable, "-m", "venv", "--clear", str(_PLACE))
            wanted = [f"torchx=={VERSION}", "setuptools"]
            _call(str(_PLACE / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted)
            _call(str(program), "--version")
        except (OSError, subprocess.SubprocessError):
            return None
        installed.touch()
    return program


def _call(*argv: str) -> None:
    subprocess.run(
        argv, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, capture_output=True
    )
