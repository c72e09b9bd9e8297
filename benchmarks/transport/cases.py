"""The judged table: which pools, links and sizes, and what each is allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rsctl.transport import cost_model
from rsctl.transport.cost_model import Links

MB = 1_000_000


@dataclass(frozen=True)
class Case:
    """A pool on a network. `mbit` is every link's; `slow_worker` and `slow_reducer` halve the
    first one's. `congestion` is the control of our sockets, by default our own choice; `loss` the
    part of packets that are dropped on arrival. `limit` is the most, in units of what the wires
    need; `faster` the least, in units of gloo's time.
    """

    name: str
    workers: int
    reducers: int
    mbit: int
    size: int = 25 * MB
    mtu: int = 1500
    buffer: int = 3 * MB
    congestion: str | None = None
    loss: float = 0
    slow_worker: bool = False
    slow_reducer: bool = False
    engine: str = "core"
    limit: float | None = 1.05
    faster: float | None = None

    def bits(self) -> list[float]:
        """The bandwidth of every node, workers first."""
        full = self.mbit * 1e6
        workers, reducers = [full] * self.workers, [full] * self.reducers
        if self.slow_worker:
            workers[0] /= 2
        if self.slow_reducer:
            reducers[0] /= 2
        return workers + reducers

    def links(self) -> Links:
        """The cards' net rate."""
        goods = [cost_model.net_rate(bits, self.mtu) for bits in self.bits()]
        return Links(self.workers, min(goods[: self.workers]), tuple(goods[self.workers :]))

    def wire_seconds(self) -> float:
        """What the wires need at least, by the better of a pure and a hybrid pool."""
        links = self.links()
        return min(
            cost_model.pure_seconds(links, self.size), cost_model.hybrid_seconds(links, self.size)
        )

    def ring_seconds(self) -> float:
        """What a ring of the workers alone needs at least."""
        return cost_model.ring_seconds(self.links(), self.size)


def _cases() -> list[Case]:
    cases = [
        Case(f"n{n}m{n}-{mbit}-{size}MB", n, n, mbit, size * MB)
        for n in (4, 8)
        for mbit in (200, 500)
        for size in (25, 100)
    ]
    four = Case("n4m4-200", 4, 4, 200)
    cases += [
        replace(four, name="python-n4m4-200", engine="python", limit=1.08),
        Case("python-n8m8-200", 8, 8, 200, engine="python", limit=1.08),
        Case("n4m4-1000", 4, 4, 1000),
        Case("n4m4-2000-jumbo", 4, 4, 2000, 100 * MB, mtu=9000),
        Case("n4m1-200", 4, 1, 200, limit=None, faster=1.10),
        Case("n4m2-200", 4, 2, 200, limit=None, faster=1.20),
        Case("n8m4-200", 8, 4, 200, limit=None, faster=1.30),
    ]
    cases += [
        replace(four, name=f"n4m4-200-{name}", congestion=name) for name in ("bbr", "cubic", "reno")
    ]
    cases += [
        Case(f"n8m8-200-shallow-{name}", 8, 8, 200, buffer=MB // 2, congestion=name)
        for name in ("bbr", "cubic", "reno")
    ]
    cases += [
        replace(four, name="n4m4-200-slow-worker", slow_worker=True, limit=1.10),
        replace(four, name="n4m4-200-slow-reducer", slow_reducer=True, limit=1.10),
        replace(four, name="n4m4-200-loss", loss=0.01, limit=None),
        Case("n8m8-4KB", 8, 8, 10_000, 4096, limit=None, faster=5.0),
    ]
    return cases


CASES = {case.name: case for case in _cases()}
