"""Finds the failed replicas of a job by their logs, if the platform does not name them.

Containers without rsctl-launch leave no report of their end. The signs of a failure in a log, the
strongest first:

- AWS's sagemaker-training toolkit reports a failure, with the exit code of its program.
  Source: aws/sagemaker-training-toolkit@3383937, trainer.py and errors.py.
- The log contains the platform's text about the failure.
- The log ends with a traceback.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from rsctl.runs.folder import RunFolder
from rsctl.runs.stream.ends import signal_name
from rsctl.runs.stream.events import Failure, LogEvent, UnnamedFailure
from rsctl.runs.stream.journal import tail_lines

_TAIL = 400  # lines
_LONGEST_LINE = 4096  # characters
_REPORTED = re.compile(r"Reporting training FAILURE|\bExecuteUserScriptError:")
_CODE = re.compile(r"\bEncountered exit_code (\d{1,3})\b|^ ?ExitCode (-?\d{1,3})\b")
_TELLING = 16  # characters: a shorter line may stand in any log


class _Sign(NamedTuple):
    """The failure that a replica's log shows: its time, the strength of the sign, the exit code."""

    time: str
    strength: int
    code: Optional[int] = None


def log_failures(folder: RunFolder, replicas: list[str], reported: UnnamedFailure) -> list[Failure]:
    """The replicas whose logs show a failure, by the strongest sign that any log has.

    None if no log has any: then the failed replica is unknown.
    """
    tails = {name: _tail(folder, name) for name in replicas}
    signs = {name: sign for name in replicas if (sign := _sign(tails[name], reported.text))}
    strongest = max((sign.strength for sign in signs.values()), default=0)
    return [
        Failure(
            replica=name,
            time=sign.time,
            exit_code=reported.exit_code if sign.code is None else _exit_code(sign.code),
            signal=reported.signal if sign.code is None else signal_name(-sign.code),
        )
        for name, sign in signs.items()
        if sign.strength == strongest
    ]


def _sign(lines: list[LogEvent], reported: str) -> _Sign | None:
    """The time is the last traceback's: the toolkit's report comes after it."""
    # This compiles the patterns of a diagnosis.
    from rsctl.runs.stream.failure_lines import failure_lines, has_traceback

    if not lines:
        return None
    traces = [line for line in lines if has_traceback([line.text])]
    time = traces[-1].time if traces else lines[-1].time
    reports = [line for line in lines if _REPORTED.search(line.text)]
    if reports:
        codes = [match for line in lines if (match := _CODE.search(line.text))]
        numbers = [int(match[1] or match[2]) for match in codes]
        code = next((number for number in numbers if number not in (0, 1)), None)
        return _Sign(time if traces else reports[0].time, 3, code or (1 if numbers else None))
    quoted = [line for line in lines if _is_quoted(line.text.strip(), reported)]
    if quoted:
        return _Sign(time if traces else quoted[-1].time, 2)
    is_last = traces and has_traceback(failure_lines(line.text for line in lines))
    return _Sign(time, 1) if is_last else None


def _is_quoted(line: str, reported: str) -> bool:
    return len(line) >= _TELLING and line in reported


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _tail(folder: RunFolder, replica: str) -> list[LogEvent]:
    lines = list(tail_lines(folder.log(replica), replica, _TAIL))
    return [line for line in lines[-_TAIL:] if len(line.text) <= _LONGEST_LINE]
