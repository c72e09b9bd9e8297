"""The displayed locations of a run's results."""

from __future__ import annotations

import os


def is_empty(location: str) -> bool:
    """Whether a path on this machine has no file; False if that cannot be read."""
    if "://" in location:
        return False
    try:
        with os.scandir(location) as entries:
            return next(entries, None) is None
    except NotADirectoryError:
        return False
    except OSError:
        return not os.path.lexists(location)
