"""Checks that this Python can run the runtime.

What a launch loads before that must parse on Python 3.7: bases that old are in use, and their
users are to read a finding and not a SyntaxError.
"""

from __future__ import annotations

import sys

OLDEST = (3, 10)
"""The oldest Python that the runtime is written for."""


def too_old() -> dict[str, object] | None:
    """The fields of the `finding` line if this Python is too old, otherwise None."""
    version = sys.version_info[:3]
    if version >= OLDEST:
        return None
    found, needed = ".".join(map(str, version)), ".".join(map(str, OLDEST))
    return {
        "severity": "error",
        "code": "python-old",
        "message": f"{sys.executable} is Python {found}, but rsctl's runtime needs {needed}",
        "remedy": f"Use an image.base with Python {needed} or newer.",
    }


def incomplete(error: ImportError) -> dict[str, object]:
    """The fields of the `finding` line where this Python lacks what the runtime imports."""
    return {
        "severity": "error",
        "code": "python-incomplete",
        "message": f"{sys.executable} cannot import a module that rsctl's runtime needs: {error}",
        "remedy": "Use an image.base with the complete Python standard library, unlike "
        "python3-minimal.",
    }
