"""Detects whether Reduction Server is in use, by its reducers' traffic and NCCL's log. Pure.

Google documents no line of a log for it. The received bytes of the reducers show it, independent of
the logs; a line about the plugin explains why they receive nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from rsctl.findings import Finding, note, warning
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.formatting import format_bytes
from rsctl.targets.managed.service import Fact, Measured
from rsctl.targets.vertex.pools import has_googles_reducers

NAME = "reduction_server"

_RECEIVED, _SENT = "network.received_bytes_per_s", "network.sent_bytes_per_s"
_LEAST_TRAFFIC = 1e6
"""The minimum bytes per second that all workers together send if they exchange gradients."""

_SHARE = 0.1
"""The minimum part of the workers' sent bytes that reaches the reducers if they are used: with
Reduction Server it is nearly all, without it almost none.
"""

_WRONG_PLUGIN, _NO_PLUGIN, _NETWORK_BOUND = "wrong-plugin", "no-plugin", "network-bound"
_REASONS = {
    _WRONG_PLUGIN: "NCCL has loaded Fast Socket, which does not support Reduction Server",
    _NO_PLUGIN: "NCCL finds no network plugin in the image",
}
_REMEDY = (
    "build with image.transport: reduction-server; in your own image, remove google-fast-socket "
    "and install google-reduction-server"
)


class _Status(NamedTuple):
    is_engaged: Optional[bool]
    why: str
    text: str
    received: Optional[float] = None
    share: Optional[float] = None


def notice(line: LogEvent, has_reducers: bool) -> Finding | None:
    """The plugin that a line of a worker's log shows; `has_reducers` if the job has Google's.

    The lines are NCCL's, printed with NCCL_DEBUG=INFO, and those of Google's plugin.
    """
    text = line.text
    if "NET/" not in text and "network bound" not in text:
        return None
    if has_reducers and ("NET/FastSocket plugin initialized" in text or "NET/FastSocket :" in text):
        return warning(_WRONG_PLUGIN, _REASONS[_WRONG_PLUGIN], _REMEDY, "image.transport")
    is_missing = "No plugin found" in text or "Could not find: libnccl-net" in text
    if has_reducers and "NET/Plugin" in text and is_missing:
        return warning(_NO_PLUGIN, _REASONS[_NO_PLUGIN], _REMEDY, "image.transport")
    if "This training job might be network bound" in text and not has_reducers:
        message = "Google's network plugin reports that the network may limit this job"
        remedy = "try Reduction Server: reducers.count: auto"
        return note(_NETWORK_BOUND, message, remedy, "reducers.count")
    return None


def reduction_server_facts(
    measured: Measured, plan: Mapping[str, Any], noticed: Iterable[Finding]
) -> list[Fact]:
    """The fact `reduction_server` of a job that has Google's reducers, or should try them.

    Its value is {engaged: true | false | null, why, received_bytes_per_s, share}: the bytes that
    all reducers receive, and their share of the bytes that the workers send.
    """
    codes = {finding.code for finding in noticed}
    request = plan.get("request")
    if not has_googles_reducers(request.get("body") if isinstance(request, Mapping) else None):
        if _NETWORK_BOUND not in codes:
            return []
        text = "not used, although the network may limit this job; try reducers.count: auto"
        return [_fact(_Status(False, _NETWORK_BOUND, text))]
    return [_fact(_judge(measured, codes))]


def _judge(measured: Measured, codes: set[str]) -> _Status:
    received = _values_of(measured, "reducer-", _RECEIVED)
    sent = _values_of(measured, "worker-", _SENT)
    known = next((code for code in _REASONS if code in codes), None)
    if not received or not sent:
        if known:
            return _Status(False, known, f"not engaged: {_REASONS[known]}")
        return _Status(None, "unmeasured", "not yet known: no traffic has been measured")
    total, share = sum(received), sum(received) / max(sum(sent), 1.0)
    if sum(sent) < _LEAST_TRAFFIC:
        return _Status(None, "idle", "not yet known: the workers send almost nothing", total)
    if share >= _SHARE:
        idle = sum(one < _SHARE * total / len(received) for one in received)
        text = f"engaged: the reducers receive {format_bytes(int(total))}/s"
        text += f", {min(share, 1.0):.0%} of the data that the workers send"
        text += f"; {idle} of {len(received)} reducers receive almost nothing" if idle else ""
        return _Status(True, "traffic", text, total, share)
    text = f"not engaged: the workers send {format_bytes(int(sum(sent)))}/s, the reducers receive"
    text += " almost nothing"
    text += f"; {_REASONS[known]}" if known else "; look for NET/ in the log with NCCL_DEBUG=INFO"
    return _Status(False, known or "no-traffic", text, total, share)


def _values_of(measured: Measured, role: str, name: str) -> list[float]:
    return [
        values[name]
        for replica, values in measured.items()
        if replica.startswith(role) and name in values
    ]


def _fact(found: _Status) -> Fact:
    value = {
        "engaged": found.is_engaged,
        "why": found.why,
        "received_bytes_per_s": found.received and round(found.received),
        "share": found.share and round(found.share, 3),
    }
    return Fact(NAME, found.text, value)
