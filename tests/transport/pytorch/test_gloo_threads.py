"""What ends an interpreter waits for the threads of gloo, which are known by their names."""

from __future__ import annotations

import ctypes
import hashlib
import threading

import pytest

from rsctl.transport.pytorch import gloo_threads

_SET_NAME = 15  # PR_SET_NAME of prctl(2)


@pytest.mark.parametrize(
    ("name", "rounds", "is_awaited"),
    [(b"gloo_worker", 200_000, True), (b"other", 2_000_000, False)],
    ids=["of gloo", "another"],
)
def test_a_busy_thread(name: bytes, rounds: int, is_awaited: bool) -> None:
    """It computes without the interpreter's lock, as gloo's threads do."""
    started = threading.Event()

    def work() -> None:
        ctypes.CDLL(None).prctl(_SET_NAME, name, 0, 0, 0)
        started.set()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", rounds)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    gloo_threads.wait()
    was_running = thread.is_alive()
    thread.join()
    assert was_running is not is_awaited
