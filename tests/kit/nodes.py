"""Nodes of an emulated cloud that exist in memory: tests say what they print and how they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rsctl.targets.managed.emulator.nodes import Node, NodeListener

GRACEFUL, KILLED = 143, 137


class MemoryNodes:
    """Nodes of one job. One that is asked to stop ends at once with 143."""

    def __init__(self, listener: NodeListener) -> None:
        self.listener = listener
        self.up: dict[str, Node] = {}
        self.history: list[str] = []
        self.used: dict[str, object] = {}
        self.is_closed = False

    def label(self, name: str) -> str:
        """What the history calls a node."""
        return name

    def address(self, name: str) -> str:
        return name

    def port(self, name: str, wanted: int) -> int:
        return wanted

    def start(self, node: Node) -> None:
        assert node.name not in self.up
        self.history.append(f"start {self.label(node.name)}")
        self.up[node.name] = node

    def stop(self, name: str, grace: float) -> None:
        self._end(name, "stop", GRACEFUL)

    def kill(self, name: str) -> None:
        self._end(name, "kill", KILLED)

    def usage(self, name: str) -> dict[str, object]:
        return self.used if name in self.up else {}

    def close(self) -> None:
        for name in list(self.up):
            self._end(name, "close", KILLED)
        self.is_closed = True

    def _end(self, name: str, how: str, code: int) -> None:
        if name in self.up:
            self.history.append(f"{how} {self.label(name)}")
            del self.up[name]
            self.listener.ended(name, code)


Nodes = TypeVar("Nodes", bound=MemoryNodes)


class MemoryRunner(Generic[Nodes]):
    """Makes such nodes for each job; `prepare` may change them before the job gets them."""

    def __init__(self, kind: str, make: Callable[[NodeListener], Nodes]) -> None:
        self.kind = kind
        self.jobs: dict[str, Nodes] = {}
        self.missing: set[str] = set()
        self.prepare: Callable[[Nodes], None] = lambda nodes: None
        self._make = make

    def has_image(self, image: str) -> bool:
        return image not in self.missing

    def nodes(self, job: str, listener: NodeListener, isolated: bool = False) -> Nodes:
        made = self._make(listener)
        self.prepare(made)
        self.jobs[job] = made
        return made

    def close(self) -> None:
        for nodes in self.jobs.values():
            nodes.close()
