"""How much is written to standard error, and whether in colour: --quiet, --no-color, NO_COLOR."""

from __future__ import annotations

import os
import sys
from typing import Any

_options = {"quiet": False, "no_color": False}


def set_output(quiet: bool, no_color: bool) -> None:
    """Note the options of a command; a group's hold for its commands too.

    They outlive the command, for its errors are shown when it has ended.
    """
    _options["quiet"] |= quiet
    _options["no_color"] |= no_color


def reset_output() -> None:
    """Forget the options of an earlier command line."""
    _options.update(quiet=False, no_color=False)


def in_color(stream: Any = None) -> bool:
    """Whether a stream (default: stderr) is coloured: a terminal, and no option against it."""
    stream = stream or sys.stderr
    is_refused = _options["no_color"] or os.environ.get("NO_COLOR")
    return not is_refused and bool(stream.isatty())


def is_quiet() -> bool:
    """Whether --quiet was given."""
    return _options["quiet"]
