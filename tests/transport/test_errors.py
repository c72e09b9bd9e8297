"""What a failure of the engine says of reducers, and of those that are parts of workers."""

from __future__ import annotations

import pytest

from rsctl.transport.errors import NO_RANK, EngineFailure, ErrorCode, known_code

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
