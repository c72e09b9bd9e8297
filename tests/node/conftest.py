"""Nodes as a user has them: `rsctl-launch` in a process of its own, its output in files."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rsctl_start
from tests.kit.polling import DEADLINE_SECONDS, wait_until

ROOT = Path(__file__).parents[2]


class Node:
    """A running `rsctl-launch`."""

    def __init__(self, folder: Path, argv: Sequence[str], environ: dict[str, str]) -> None:
        folder.mkdir()
        self._out, self._err = folder / "stdout", folder / "stderr"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                argv, env=environ, cwd=folder, stdout=out, stderr=err, start_new_session=True
            )

    @property
    def out(self) -> str:
        """What it printed, but for the line that every node begins with, at its own time, and the
        marks by which lines name the rank that wrote them.
        """
        return re.sub(r"(?m)^\[worker-\d+/\d+\] ", "", self.marked_out)

    @property
    def marked_out(self) -> str:
        """What it printed, but for the line that every node begins with."""
        lines = self._out.read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith('{"rsctl": "versions"'))

    @property
    def err(self) -> str:
        return self._err.read_text()

    def printed(self, text: str) -> str:
        """Wait for a whole line on stdout that begins with this; returns the rest of it."""

        def found() -> list[str]:
            return [row for row in self._complete() if row.startswith(text)]

        return str(wait_until(found)[0]).removeprefix(text).strip()

    def wait_for_stderr(self, text: str) -> None:
        """Wait until stderr has this."""
        wait_until(lambda: text in self.err)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """The structured lines of a kind, so far."""
        start = f'{{"rsctl": "{kind}"'
        rows = self._out.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(row) for row in rows if row.startswith(start)]

    def next_line(self, kind: str) -> dict[str, Any]:
        """Wait for one more structured line of a kind than there is now."""
        seen = len(self.lines(kind))
        return dict(wait_until(lambda: self.lines(kind)[seen:])[0])

    def wait(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)

    def _complete(self) -> list[str]:
        return self.out.rpartition("\n")[0].splitlines()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_SECONDS)


def cluster(**fields: Any) -> str:
    """RSCTL_CLUSTER of a job of one worker, but for these fields."""
    alone = {"role": "worker", "index": 0, "workers": ["127.0.0.1"], "reducers": []}
    return json.dumps({**alone, **fields})


LaunchNode = Callable[..., Node]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[LaunchNode]:
    """Start a node with these arguments and environment variables.

    `cluster_fields` are its fields of RSCTL_CLUSTER, which a cloud's node does not have; `via` is
    put before the command line, as `sudo` is. `root` is the folder with the package.
    """
    nodes: list[Node] = []

    def start(
        *arguments: str,
        cluster_fields: dict[str, Any] | None = None,
        via: Sequence[str] = (),
        root: Path = ROOT,
        **extra: str,
    ) -> Node:
        unset = {"RANK", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}
        environ = {name: value for name, value in os.environ.items() if name not in unset}
        environ |= {"PYTHONPATH": str(ROOT), "RSCTL_TELEMETRY_SECONDS": "0"}
        if extra.get("RSCTL_TARGET") not in ("vertex", "sagemaker"):
            environ["RSCTL_CLUSTER"] = cluster(**(cluster_fields or {}))
        environ |= extra
        argv = [*via, *rsctl_start.command("rsctl.node.launch", root=str(root)), *arguments]
        nodes.append(Node(tmp_path / f"node-{len(nodes)}", argv, environ))
        return nodes[-1]

    yield start
    for node in nodes:
        node.end()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a training script and return its path."""

    def write(source: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(source)
        return str(path)

    return write


@pytest.fixture
def gone() -> Callable[[int], None]:
    """Wait until a process is no more."""

    def wait(pid: int) -> None:
        wait_until(lambda: not Path(f"/proc/{pid}/stat").exists() or _state(pid) in ("Z", None))

    return wait


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return None


@pytest.fixture
def addresses() -> Callable[[int], list[str]]:
    """So many addresses of the loopback that no other test uses now, not in order."""

    def take(count: int) -> list[str]:
        net = f"127.{os.getpid() % 253 + 1}.{next(_nets) % 254 + 1}"
        return [f"{net}.{number}" for number in range(count + 8, 8, -1)]

    return take


_nets = itertools.count()


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens at now, below those of jobs on this machine and of the kernel."""
    while True:
        port = 10_000 + (os.getpid() * 64 + next(_ports)) % 10_000
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port


_ports = itertools.count()
