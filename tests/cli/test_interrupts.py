"""Signals count one by one, whatever the main thread is in."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable

import pytest

from rsctl.cli.interrupts import Interrupts
from tests.kit.polling import wait_until


def interrupt(times: int) -> None:
    """Send SIGINT to this process, each time after the one before has come."""
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: signal.SIGINT not in signal.sigpending())


def in_c_code(meanwhile: Callable[[], None]) -> None:
    """Call it in another thread, while this one waits where Python runs no handlers of signals."""
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    library.pthread_mutex_lock(mutex)

    def call_and_unlock() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            wait_until(lambda: mutex.raw[0] == 2)  # in glibc: locked, and somebody waits for it
            meanwhile()
        finally:
            library.pthread_mutex_unlock(mutex)

    threading.Thread(target=call_and_unlock).start()
    library.pthread_mutex_lock(mutex)


def test_a_second_signal_before_the_main_threads_next_step_is_a_second_one() -> None:
    interrupts, asked = Interrupts(), threading.Event()

    def twice() -> None:
        interrupt(1)
        assert asked.wait(60)
        interrupt(1)

    def be_interrupted() -> None:
        in_c_code(twice)
        threading.Event().wait(60)

    with interrupts.listening():
        interrupts.follow(asked.set)
        with pytest.raises(KeyboardInterrupt):
            be_interrupted()
    assert interrupts.count == 2


def test_the_first_signal_ends_a_wait() -> None:
    interrupts = Interrupts()

    def wait() -> None:
        threading.Thread(target=interrupt, args=(1,)).start()
        threading.Event().wait(60)

    with interrupts.listening(), pytest.raises(KeyboardInterrupt):
        wait()
    assert interrupts.count == 1


def test_what_comes_after_the_first_interrupts_nothing_until_it_is_asked_for() -> None:
    interrupts = Interrupts()
    with interrupts.listening():
        interrupts.hold()
        in_c_code(lambda: interrupt(3))
        wait_until(lambda: interrupts.count == 3)
        with pytest.raises(KeyboardInterrupt):
            interrupts.follow(lambda: None)
