"""Pools of reducers and workers on loopback, with the core or the Python engine on either side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rsctl.transport import Transport, WorkerSettings, connect
from rsctl.transport.engines import reducer_engine
from rsctl.transport.native import library
from rsctl.transport.server import Reducer
from rsctl.transport.tls import Tls

TOKEN = b"a token of this test, thirty bytes"
NEEDS_CORE = pytest.mark.skipif(not library(), reason="no core")
ENGINES = ["python", pytest.param("core", marks=NEEDS_CORE)]


class Pool:
    """Reducers, and the settings of the workers that belong to them."""

    def __init__(self, engine: str, identity: str | None = None) -> None:
        self.engine = engine
        self.identity = identity
        self.reducers: list[Reducer] = []
        self.others: list[tuple[str, int]] = []

    def start(self, reducers: int, memory: int = 1 << 30) -> None:
        """Start reducers on loopback."""
        for _ in range(reducers):
            core = self.engine == "core"
            self.reducers.append(
                Reducer(
                    "127.0.0.1",
                    0,
                    TOKEN,
                    "run",
                    lambda group, core=core: reducer_engine(group, core),
                    memory,
                    tls=self.tls(),
                )
            )

    def tls(self) -> Tls | None:
        """TLS of one process by the pool's identity, if it has one."""
        return Tls(self.identity, self.engine == "core") if self.identity else None

    def settings(self, rank: int, world: int, **changes: Any) -> WorkerSettings:
        """One worker's settings."""
        addresses = (*(reducer.address for reducer in self.reducers), *self.others)
        core = self.engine == "core"
        known = WorkerSettings("run", TOKEN, rank, world, addresses, core=core, patience=30)
        if "tls" not in changes:
            changes["tls"] = self.tls()
        return replace(known, **changes)

    def run(self, world: int, work: Callable[[Transport, int], Any], **changes: Any) -> list[Any]:
        """Do this work as each of the workers at once; results, or exceptions, by rank."""
        return in_threads(world, lambda rank: self._one(rank, world, work, changes))

    def _one(self, rank: int, world: int, work: Any, changes: dict[str, Any]) -> Any:
        changes = dict(changes)
        exchange = changes.pop("exchange", None)
        with connect(self.settings(rank, world, **changes), exchange and exchange(rank)) as made:
            return work(made, rank)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call this with 0, 1, ... at once; results, or the exceptions instead."""
    results: list[Any] = [None] * count

    def one(number: int) -> None:
        try:
            results[number] = work(number)
        except Exception as error:  # noqa: BLE001 - for the test to look at
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class TextExchange:
    """An exchange of texts between threads: what PyTorch's store is between processes."""

    def __init__(self, world: int) -> None:
        self._texts = [""] * world
        self._all = threading.Barrier(world)

    def of(self, rank: int) -> Callable[[str], list[str]]:
        """This rank's side of the exchange."""

        def exchange(text: str) -> list[str]:
            self._texts[rank] = text
            self._all.wait(10)
            return list(self._texts)

        return exchange


@pytest.fixture
def identity() -> str | None:
    """What makes pools use TLS; modules override it."""
    return None


@pytest.fixture(params=ENGINES)
def pool(request: pytest.FixtureRequest, identity: str | None) -> Iterator[Pool]:
    """An empty pool; its reducers and workers use one engine."""
    made = Pool(request.param, identity)
    yield made
    for reducer in made.reducers:
        reducer.close()
