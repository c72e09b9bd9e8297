"""What a failure of the engine says of reducers, and of those that are parts of workers."""

from __future__ import annotations

import pytest

from rsctl.transport.errors import (
    NO_RANK,
    EngineFailure,
    ErrorCode,
    known_code,
    printable,
)

PROTOCOL = {
    "AUTHENTICATION": 1,
    "MISMATCH": 2,
    "LOST": 3,
    "LIMIT": 4,
    "PROTOCOL": 5,
    "SUPERSEDED": 6,
    "SILENT": 7,
    "LEFT": 8,
    "GAVE_UP": 9,
    "STOPPED": 10,
}
NAMES = ["a:1", "b:2", "c:3"]
LOST = "it closed the connection"


@pytest.mark.parametrize(
    ("failure", "text", "reducer", "rank"),
    [
        (
            EngineFailure(ErrorCode.LOST, 0, NO_RANK, 4, LOST),
            f"reducer 0 (a:1) was lost during operation 4: {LOST}",
            0,
            None,
        ),
        (
            EngineFailure(ErrorCode.LOST, 2, NO_RANK, 4, LOST),
            f"rank 1 (c:3) was lost during operation 4: {LOST}",
            None,
            1,
        ),
        (
            EngineFailure(ErrorCode.SILENT, 1, NO_RANK, 0, "5 s"),
            "rank 0 (b:2) has been silent for 5 s",
            None,
            0,
        ),
        (
            EngineFailure(ErrorCode.LOST, 1, 1, 4, f"rank 1 was lost: {LOST}", remote=True),
            "the reducer of rank 0 (b:2) ended the run during operation 4: "
            f"rank 1 was lost: {LOST}",
            1,
            1,
        ),
        (
            EngineFailure(ErrorCode.LOST, 0, NO_RANK, 4, "rank 0 gave up", remote=True, relayed=2),
            "rank 1 was lost during operation 4",
            None,
            1,
        ),
    ],
)
def test_a_reducer_that_a_worker_hosts_is_that_worker(
    failure: EngineFailure, text: str, reducer: int | None, rank: int | None
) -> None:
    error = failure.error(NAMES, hosted=2)
    assert (error.message, error.reducer, error.rank) == (text, reducer, rank)
    assert failure.error(NAMES).message.startswith("reducer ")


def test_the_codes_of_the_protocol() -> None:
    """Both engines have them, and peers of other versions."""
    assert {code.name: code for code in ErrorCode if code <= ErrorCode.STOPPED} == PROTOCOL
    assert [known_code(number) for number in (0, 1, 10, 11, 100)] == [
        *(ErrorCode.PROTOCOL, ErrorCode.AUTHENTICATION, ErrorCode.STOPPED),
        *(ErrorCode.PROTOCOL, ErrorCode.PROTOCOL),
    ]


SILENT, DEADLINE, CLOSED = ErrorCode.SILENT, ErrorCode.DEADLINE, ErrorCode.CLOSED


@pytest.mark.parametrize(
    ("failure", "text", "blamed", "wire"),
    [
        (
            EngineFailure(DEADLINE, 1, NO_RANK, 4, "30 s"),
            "operation 4 has made no progress for 30 s",
            *(None, ErrorCode.GAVE_UP),
        ),
        (
            EngineFailure(DEADLINE, 1, 3, 4, "30 s"),
            "operation 4 has made no progress for 30 s; reducer 1 (b:2) waits for rank 3",
            *(None, ErrorCode.GAVE_UP),
        ),
        (
            EngineFailure(CLOSED, 0, NO_RANK, 0, ""),
            *("the transport was closed", None, ErrorCode.GAVE_UP),
        ),
        (
            EngineFailure(CLOSED, 0, NO_RANK, 9, ""),
            *("the transport was closed during operation 9", None, ErrorCode.GAVE_UP),
        ),
        (
            EngineFailure(SILENT, 2, NO_RANK, 0, "8 s"),
            *("reducer 2 (c:3) has been silent for 8 s", 2, SILENT),
        ),
        (
            EngineFailure(ErrorCode.PROTOCOL, 2, NO_RANK, 1, "no magic"),
            "reducer 2 (c:3) broke the protocol during operation 1: no magic",
            *(2, ErrorCode.PROTOCOL),
        ),
        (
            EngineFailure(ErrorCode.STOPPED, 0, NO_RANK, 1, "SIGTERM", remote=True),
            "reducer 0 (a:1) ended the run during operation 1: SIGTERM",
            *(None, ErrorCode.STOPPED),
        ),
        (
            EngineFailure(ErrorCode.LOST, 0, NO_RANK, 1, "gone", remote=True, relayed=2),
            "reducer 0 (a:1) ended the run during operation 1: gone",
            *(2, ErrorCode.LOST),
        ),
    ],
)
def test_what_a_failure_says(
    failure: EngineFailure, text: str, blamed: int | None, wire: ErrorCode
) -> None:
    assert (failure.message(NAMES), failure.blamed, failure.wire_code) == (text, blamed, wire)
    error = failure.error(NAMES)
    assert (str(error), error.code) == (text, failure.code)
    assert error.reducer == (failure.server if blamed is None else blamed)
    assert error.rank == (3 if failure.rank == 3 else None)
    assert error.sequence == (failure.sequence or None)
    for number, name in enumerate(NAMES):
        text = text.replace(f"reducer {number} ({name})", f"reducer {number}")
    assert failure.message() == text


def test_a_reducer_that_no_address_names() -> None:
    failure = EngineFailure(ErrorCode.LOST, 0, NO_RANK, 1, "gone", remote=True, relayed=3)
    assert failure.error(NAMES).reducer is None
    assert failure.error(NAMES, hosted=1).message.startswith("reducer 0 (a:1) ended the run")


def test_the_text_of_a_peer_is_safe_to_show() -> None:
    assert printable(b"a\x1b[31m\xffb\n\xc3\xa9") == "a?[31m\N{REPLACEMENT CHARACTER}b?é"
