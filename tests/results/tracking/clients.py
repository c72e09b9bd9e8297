"""The environment of `.ci/trackers`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import pytest

from rsctl.results.tracking.cursor import Cursor, CursorFile
from tests.kit.preloaded import Preloaded

PYTHON = os.environ.get("TRACKERS_PYTHON", "")
"""Its Python."""

needs_trackers = pytest.mark.skipif(
    not PYTHON and os.environ.get("CI") != "true", reason="TRACKERS_PYTHON: see .ci/trackers"
)


def send_by(clients: Preloaded | None, run: str, environ: Mapping[str, str]) -> Cursor:
    """Send what there is of a run, as `rsctl track` does; how far it came.

    By one of the `clients`, or by a fresh interpreter.
    """
    module = "rsctl.results.tracking.process"
    if clients is None:
        subprocess.run([PYTHON, "-m", module, run], env=environ, check=True)
    else:
        clients.run(module, run, environ=environ)
    return CursorFile(run, 0).read()
