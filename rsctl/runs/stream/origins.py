"""Finds the process of a job that failed first, from its launchers' output.

It reads the formats of Open MPI 3 to 5 (`mpirun --tag-output` and its help texts), of torchrun's
report, of DeepSpeed's launcher and of SageMaker's training toolkit. A service may replace their
line breaks with spaces.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from rsctl.runs.stream.ends import signal_name

_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252})"
_RANK = r"(?P<rank>\d{1,6})"
_CODE = r"(?P<code>-?\d{1,3})\b"
_REPORTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"Root Cause \(first observed failure\):\s{1,20}(?:\[\d{1,6}\]:\s{1,20})?"
        rf"(?:time {{0,20}}: \S{{1,40}}\s{{1,20}})?host {{0,20}}: {_HOST}\s{{1,20}}"
        rf"rank {{0,20}}: {_RANK}(?: \(local_rank: \d{{1,6}}\))?\s{{1,20}}"
        rf"exitcode {{0,20}}: {_CODE}",
        rf"noticed that process rank {_RANK} with PID \d{{1,10}} on node {_HOST}\s{{1,5}}"
        r"exited on\s{1,5}signal (?P<signal>\d{1,2})\b",
        rf"exited due to process rank {_RANK} with PID \d{{1,10}} on\s{{1,5}}node {_HOST}\s{{1,5}}",
        rf"MPI_ABORT was invoked on rank {_RANK} in communicator [^\n]{{0,200}}?\s{{1,20}}"
        rf"(?:Proc: \S{{1,100}}\s{{1,20}})?(?:with errorcode|Errorcode:) {_CODE}",
        r"first process to do so was:\s{1,20}Process name: "
        rf"\[(?:\[\d{{1,10}},\d{{1,10}}\]|\S{{1,100}}@\d{{1,10}}),{_RANK}\]\s{{1,20}}"
        rf"Exit code:\s{{1,20}}{_CODE}",
        rf"Remote daemon: \[\S{{1,100}}\] on node {_HOST}",
    )
)
"""The failed process's own report before its launcher's report."""

_TAG = re.compile(rf"\[\d{{1,5}},(?:mpirank:)?{_RANK}(?:,{_HOST})?\]<std(?:err|out)>:? ?")
_TAGGED_TRACEBACK = re.compile(
    rf"(?:{_TAG.pattern}|\[rank(?P<torch>\d{{1,6}})\]: ?)Traceback \(most recent call last"
)
_CODES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"failed \(exitcode: {_CODE}\) local_rank: ",
        rf"exits with return code = {_CODE}",
        rf"\b(?i:exit ?)(?i:code)[: ]{{1,2}}{_CODE}",
    )
)


class Origin(NamedTuple):
    """Information on the process that failed first.

    `host` is the launcher's name for its node. A process that a signal ended has the exit code 128
    + its number.
    """

    rank: Optional[int] = None
    host: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[str] = None


def find_origin(text: str) -> Origin:
    """The launchers' reports in a text about the process that failed first; empty without any."""
    plain = _TAG.sub("", text)
    found = next(filter(None, (report.search(plain) for report in _REPORTS)), None)
    if found is None:
        found = next(_TAGGED_TRACEBACK.finditer(text), None)
    groups = found.groupdict() if found else {}
    rank = _number(groups.get("rank") or groups.get("torch"))
    host = groups.get("host") or (_host_of(rank, text) if rank is not None else None)
    code = groups.get("code")
    if code is None:
        matches = (pattern.search(plain) for pattern in _CODES)
        code = next((match["code"] for match in matches if match), None)
    number = _number(groups.get("signal"))
    return Origin(rank, host, *_status(-number if number else _number(code)))


def _host_of(rank: int, text: str) -> str | None:
    """The node in the tags of a rank's lines."""
    tags = (tag for tag in _TAG.finditer(text) if int(tag["rank"]) == rank)
    return next((tag["host"] for tag in tags if tag["host"]), None)


def _status(code: int | None) -> tuple[int | None, str | None]:
    """An exit code in a shell's form, and the signal that it stands for."""
    if code is None:
        return None, None
    number = -code if code < 0 else code - 128
    return (128 - code if code < 0 else code), signal_name(number)


def _number(text: str | None) -> int | None:
    return int(text) if text else None
