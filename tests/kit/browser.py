"""A headless browser for pages that rsctl writes; in CI its tests are never skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.polling import DEADLINE_SECONDS

BROWSER = shutil.which("chromium")

needs_browser = pytest.mark.skipif(
    os.environ.get("CI") != "true" and BROWSER is None, reason="needs a browser: .ci/browser"
)


def browse(file: Path, profile: Path, *options: str, query: str = "") -> str:
    """What the browser writes to standard output when it has loaded a file.

    It has a profile of its own and reaches no network.
    """
    argv = [
        *(BROWSER or "chromium", "--headless", "--no-sandbox", "--disable-gpu"),
        *("--hide-scrollbars", "--no-first-run", f"--user-data-dir={profile}"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", *options, file.as_uri() + query),
    ]
    done = subprocess.run(argv, capture_output=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()
