"""Errors between workers and reducers: codes, exceptions and messages."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass

NO_RANK = 0xFFFFFFFF
"""The rank in a frame that is about no rank."""


class ErrorCode(enum.IntEnum):
    """Why a connection or an operation failed; 1 to 10 are ERROR codes of the protocol."""

    AUTHENTICATION = 1
    MISMATCH = 2
    LOST = 3
    LIMIT = 4
    PROTOCOL = 5
    SUPERSEDED = 6
    SILENT = 7
    LEFT = 8
    GAVE_UP = 9
    STOPPED = 10
    DEADLINE = 100
    UNREACHABLE = 101
    CLOSED = 102
    SETTINGS = 103


class TransportError(Exception):
    """The transport cannot continue.

    `code` is the reason, `reducer` is the index of the reducer concerned, `rank` the worker
    concerned, `sequence` the operation in progress; each None if there is none.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        reducer: int | None = None,
        rank: int | None = None,
        sequence: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reducer = reducer
        self.rank = rank
        self.sequence = sequence


@dataclass(frozen=True)
class EngineFailure:
    """Why a client's engine has stopped, in numbers; `detail` is a peer's or the system's text.

    `server` is the reducer that it was noticed at, `rank` the worker concerned or NO_RANK,
    `sequence` the oldest unfinished operation, 0 if there was none. If that reducer has only passed
    the failure on (`remote`), `relayed` is the one that failed, as far as it is known.
    """

    code: ErrorCode
    server: int
    rank: int
    sequence: int
    detail: str
    remote: bool = False
    relayed: int | None = None

    @property
    def blamed(self) -> int | None:
        """The reducer that failed; None if a worker did, or where it is unknown."""
        if self.remote:
            return self.relayed
        return (
            self.server
            if self.code in (ErrorCode.LOST, ErrorCode.SILENT, ErrorCode.PROTOCOL)
            else None
        )

    @property
    def wire_code(self) -> ErrorCode:
        """The code for the reducers: the cause, where the protocol has it."""
        return self.code if self.code <= ErrorCode.STOPPED else ErrorCode.GAVE_UP

    def error(self, names: Sequence[str], hosted: int = 0) -> TransportError:
        """The exception for a caller; `names` are the reducers' addresses.

        The last `hosted` reducers are parts of the workers, in the order of their ranks: if such a
        reducer has failed, its worker has.
        """
        concerned = self.server if self.blamed is None else self.blamed
        rank = None if self.rank == NO_RANK else self.rank
        host = None if self.blamed is None else _host(concerned, names, hosted)
        return TransportError(
            self.code,
            self.message(names, hosted),
            reducer=concerned if concerned < len(names) and host is None else None,
            rank=rank if host is None else host,
            sequence=self.sequence or None,
        )

    def message(self, names: Sequence[str] = (), hosted: int = 0) -> str:
        """The error as text; with the reducer's address if it is known."""
        during = f" during operation {self.sequence}" if self.sequence else ""
        if self.code is ErrorCode.CLOSED:
            return f"the transport was closed{during}"
        host = _host(self.server, names, hosted)
        who = f"reducer {self.server}" if host is None else f"rank {host}"
        if names:
            who += f" ({names[self.server]})"
        if self.remote and (lost := _host(self.relayed, names, hosted)) is not None:
            return f"rank {lost} was lost{during}"
        if self.remote:
            who = who if host is None else f"the reducer of {who}"
            return f"{who} ended the run{during}: {self.detail}"
        if self.code is ErrorCode.SILENT:
            return f"{who} has been silent for {self.detail}{during}"
        if self.code is ErrorCode.DEADLINE:
            waits = f"; {who} waits for rank {self.rank}" if self.rank != NO_RANK else ""
            return f"operation {self.sequence} has made no progress for {self.detail}{waits}"
        if self.code is ErrorCode.LOST:
            return f"{who} was lost{during}: {self.detail}"
        return f"{who} broke the protocol{during}: {self.detail}"


def _host(reducer: int | None, names: Sequence[str], hosted: int) -> int | None:
    """The rank of the worker that this reducer is a part of; None for other reducers."""
    first = len(names) - hosted
    return reducer - first if reducer is not None and first <= reducer < len(names) else None


def printable(text: bytes | memoryview) -> str:
    """A peer's text, safe to show: control characters and invalid UTF-8 become `?`."""
    return "".join(c if c.isprintable() else "?" for c in bytes(text).decode("utf-8", "replace"))


def known_code(number: int) -> ErrorCode:
    """A peer's reason; one that the protocol does not have is a breach of it."""
    return (
        ErrorCode(number)
        if ErrorCode.AUTHENTICATION <= number <= ErrorCode.STOPPED
        else ErrorCode.PROTOCOL
    )


def format_os_error(error: OSError) -> str:
    """The system's text for an error, without Python's additions."""
    return os.strerror(error.errno) if error.errno else str(error)
