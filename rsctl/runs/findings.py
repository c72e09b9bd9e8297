"""The findings of a run, read back from its folder."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from rsctl.atomic_file import UNREADABLE, open_regular
from rsctl.findings import Finding
from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.events import FindingEvent, StateEvent

INCOMPLETE_LOG = frozenset({"disk-full", "log-lost", "metrics-lost"})
"""Codes of findings that report an incomplete log, or incomplete data from the log."""

LOG_REFUSED = "log-refused"
"""The code of the finding that the target does not let rsctl read the log of a run."""

NO_ANSWER = "network"
"""The code of the finding that the target has given no answer several times in succession."""

RESTART_IN_PLACE = "restart-in-place"
"""The code of the finding that a node reports once for each restart of all ranks."""

NO_CAUSES = frozenset({RESTART_IN_PLACE, "profile"})
"""Codes of findings of the runtime that do not explain a failure."""

KEPT = "kept"
"""The code of the finding that a failed node is kept; see `limits.keep`."""

_MARK = b'"type":"finding"'


def findings_of(run: str, has_ended: bool = False) -> list[Finding]:
    """The warnings and errors of a run, each once, in their order.

    A run that has ended keeps no node, so the finding about a kept node is left out.
    """
    decoder = msgspec.json.Decoder(StateEvent | FindingEvent)
    findings: list[Finding] = []
    with suppress(OSError), open_regular(RunFolder(run).states) as lines:
        for line in lines:
            if _MARK in line:
                with suppress(*UNREADABLE, AttributeError):  # a damaged or unfinished line
                    findings.append(decoder.decode(line).finding)
    left_out = KEPT if has_ended else ""
    shown = (each for each in findings if each.severity != "note" and each.code != left_out)
    return list(dict.fromkeys(shown))
