"""Handles signals that ask a command to end.

SIGINT (Ctrl-C), SIGTERM (a pipeline that ends the command), SIGHUP (a closed terminal), SIGQUIT
(Ctrl-\\), and the signals with which schedulers and limits end a process that does not handle them.
"""

from __future__ import annotations

import operator
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rsctl.api import Run
from rsctl.cli.output import abandon_unread
from rsctl.cli.show import print_message

_IF_NOT_IGNORED = (
    *(signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGPROF, signal.SIGXCPU),  # SIGVTALRM is rsctl's own: cpu_limit.py
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, *_IF_NOT_IGNORED)
_DO_NOTHING = operator.is_  # of the number and the frame
_POLL_SECONDS = 0.2
_REPEAT_SECONDS = 0.05


def cancels_on_interrupt(option: bool | None) -> bool:
    """The value of `--cancel-on-interrupt`; by default, whether a CI system runs this."""
    return os.environ.get("CI") == "true" if option is None else option


class Interrupts:
    """The signals that ask a command to end, from its first step to its last.

    The first raises KeyboardInterrupt in the main thread; later ones are only counted, so that they
    cannot cut short the work that the first one requires. A command that follows a run replaces
    this behavior with `follow`.

    Python calls a handler once for all signals since the main thread's last step, so a separate
    thread counts the bytes of `set_wakeup_fd`, and sends SIGURG to the main thread when it is time
    to raise. The handlers of the signals themselves are C code: in CPython 3.10 and 3.11 the
    exception of a handler that begins within another one is lost, and can leave a lock held.
    """

    def __init__(self) -> None:
        self.count = 0
        # None once it has raised: a second exception would cut short what the first one started.
        self._raise_at: int | None = 1
        self._raised_by = 1  # the number of signals when it raised
        self._on_first: Callable[[], None] | None = None
        self._main = threading.get_ident()

    @contextmanager
    def listening(self) -> Iterator[Interrupts]:
        """Handle the signals in this context, whose value is this object. Except for SIGINT and
        SIGTERM, signals that are ignored stay ignored, such as SIGHUP under nohup.
        """
        ignored = {n for n in _IF_NOT_IGNORED if signal.getsignal(n) is signal.SIG_IGN}
        numbers = [n for n in SIGNALS if n not in ignored]
        received, write_end = os.pipe()
        os.set_blocking(write_end, False)
        ending, end = os.pipe()
        watcher = threading.Thread(target=self._watch, args=(received, ending), daemon=True)
        # The kernel delivers a signal to any thread that does not block it, but only in the main
        # thread does it interrupt a blocking call. The watcher inherits the blocked signals.
        unmasked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        watcher.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, unmasked)
        wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        before = {number: signal.signal(number, _DO_NOTHING) for number in numbers}
        before[signal.SIGURG] = signal.signal(signal.SIGURG, self._raise_if_due)
        try:
            yield self
        finally:
            raise_at = self._raise_at
            self.hold()  # or a signal could leave some of rsctl's handlers, with closed pipes
            os.write(end, b"\0")
            watcher.join()  # before its SIGURG could meet the earlier handler
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            for file in (received, write_end, ending, end):
                os.close(file)
            if raise_at is not None and self.count >= raise_at:
                raise KeyboardInterrupt  # also if an error of a child that it ended came first

    def hold(self) -> None:
        """From now on, count signals and interrupt nothing."""
        self._raise_at, self._on_first = None, None

    def follow(self, on_first: Callable[[], None] | None) -> None:
        """From now on, the first signal calls `on_first`, and the second raises KeyboardInterrupt;
        without `on_first` the first raises it.

        Another thread calls `on_first`, regardless of what the main thread waits for, and may call
        it again. Signals that arrived earlier count.
        """
        self._on_first = on_first
        self._raise_at = 2 if on_first else 1
        if self.count and on_first:
            on_first()
        self._raise_if_due()

    def _raise_if_due(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        if self._is_due():
            self._raise_at, self._raised_by = None, self.count
            raise KeyboardInterrupt

    def _is_due(self) -> bool:
        return self._raise_at is not None and self.count >= self._raise_at

    def _watch(self, received: int, ending: int) -> None:
        """Count signals, and call `on_first` even if the main thread waits for a lookup of a host
        or for a lock.
        """
        seen, is_due = 0, False
        while True:
            # Sent again, because a signal just before a system call does not interrupt that call.
            wait = _REPEAT_SECONDS if is_due else None
            ready, _, _ = select.select([received, ending], [], [], wait)
            numbers = os.read(received, 4096) if received in ready else b""
            self.count += sum(number in SIGNALS for number in numbers)
            if ending in ready:
                return
            has_raised = self._raise_at is None and self.count > self._raised_by
            if has_raised and signal.SIGQUIT in numbers:  # the way out: something cannot be stopped
                os._exit(128 + signal.SIGQUIT)
            was_due, is_due = is_due, self._is_due()
            if is_due and not (was_due and ready):
                signal.pthread_kill(self._main, signal.SIGURG)
            if self.count > seen and (on_first := self._on_first):
                seen = self.count  # not in this thread: it may wait, as for a full pipe
                threading.Thread(target=on_first, daemon=True).start()


class BackgroundCancel:
    """The cancellation of a run: sent once, from a separate thread, so that nothing delays it."""

    def __init__(self, run: Run) -> None:
        self.is_asked = False
        self._run = run
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._problem: BaseException | None = None

    def ask(self) -> None:
        """Send the cancellation unless it has been sent; returns immediately."""
        with self._lock:
            if self.is_asked:
                return
            self.is_asked = True
            # The main thread may be waiting for a slow answer of the same cloud.
            threading.Thread(target=self._send, daemon=True).start()
        abandon_unread(2)
        print_message("cancelling; interrupt again to stop waiting for the end")

    def check(self) -> None:
        """Raise the error of the cancellation, if it failed."""
        if self._problem is not None:
            raise self._problem

    def wait(self) -> None:
        """Wait for the target's answer, if a cancellation was sent. Raises its error."""
        if self.is_asked:
            if not self._answered.is_set():
                print_message(
                    "waiting for the target to confirm the cancellation of "
                    f"{self._run.id}; Ctrl-\\ exits immediately"
                )
            self._answered.wait()
            self.check()

    def wait_unless_ended(self) -> None:
        """Wait for the answer while it still matters: while the run has not ended."""
        while self.is_asked and not self._answered.wait(_POLL_SECONDS):
            if self._run.reload().state.is_final:
                return

    def _send(self) -> None:
        try:
            self._run.request_cancel()
        except BaseException as problem:  # noqa: BLE001 - raised again in the main thread
            self._problem = problem
        self._answered.set()
