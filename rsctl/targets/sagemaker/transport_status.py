"""Whether NCCL's traffic goes over EFA, by the lines that NCCL and its plugin print.

NCCL prints them with NCCL_DEBUG=INFO only; without them nothing is known here. AWS's own tests look
for the same lines (deep-learning-containers, test/efa).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rsctl.findings import Finding, note
from rsctl.targets.managed.service import Fact

_EFA = re.compile(r"NET/OFI Selected [Pp]rovider is efa|Using network (?:AWS )?Libfabric")
_SOCKET = re.compile(r"NCCL INFO Using network Socket")
_LONGEST = 1000

ON_EFA = note("nccl-efa", "NCCL's traffic goes over EFA")
ON_SOCKETS = note(
    "nccl-sockets",
    "NCCL's traffic goes over TCP sockets, not over EFA",
    "on a machine with EFA: if the log has no NET/OFI lines before, use a base image that has the "
    "EFA plugin, see image.transport; otherwise the plugin failed, and these lines say why",
)


def notice(text: str) -> Finding | None:
    """The transport that a line of the log shows."""
    if _EFA.search(text[:_LONGEST]):
        return ON_EFA
    return ON_SOCKETS if _SOCKET.search(text[:_LONGEST]) else None


def facts(plan: Mapping[str, Any], noticed: Iterable[Finding]) -> list[Fact]:
    """Whether the requested transport is in use, if it is EFA and the log shows it."""
    image = plan.get("image")
    transport = image.get("transport") if isinstance(image, Mapping) else None
    codes = {finding.code for finding in noticed}
    if ON_SOCKETS.code in codes and transport == "efa":
        return [Fact("network", "EFA is not in use: NCCL uses TCP sockets", "sockets")]
    if ON_EFA.code in codes:
        return [Fact("network", "EFA", "efa")]
    return []
