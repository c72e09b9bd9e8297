"""A thread that makes calls for an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class OwnThread:
    """Makes calls in their order, all in one thread, which does not delay the end of the process.

    A call that is cancelled after its start ends before the next one begins.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def call(self, function: Callable[[], Result]) -> Result:
        """The result of a call."""
        done: Future[Result] = Future()
        self._calls.put((function, done))
        return await asyncio.wrap_future(done)

    def end(self) -> None:
        """End the thread after the calls so far."""
        self._calls.put(None)

    def _work(self) -> None:
        for function, done in iter(self._calls.get, None):
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(function())
            except BaseException as problem:  # noqa: BLE001 - raised where the result is awaited
                done.set_exception(problem)
            del function, done
