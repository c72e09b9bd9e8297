"""Averages of local steps that do not wait for the slowest workers.

Once enough workers have brought their changes to an exchange, the first rank closes it. A thread of
each worker takes part in every exchange, so that no worker waits for one that still trains: its
part is zeros, and its change stays with it and counts in its next exchange. The set of workers is
decided once for an exchange, and all of them receive the same average.

A worker is left out at most once in a row. Otherwise one that is always late would never count, and
the copies would drift apart.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from typing import Protocol

import torch

_POLL_SECONDS = 0.01
_PATIENCE = 0.1
"""How much longer than the quorum an exchange waits for the others, as a part of the time since the
last exchange: workers of the same speed differ by some percent."""

_LONGEST_SECONDS = 1800.0

_running: list[Quorum] = []


class Store(Protocol):
    """The part of PyTorch's stores that is used."""

    def set(self, key: str, value: str) -> None:
        """Publish a value."""

    def get(self, key: str) -> bytes:
        """The value, once it is there."""

    def check(self, keys: list[str]) -> bool:
        """Whether all of these are there."""

    def delete_key(self, key: str) -> bool:
        """Remove a value."""


class Quorum:
    """The exchanges of one device's parameters. Workers begin them in the same order.

    `average` averages a flat tensor over all workers in place, and blocks meanwhile. `timeout` is
    how long an exchange may wait for a worker that must count, in seconds.
    """

    def __init__(
        self,
        average: Callable[[torch.Tensor], None],
        store: Store,
        rank: int,
        world: int,
        quorum: int,
        timeout: float | None = None,
    ) -> None:
        self._average = average
        self._store = store
        self._rank = rank
        self._world = world
        self._quorum = quorum
        self._timeout = timeout or _LONGEST_SECONDS
        self._changed = threading.Condition()
        self._begun: dict[int, torch.Tensor] = {}
        self._results: dict[int, tuple[torch.Tensor, bool]] = {}
        self._failure: Exception | None = None
        self._next = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="rsctl-quorum", daemon=True)
        self._thread.start()
        _running.append(self)

    def begin(self, change: torch.Tensor) -> Callable[[], bool]:
        """Bring a change to the next exchange.

        The returned function waits until `change` is the average of those that counted, and says
        whether this worker's did. It raises RuntimeError if the exchange has failed.
        """
        with self._changed:
            number, self._next = self._next, self._next + 1
            self._begun[number] = change.clone()
        self._store.set(f"{number}/{self._rank}", str(change.numel()))

        def wait() -> bool:
            with self._changed:
                self._changed.wait_for(lambda: number in self._results or self._failure)
                if number not in self._results:
                    raise RuntimeError(f"an exchange of local steps failed: {self._failure}")
                average, has_counted = self._results.pop(number)
                self._begun.pop(number, None)
            change.copy_(average)
            return has_counted

        return wait

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._thread.join(5)

    def _run(self) -> None:
        number, closed, left_out = 0, time.monotonic(), set(range(self._world))
        try:
            while not self._stopping:
                if self._rank == 0:
                    self._close(number, closed, left_out)
                if not self._until(functools.partial(self._has, number, "closed")):
                    return
                decided = json.loads(self._store.get(f"{number}/closed"))
                left_out, closed = set(decided["left_out"]), time.monotonic()
                self._take_part(number, decided["numel"], left_out)
                number += 1
        except Exception as error:  # noqa: BLE001 - for the thread that trains
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take_part(self, number: int, numel: int, left_out: set[int]) -> None:
        mine = None
        if self._rank not in left_out:
            with self._changed:
                mine = self._begun[number]
        average = torch.zeros(numel) if mine is None else mine
        self._average(average)
        if left_out:
            average *= self._world / (self._world - len(left_out))
        with self._changed:
            self._results[number] = average, mine is not None
            self._changed.notify_all()
        if self._rank == 0 and number:
            self._forget(number - 1)

    def _forget(self, number: int) -> None:
        """Remove an exchange from the store, once the next one has ended: all workers have come to
        it by then, also one that was left out.
        """
        for key in ("closed", *range(self._world)):
            self._store.delete_key(f"{number}/{key}")

    def _close(self, number: int, last: float, must_count: set[int]) -> None:
        """Decide whose changes count, once there are enough. Raises TimeoutError."""
        enough: float | None = None
        limit = 0.0

        def is_ready() -> bool:
            nonlocal enough, limit
            here = {rank for rank in range(self._world) if self._has(number, rank)}
            now = time.monotonic()
            if here and not limit:
                limit = now + self._timeout
            if enough is None and len(here) >= self._quorum:
                enough = now
            if len(here) == self._world:
                return True
            missing = sorted(must_count - here)
            if limit and now > limit:
                text = f"ranks {missing or sorted(set(range(self._world)) - here)} have not come"
                raise TimeoutError(f"{text} for {self._timeout:g} s")
            patience = _PATIENCE * ((enough or now) - last)
            return enough is not None and not missing and now - enough >= patience

        if not self._until(is_ready):
            return
        here = [rank for rank in range(self._world) if self._has(number, rank)]
        numel = int(self._store.get(f"{number}/{here[0]}"))
        left_out = sorted(set(range(self._world)) - set(here))
        self._store.set(f"{number}/closed", json.dumps({"numel": numel, "left_out": left_out}))

    def _has(self, number: int, key: int | str) -> bool:
        return bool(self._store.check([f"{number}/{key}"]))

    def _until(self, holds: Callable[[], bool]) -> bool:
        """Wait for a condition; False after `stop`."""
        while not self._stopping:
            if holds():
                return True
            time.sleep(_POLL_SECONDS)
        return False


def stop_all() -> None:
    """End the threads of all exchanges, before the store goes."""
    while _running:
        _running.pop().stop()
