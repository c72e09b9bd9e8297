"""What was measured, kept in `measured.json` and `computing.json` beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import msgspec

from rsctl.estimate.advice.measured import StepRecord

FOLDER = Path(__file__).parent
SLEEPING = FOLDER / "measured.json"
COMPUTING = FOLDER / "computing.json"


class Measured(msgspec.Struct, frozen=True):
    """One measurement of a case: the steps of a worker alone, and those of the whole job.

    `load` is the machine's load of the minute before, with the benchmark's own processes; None if
    it is not known.
    """

    case: str
    alone: StepRecord
    together: StepRecord
    load: Optional[float] = None


def keep(measured: Sequence[Measured], file: Path = SLEEPING) -> None:
    """Write measurements down, in place of earlier ones."""
    rows = [msgspec.json.encode(one).decode() for one in measured]
    file.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def kept(file: Path = SLEEPING) -> list[Measured]:
    """The measurements."""
    return msgspec.json.decode(file.read_bytes(), type=list[Measured])
