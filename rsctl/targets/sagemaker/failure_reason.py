"""The FailureReason of a training job: a text of at most 1024 characters, as findings. Pure.

It is a kind (`AlgorithmError: `, `ClientError: `, …) and the container's text in
/opt/ml/output/failure, where rsctl's runtime names the replica. The kinds come from real answers
and are not documented; an unknown text is shown unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rsctl.findings import Finding, error
from rsctl.runs.stream.ends import signal_name
from rsctl.runs.stream.events import Failure, UnnamedFailure
from rsctl.runs.stream.origins import find_origin
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.hosts import replica_on
from rsctl.targets.sagemaker.errors import CLIENT_ERROR, find_known

ALGORITHM_ERROR = "AlgorithmError"
"""The kind of a reason that the job's own program gave."""

_CODE = re.compile(r"\bexit ?code:? ?(-?\d{1,3})\b", re.IGNORECASE)
_OF_CONTAINER = re.compile(r", exit code: (\d{1,3})\s*\Z")
"""The text that the service adds; the text before it is a container's, with its own codes."""

_SIGNAL = re.compile(r"\bSIG[A-Z]{2,8}\b")
_RANK = re.compile(r"\brank (\d{1,6})\b")


def failures(answer: Mapping[str, Any], pools: list[Pool], time: str) -> list[Failure]:
    """The replica that failed, if the text names it or its host, or if there is only one.

    A container writes the text: a replica that the job does not have is ignored.
    """
    kind, text = _split(str(answer.get("FailureReason") or ""))
    found = unnamed_failure(answer)
    names = replica_names(pools)
    roles = "|".join(re.escape(pool.role) for pool in pools)
    named = [each for each in re.findall(rf"\b(?:{roles})-\d{{1,5}}\b", text) if each in names]
    origin = find_origin(text)
    on_host = replica_on(origin.host, pools) if origin.host else None
    if found is None and (kind or not (named or on_host)):
        return []
    if not named and on_host is None and len(names) > 1:
        return []
    signal, rank = _SIGNAL.search(text), _RANK.search(text)
    found = found or UnnamedFailure(exit_code=1)
    return [
        Failure(
            replica=named[0] if named else on_host or names[0],
            time=time,
            exit_code=origin.exit_code or found.exit_code,
            signal=signal[0] if signal and named else origin.signal or found.signal,
            rank=int(rank[1]) if rank and named else origin.rank,
        )
    ]


def unnamed_failure(answer: Mapping[str, Any]) -> UnnamedFailure | None:
    """The failed container that the text describes; None if none failed.

    `AlgorithmError` means a container; other kinds mean the service, unless there is an exit code.
    """
    kind, text = _split(str(answer.get("FailureReason") or ""))
    code = _OF_CONTAINER.search(text) or (_CODE.search(text) if kind != CLIENT_ERROR else None)
    if kind != ALGORITHM_ERROR and (code is None or kind not in ("", CLIENT_ERROR)):
        return None
    number = int(code[1]) if code else 1
    if inner := _CODE.search(text) if number == 1 else None:
        number = int(inner[1]) or 1  # the toolkit ends with 1 for each exit code of its program
    if number >= 0:
        return UnnamedFailure(exit_code=number, text=text)
    return UnnamedFailure(exit_code=128 - number, signal=signal_name(-number), text=text)


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The remedy for a failure outside the job."""
    reason = str(answer.get("FailureReason") or "")
    kind, text = _split(reason)
    if known := find_known(kind, text):
        return [error(known.code, reason, known.remedy, known.path)]
    return [error("cloud", reason)] if kind == CLIENT_ERROR else []


def _split(reason: str) -> tuple[str, str]:
    """The kind and the rest."""
    match = re.match(r"([A-Z][A-Za-z]+Error): ?", reason)
    return (match[1], reason[match.end() :]) if match else ("", reason)
