"""Signals count one by one, whatever the main thread is in."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO

import pytest

from rsctl.cli.interrupts import Interrupts
from rsctl.runs.stream.cpu_limit import CpuLimit, TooSlow
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


def test_the_second_signal_interrupts_while_the_first_is_dealt_with() -> None:
    """The message to the user may wait for a reader of the pipe."""
    interrupts, asked, read = Interrupts(), threading.Event(), threading.Event()

    def ask() -> None:
        asked.set()
        read.wait(60)

    try:
        with interrupts.listening():
            interrupts.follow(ask)
            interrupt(1)
            assert asked.wait(60)
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come in either step
                interrupt(1)
                assert not threading.Event().wait(20)
    finally:
        read.set()


def test_what_comes_after_the_first_interrupts_nothing_until_it_is_asked_for() -> None:
    interrupts = Interrupts()
    with interrupts.listening():
        interrupts.hold()
        in_c_code(lambda: interrupt(3))
        wait_until(lambda: interrupts.count == 3)
        with pytest.raises(KeyboardInterrupt):
            interrupts.follow(lambda: None)


def test_an_error_that_an_interruption_causes_is_not_the_end() -> None:
    """Ctrl-C ends git, too, whose end the main thread may see before the signal is counted."""

    def fail() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError

    for _ in range(100):
        with pytest.raises(KeyboardInterrupt), Interrupts().listening():
            fail()


SENDER = """
import os, signal
while os.read(0, 1):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(os.getppid(), number)
"""


def test_different_signals_at_once_interrupt_once_and_leave_nothing_behind() -> None:
    """In CPython 3.10 and 3.11 a handler that begins within another one can lose its exception."""

    def be_interrupted(ask: IO[bytes]) -> None:
        ask.write(b"x")
        while True:
            os.stat("/")

    def interrupt_with_all(ask: IO[bytes]) -> None:
        interrupts = Interrupts()
        with interrupts.listening():
            interrupts.follow(lambda: None)
            with pytest.raises(KeyboardInterrupt):
                be_interrupted(ask)
            wait_until(lambda: interrupts.count == 3)

    command = [sys.executable, "-c", SENDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as sender:
        assert sender.stdin
        for _ in range(100):
            interrupt_with_all(sender.stdin)
        sender.stdin.close()


ENDING = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM", "PROF", "XCPU"]


@pytest.mark.parametrize("name", ENDING)
def test_signals_that_would_end_the_process_ask_for_the_end(name: str) -> None:
    interrupts, asked = Interrupts(), threading.Event()
    number = signal.Signals[f"SIG{name}"]
    with interrupts.listening():
        interrupts.follow(asked.set)
        os.kill(os.getpid(), number)
        assert asked.wait(60)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come in either step
            os.kill(os.getpid(), number)
            threading.Event().wait(60)
    assert interrupts.count == 2


def test_a_regex_that_takes_too_long_interrupts_nothing() -> None:
    """Its time limit is a signal. A command that reads the log of a job in a cloud would cancel
    that job, or leave it.
    """
    interrupts = Interrupts()
    with interrupts.listening():
        interrupts.hold()
        with pytest.raises(TooSlow):
            CpuLimit().run(0, lambda: re.search(r"(a+)+$", "a" * 60 + "b"))
        assert interrupts.count == 0
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until(lambda: interrupts.count > 0)
    assert interrupts.count == 1


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        interrupts = Interrupts()
        with interrupts.listening():
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        assert interrupts.count == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_after_an_interrupt_sigquit_is_the_way_out() -> None:
    child = os.fork()
    if child == 0:
        interrupts = Interrupts()
        with interrupts.listening():
            try:
                os.kill(os.getpid(), signal.SIGQUIT)
                threading.Event().wait(60)
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGQUIT)
                threading.Event().wait(60)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGQUIT
