"""`--behaviour NAME=VALUE`: how an emulated cloud behaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rsctl.findings import ExitCode, RsctlError, error


def parse_behaviour(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `stockouts=2` as a field and its value, which is JSON or text. Raises RsctlError."""
    behaviour: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            message = f"--behaviour {text!r} is not in the form NAME=VALUE"
            raise RsctlError(ExitCode.USAGE, error("behaviour", message, "for example stockouts=2"))
        try:
            behaviour[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            behaviour[name] = value
    return behaviour
