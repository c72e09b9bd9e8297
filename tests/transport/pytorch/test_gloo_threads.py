"""What ends an interpreter waits for the threads of gloo, which newer versions of torch name."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from rsctl.transport.pytorch import gloo_threads
from rsctl.transport.pytorch.inspection import torch_is_before

_SET_NAME = 15  # PR_SET_NAME of prctl(2)


@pytest.mark.parametrize(
    ("name", "times", "is_awaited"),
    [(b"gloo_worker", 1, True), (b"other", 100, False)],
    ids=["of gloo", "another"],
)
def test_a_busy_thread(
    name: bytes, times: int, is_awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It computes without the interpreter's lock, as gloo's threads do."""
    monkeypatch.setattr(gloo_threads, "_SECONDS", 60.0)
    started, has_waited = threading.Event(), threading.Event()

    def work() -> None:
        ctypes.CDLL(None).prctl(_SET_NAME, name, 0, 0, 0)
        started.set()
        for _ in range(times):
            if not has_waited.is_set():
                hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 200_000)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    gloo_threads.wait()
    was_running = thread.is_alive()
    has_waited.set()
    thread.join()
    assert was_running is not is_awaited


@pytest.mark.parametrize(
    ("start", "is_awaited"),
    [
        ("_thread.start_new_thread(work, ())", True),
        ("threading.Thread(target=work).start()", False),
    ],
    ids=["that the module threading does not know", "that it knows"],
)
def test_a_busy_thread_where_none_has_a_name(start: str, is_awaited: bool) -> None:
    program = f"""
import _thread, hashlib, os, threading
from rsctl.transport.pytorch import gloo_threads

started, done = threading.Event(), threading.Event()
def work():
    started.set()
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", {200_000 if is_awaited else 2_000_000})
    done.set()

{start}
started.wait()
gloo_threads.wait()
print(done.is_set(), flush=True)
os._exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == (f"{is_awaited}\n", "")


@pytest.mark.parametrize(
    ("version", "is_before"),
    [("2.4.1+cu121", True), ("2.7.1", True), ("2.8.0a0+gitabc", False), ("2.13.0+cpu", False)],
)
def test_versions_of_torch_that_free_a_group_with_the_lock_held(
    monkeypatch: pytest.MonkeyPatch, version: str, is_before: bool
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    assert torch_is_before(8) is is_before
