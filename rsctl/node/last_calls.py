"""Has the ranks of a node write down their calls before they are ended for a failed one.

Ranks that call different collectives fail, often not the guilty one first, and launchers end the
others of a node at once. So the process that waits for the failed rank asks them, by the files that
`rsctl/transport/pytorch/inspection.py` describes.

`rank.py` loads this file by its path, without a package: it stands alone.
"""

from __future__ import annotations

import os
import time

_LIMIT_SECONDS = 1.0
_POLL_SECONDS = 0.01


def keep_last_calls(folder: str) -> None:
    """Ask all ranks that can answer, and wait until they have, for a second at most."""
    try:
        asked = [name[:-5] for name in os.listdir(folder) if _has_asked(folder, name)]
    except OSError:
        return
    until = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < until and not all(
        os.path.exists(f"{folder}/{pid}.last.json") or not os.path.exists(f"/proc/{pid}")
        for pid in asked
    ):
        time.sleep(_POLL_SECONDS)


def _has_asked(folder: str, name: str) -> bool:
    """Whether this is a rank's pipe, it lives, and had not left its last calls."""
    if not name.endswith(".pipe") or os.path.exists(f"{folder}/{name[:-5]}.last.json"):
        return False
    try:
        pipe = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # it has ended
        return False
    try:
        return os.write(pipe, b"last 0\n") > 0
    except OSError:
        return False
    finally:
        os.close(pipe)
