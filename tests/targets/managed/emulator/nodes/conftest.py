"""Nodes of both kinds, and a listener that keeps what it hears."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.managed.emulator.nodes import JobNodes, Node, NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from tests.kit.docker import BASE as IMAGE
from tests.kit.docker import needs_docker

DEADLINE = 60.0


class Heard:
    """A listener that keeps everything in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, str]] = []
        self.ends: dict[str, list[int]] = {}
        self.order: list[str] = []
        self._changed = threading.Condition()

    def line(self, node: str, stream: str, text: str, time: str) -> None:
        with self._changed:
            self.lines.append((node, stream, text, time))
            self.order.append(text)
            self._changed.notify_all()

    def ended(self, node: str, code: int) -> None:
        with self._changed:
            self.ends.setdefault(node, []).append(code)
            self.order.append(f"ended {code}")
            self._changed.notify_all()

    def texts(self, node: str, stream: str = "stdout") -> list[str]:
        return [text for n, s, text, _ in self.lines if (n, s) == (node, stream)]

    def wait_for(self, node: str, text: str) -> None:
        with self._changed:
            heard = self._changed.wait_for(lambda: text in self.texts(node), DEADLINE)
        assert heard, (self.lines, self.ends)

    def wait_for_ends(self, count: int = 1) -> None:
        with self._changed:
            ended = self._changed.wait_for(
                lambda: sum(map(len, self.ends.values())) >= count, DEADLINE
            )
        assert ended, (self.lines, self.ends)


class BashNodes:
    """A runner with one job of nodes that run bash."""

    def __init__(self, runner: NodeRunner) -> None:
        self.runner = runner
        self.heard = Heard()
        self.nodes: JobNodes = runner.nodes("job", self.heard)

    def start(self, script: str, name: str = "one", *args: str, **fields: Any) -> Heard:
        fields = {"env": {}, "mounts": {}, **fields}
        entrypoint = ["bash", "-c", script, "bash"]
        self.nodes.start(Node(name, IMAGE, entrypoint, list(args), **fields))
        return self.heard

    def run(self, script: str, *args: str, **fields: Any) -> Heard:
        """Run a node to its end."""
        ends = sum(map(len, self.heard.ends.values()))
        self.start(script, "one", *args, **fields)
        self.heard.wait_for_ends(ends + 1)
        return self.heard


@pytest.fixture(params=["process", pytest.param("docker", marks=needs_docker)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bash_nodes(kind: str, tmp_path: Path) -> Iterator[BashNodes]:
    source = tmp_path / "app"
    source.mkdir()
    runner = make_runner(kind, {IMAGE: Program(source)})
    yield BashNodes(runner)
    runner.close()


def leftovers(owner: str) -> list[str]:
    """What there is of an owner, in processes, containers and networks."""
    mine = f"RSCTL_EMULATED_NODE={owner}:".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            found += [entry.name for variable in variables if variable.startswith(mine)]
    if shutil.which("docker"):
        label = ["--quiet", "--filter", f"label=rsctl.emulator={owner}"]
        for listing in (["docker", "ps", "--all"], ["docker", "network", "ls"]):
            said = subprocess.run([*listing, *label], capture_output=True, text=True)
            found += said.stdout.split()
    return found


def owners(home: Path) -> list[str]:
    """The owners that have not been cleared away."""
    return sorted(file.name.partition("-")[0] for file in (home / "emulators").glob("*.lock"))


ABRUPT = """
import os, signal, sys
from pathlib import Path
from rsctl.targets.managed.emulator.nodes import Node, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner

class Listener:
    def line(self, node, stream, text, time):
        print(text, flush=True)
    def ended(self, node, code):
        print("ended", flush=True)

runner = make_runner(sys.argv[1], {"*": Program(Path("/"))})
nodes = runner.nodes("job", Listener())
script = "setsid sleep 600 & trap '' TERM; echo up; sleep 600; sleep 600"
nodes.start(Node("one", sys.argv[2], ["bash", "-c", script], [], {}, {}))
signal.pause()
"""


@pytest.fixture
def abrupt(kind: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has a node running, which says `up`."""
    argv = [sys.executable, "-c", ABRUPT, kind, IMAGE]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()
