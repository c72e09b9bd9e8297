"""The script's side of a soft stop: all ranks learn at the same step that they have to end.

The ranks of a job are asked at different moments, and a rank that ended one step before the others
would leave them in a collective that never completes. So they agree: once one is asked, a thread
of each rank reports how many calls of `should_stop` its rank has made, and holds the next one. The
step to stop at is the highest of these numbers and one: a rank that has not come there yet still
takes part in the steps before. The numbers travel through the store of torch's default process
group, which is read once a second; a call itself looks at a variable of this process only.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from rsctl.node.soft_stop import FOLDER, SIGNALS_ALL

_POLL_SECONDS = 0.2
_STORE_SECONDS = 1.0
_AGREE_SECONDS = 30.0
_FAST_SECONDS = 0.02
_NEVER = 0
_REPEATED_SECONDS = 3.0
"""SIGTERMs so soon after the node's request are the platform's, and those of who passes them on."""


class StopAgreement:
    """The calls of one rank, and the one from which on they answer True.

    `store` is what the ranks share, None for a rank that is alone: it needs `set`, `get` and
    `check` as torch.distributed.Store has them.
    """

    def __init__(self, folder: str, store: Any = None, rank: int = 0, ranks: int = 1) -> None:
        self._folder, self._store, self._rank, self._ranks = folder, store, rank, ranks
        self._calls = 0
        self._stop_at = _NEVER
        self._is_held = False
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._touch("used")
        self._thread = threading.Thread(target=self._watch, name="rsctl-stop", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def next_call(self) -> bool:
        """Count a call of should_stop; whether the rank must end now."""
        with self._changed:
            self._calls += 1
            while self._is_held:
                self._changed.wait()
            must_stop = self._stop_at != _NEVER and self._calls >= self._stop_at
        if must_stop:
            self._touch("stopped")
        return must_stop

    def close(self) -> None:
        """End the thread: it must not use the store while the interpreter ends."""
        self._closed.set()
        self._thread.join(_AGREE_SECONDS)

    def _watch(self) -> None:
        with suppress(Exception):  # the store ends with the rank that holds it
            if self._wait_until_asked() and not self._closed.is_set():
                self._agree()

    def _wait_until_asked(self) -> bool:
        """Wait until this rank or another is asked to end; False if the script ends before."""
        store_at = 0.0
        while not self._closed.wait(_POLL_SECONDS):
            if os.path.exists(os.path.join(self._folder, "asked")):
                if self._store is not None:
                    self._store.set("asked", "1")
                return True
            if self._store is not None and time.monotonic() >= store_at:
                store_at = time.monotonic() + _STORE_SECONDS
                if self._store.check(["asked"]):
                    return True
        return False

    def _agree(self) -> None:
        """Hold the calls of this rank until all know where to stop, then let them continue."""
        with self._changed:
            self._is_held = True
            calls = self._calls
        stop_at = _NEVER
        try:
            stop_at = calls + 1 if self._store is None else self._common_step(calls)
        finally:
            with self._changed:
                self._stop_at, self._is_held = stop_at, False
                self._changed.notify_all()

    def _common_step(self, calls: int) -> int:
        self._store.set(f"calls/{self._rank}", str(calls))
        if self._rank == 0:
            self._store.set("step", str(self._decide()))
        if not self._wait_for(["step"], 2 * _AGREE_SECONDS):
            return _NEVER
        return int(self._store.get("step"))

    def _decide(self) -> int:
        """The step at which all ranks stop; 0 if some do not call should_stop."""
        keys = [f"calls/{rank}" for rank in range(self._ranks)]
        if self._wait_for(keys, _AGREE_SECONDS):
            return max(int(self._store.get(key)) for key in keys) + 1
        missing = [str(rank) for rank, key in enumerate(keys) if not self._store.check([key])]
        print(
            f"rsctl: the ranks cannot agree where to stop: rank {', '.join(missing)} has not "
            "called should_stop(). Call it on every rank, once a step.",
            file=sys.stderr,
            flush=True,
        )
        return _NEVER

    def _wait_for(self, keys: list[str], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._store.check(keys):
            if time.monotonic() > until or self._closed.wait(_FAST_SECONDS):
                return False
        return True

    def _touch(self, name: str) -> None:
        with suppress(OSError), open(os.path.join(self._folder, name), "a", encoding="utf-8"):
            pass


_shared: list[StopAgreement] = []


def should_stop() -> bool:
    """See rsctl.node.should_stop."""
    if not _shared:
        agreement = _agreement()
        if agreement is None:
            return False
        if os.environ.get(SIGNALS_ALL):
            _hold_back_sigterm(os.environ[FOLDER])
        _shared.append(agreement)
    return _shared[0].next_call()


def _hold_back_sigterm(folder: str) -> None:
    """Ignore the SIGTERM that the platform sends to each process when it asks the node to end.

    A script with a handler of its own keeps it. A SIGTERM that comes later, at the end of the
    grace, ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def take(number: int, _frame: object) -> None:
        try:
            age = time.time() - os.stat(os.path.join(folder, "asked")).st_mtime
        except OSError:  # it comes before the node has written its request
            age = 0.0
        if age > _REPEATED_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, take)


def _agreement() -> StopAgreement | None:
    """The agreement of this process; None outside of a job, and without a process group."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    ranks = int(os.environ.get("WORLD_SIZE") or os.environ.get("NNODES") or 1)
    distributed: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if ranks == 1 or distributed is None or not distributed.is_available():
        return StopAgreement(folder)
    if not distributed.is_initialized():
        return None
    return StopAgreement(
        folder, _store(distributed), distributed.get_rank(), distributed.get_world_size()
    )


def _store(distributed: Any) -> Any:
    """A connection to the default group's store of our own, where torch can make one: a rank that
    waits in a call of the shared one would hold ours up.
    """
    store = distributed.distributed_c10d._get_default_store()
    with suppress(Exception):  # older torch, and stores that cannot be cloned
        store = store.clone()
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return distributed.PrefixStore(f"rsctl/stop/{attempt}", store)
