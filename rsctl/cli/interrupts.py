"""What SIGINT (Ctrl-C), SIGTERM (a pipeline that ends us) and SIGHUP (a closed terminal) do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rsctl.api import Run
from rsctl.cli.show import print_message

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 0.2


def cancels_on_interrupt(option: bool | None) -> bool:
    """What `--cancel-on-interrupt` says; by default whether a CI system runs this."""
    return os.environ.get("CI") == "true" if option is None else option


class Interrupts:
    """The signals that ask a command to end, from its first step to its last.

    The first raises KeyboardInterrupt in the main thread; those after it are only counted, so that
    they cannot cut short what the first one made necessary. A command that follows a run sets by
    `follow` what they do instead.
    """

    def __init__(self) -> None:
        self.count = 0
        self._raise_at: int | None = 1
        self._on_first: Callable[[], None] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals in here. SIGHUP stays ignored where it is, as under nohup."""
        is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = [n for n in SIGNALS if n != signal.SIGHUP or not is_nohup]
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        watcher = threading.Thread(target=self._watch, args=(read_end,), daemon=True)
        unmasked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # what the main thread blocks
        watcher.start()  # for a while must not come to this one instead
        signal.pthread_sigmask(signal.SIG_SETMASK, unmasked)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            self.hold()
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(write_end)  # which ends the watcher
            watcher.join()

    def hold(self) -> None:
        """From now on count signals, and interrupt nothing."""
        self._raise_at, self._on_first = None, None

    def follow(self, on_first: Callable[[], None] | None) -> None:
        """From now on the first signal calls `on_first`, and the second raises KeyboardInterrupt;
        without `on_first` the first raises it.

        `on_first` is called from another thread, whatever the main thread waits for, and may be
        called again. Signals that have come before count.
        """
        self._on_first = on_first
        self._raise_at = 2 if on_first else 1
        if self.count and on_first:
            on_first()
        self._raise_if_due()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._raise_at is not None and self.count >= self._raise_at:
            self._raise_at = None
            raise KeyboardInterrupt

    def _watch(self, read_end: int) -> None:
        """Python calls `_on_signal` between two steps of the main thread only, which may be in the
        look-up of a host's name, or wait for a lock. The bytes of `set_wakeup_fd` come at once.
        """
        with open(read_end, "rb", buffering=0) as signals:
            while number := signals.read(1):
                on_first = self._on_first
                if number[0] in SIGNALS and on_first is not None:
                    on_first()


class Cancel:
    """The cancel of a run: sent once, from a thread of its own, so that nothing delays it."""

    def __init__(self, run: Run) -> None:
        self.is_asked = False
        self._run = run
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._problem: BaseException | None = None

    def ask(self) -> None:
        """Send it, unless that has been done; returns at once."""
        with self._lock:
            if self.is_asked:
                return
            self.is_asked = True
            threading.Thread(target=self._send, daemon=True).start()
        print_message("cancelling; interrupt once more to stop waiting for the end")

    def check(self) -> None:
        """Raise the error that came instead of an answer, if any."""
        if self._problem is not None:
            raise self._problem

    def wait(self) -> None:
        """Wait for the target's answer, if it was asked. Raises the error that came instead."""
        if self.is_asked:
            if not self._answered.is_set():
                print_message(
                    f"waiting until {self._run.id} is known to be cancelled; Ctrl-\\ leaves at once"
                )
            self._answered.wait()
            self.check()

    def settle(self) -> None:
        """Wait for the answer where it still matters: while the run has not ended."""
        while self.is_asked and not self._answered.wait(_POLL_SECONDS):
            if self._run.reload().state.is_final:
                return

    def _send(self) -> None:
        try:
            self._run.ask_to_end()
        except BaseException as problem:  # noqa: BLE001 - raised again in the main thread
            self._problem = problem
        self._answered.set()
