"""The smallest cloud: one job of one node, begun by a call. It is busy while the node runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rsctl.targets.managed.emulator.http import Emulator, Reply, Request, route
from rsctl.targets.managed.emulator.nodes import JobNodes, Node, NodeRunner


class FakeBehaviour:
    pace = 1.0

    def change(self, wanted: dict[str, Any]) -> None:
        for name, value in wanted.items():
            if name not in ("pace", "mood"):
                raise ValueError(f"there is no field {name!r}; use pace, mood")
            setattr(self, name, value)


class FakeCloud(Emulator):
    def __init__(self, folder: Path, runner: NodeRunner, region: str = "nowhere") -> None:
        super().__init__()
        self.behaviour = FakeBehaviour()
        self.looks = 0
        self._is_idle = True
        self._folder, self._runner, self._region = folder, runner, region
        self._nodes: JobNodes | None = None
        self.routes = [
            route("begin", "POST", "/begin/{image*}", self._begin, is_open=True),
            route("where", "GET", "/where", self._where, is_open=True),
            route("looks", "GET", "/looks", lambda _: Reply.of(self.looks), is_open=True),
        ]

    @property
    def is_idle(self) -> bool:
        self.looks += 1
        return self._is_idle

    def environment(self) -> dict[str, str]:
        return {"FAKE_CLOUD": self.url, "AWS_REGION": self._region}

    def _where(self, request: Request) -> Reply:
        where = {"region": self._region, "buckets": str((self._folder / "gs").resolve())}
        return Reply.of({**where, **vars(self.behaviour)})

    def _begin(self, request: Request) -> Reply:
        self._is_idle = False
        self._nodes = self._runner.nodes("job", self)
        script = "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"
        node = Node("one", request.parts["image"], ["bash", "-c", script], [], {}, {})
        self._nodes.start(node)
        return Reply.of({})

    def line(self, node: str, stream: str, text: str, time: str) -> None:
        pass

    def ended(self, node: str, code: int) -> None:
        self._is_idle = True

    def stop(self) -> None:
        if self._nodes:
            self._nodes.close()

    def error(self, status: int, code: str, message: str) -> Reply:
        return Reply.of({"error": message}, status)
