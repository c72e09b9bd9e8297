"""What was measured, kept in `measured.json` beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rsctl.estimate.advice.measured import StepRecord

FOLDER = Path(__file__).parent
_FILE = FOLDER / "measured.json"


class Measured(msgspec.Struct, frozen=True):
    """One measurement of a case: the steps of a worker alone, and those of the whole job."""

    case: str
    alone: StepRecord
    together: StepRecord


def keep(measured: Sequence[Measured]) -> None:
    """Write measurements down, in place of earlier ones."""
    rows = [msgspec.json.encode(one).decode() for one in measured]
    _FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def kept() -> list[Measured]:
    """The measurements."""
    return msgspec.json.decode(_FILE.read_bytes(), type=list[Measured])
