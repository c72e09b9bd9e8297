"""The last decision of a gate about a bench, in the bench's folder, for its report."""

from __future__ import annotations

from typing import Optional

import msgspec

from rsctl.atomic_file import UNREADABLE, write_file
from rsctl.bench.folder import BenchFolder
from rsctl.bench.gate import Gate
from rsctl.bench.results import Results
from rsctl.runs.stream.events import now


class Decision(msgspec.Struct, kw_only=True):
    """The outcome of a gate and its time. `baseline` are the samples that it compared with; None if
    they are in the same bench, which ran both sides in turn.
    """

    gate: Gate
    time: str
    baseline: Optional[Results] = None

    @property
    def benches(self) -> list[str]:
        """The bench that was judged, and the one of its confirmation."""
        confirmation = self.gate.confirmation
        return [self.gate.candidate, *([confirmation] if confirmation else [])]


def keep_decision(gate: Gate, baseline: Results | None = None) -> Gate:
    """Keep a decision with all benches that it was made by; returns the gate. Raises RsctlError."""
    decision = Decision(gate=gate, time=now(), baseline=baseline)
    data = msgspec.json.encode(decision)
    for bench in decision.benches:
        write_file(BenchFolder(bench).decision, data)
    return gate


def decision_about(bench: str) -> Decision | None:
    """The last decision of a gate about a bench; None if there is none that can be read."""
    try:
        return msgspec.json.decode(BenchFolder(bench).decision.read_bytes(), type=Decision)
    except UNREADABLE:  # or as another version has written it
        return None
