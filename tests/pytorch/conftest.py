"""Training scripts under torchrun, with the binding attached as PyTorch attaches it."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
ENTRY_POINTS = "[torch.backends]\nrsctl = rsctl.transport.pytorch:autoload\n"
FOREIGN = ("RSCTL_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCH_", "TORCHELASTIC_")


class Ended:
    """What a torchrun left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def messages(self) -> list[str]:
        """The binding's lines on stderr, in their order."""
        lines = self.err.splitlines()
        return [row.removeprefix("rsctl: ") for row in lines if row.startswith("rsctl: ")]

    def printed(self, kind: str) -> list[dict[str, Any]]:
        """The structured lines of this kind."""
        lines = [json.loads(row) for row in self.out.splitlines() if row.startswith('{"rsctl"')]
        return [line for line in lines if line["rsctl"] == kind]

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """What the script printed, by rank; every one must have ended well."""
        assert self.code == 0, self.err
        lines = [json.loads(row) for row in self.out.splitlines() if row.startswith('{"rank"')]
        return sorted(lines, key=lambda line: int(line["rank"]))

    @property
    def digest(self) -> str:
        """The parameters' digest; they must be the same, bit for bit, on all ranks."""
        (digest,) = {line["digest"] for line in self.ranks}
        return str(digest)

    @property
    def some(self) -> list[float]:
        """Some of the parameters."""
        return list(self.ranks[0]["some"])


class Job:
    """One or more running torchruns of one job."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self.processes = processes

    def end(self, timeout: float = 120) -> Ended:
        """Wait until all have ended."""
        outputs = [process.communicate(timeout=timeout) for process in self.processes]
        code = max(process.returncode for process in self.processes)
        return Ended(code, "".join(o for o, _ in outputs), "".join(e for _, e in outputs))


def workers_of(process: int) -> list[int]:
    """The process ids of a process's children."""
    children = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in children.read_text().split()] if children.exists() else []


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the entry point as an image has it, beside the code."""
    folder = tmp_path_factory.mktemp("opt")
    (folder / "rsctl_train-0.dist-info").mkdir()
    (folder / "rsctl_train-0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="session")
def environ(installed: Path) -> dict[str, str]:
    """The environment of a job that asks for nothing of the binding."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    path = f"{installed}{os.pathsep}{ROOT}"
    return {**clean, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.fixture(scope="session")
def launch(environ: dict[str, str]) -> Iterator[Callable[..., Job]]:
    """Start a script of `scripts` on `nodes` nodes with `ranks` ranks each."""
    started: list[subprocess.Popen[str]] = []

    def launch(
        script: str,
        *arguments: str,
        nodes: int = 1,
        ranks: int = 2,
        **comm: str,
    ) -> Job:
        torchrun = [sys.executable, "-m", "torch.distributed.run"]
        port, processes = free_port(), []
        for node in range(nodes):
            node_arguments = ["--nnodes", str(nodes), "--node-rank", str(node)]
            node_arguments += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
            process = subprocess.Popen(
                [
                    *torchrun,
                    *node_arguments,
                    "--nproc-per-node",
                    str(ranks),
                    str(SCRIPTS / script),
                    *arguments,
                ],
                env={**environ, **comm},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            started.append(process)
            processes.append(process)
        return Job(processes)

    yield launch
    for process in started:
        if process.poll() is None:
            # torchrun's workers are sessions of their own, and hold our pipes open.
            for worker in workers_of(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="session")
def torchrun(launch: Callable[..., Job]) -> Callable[..., Ended]:
    """Run a script to its end."""

    def torchrun(script: str, *arguments: str, **options: Any) -> Ended:
        return launch(script, *arguments, **options).end()

    return torchrun


@pytest.fixture(scope="session")
def alone(environ: dict[str, str]) -> Callable[..., Ended]:
    """Run a script, or `-c` and a program, as the only rank of a job."""

    def alone(*arguments: str, **comm: str) -> Ended:
        ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        ranks |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ended = subprocess.run(
            [sys.executable, *arguments],
            env={**environ, **ranks, **comm},
            cwd=SCRIPTS.parent,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return alone


@pytest.fixture(scope="session")
def plain(torchrun: Callable[..., Ended]) -> Ended:
    """The training script by PyTorch alone, on two ranks."""
    return torchrun("train.py", "--backend", "gloo")


class Pool:
    """Running reducers."""

    def __init__(self, processes: list[subprocess.Popen[str]], environ: dict[str, str]) -> None:
        self.processes = processes
        self.environ = environ
        """What workers need to find them."""


@pytest.fixture
def reducers(environ: dict[str, str]) -> Iterator[Callable[..., Pool]]:
    """Start `count` reducers, each for `lanes` local ranks."""
    started: list[subprocess.Popen[str]] = []

    def reducers(count: int, lanes: int = 1, engine: str = "on") -> Pool:
        comm = {
            "RSCTL_TOKEN": secrets.token_hex(16),
            "RSCTL_RUN": "run-1",
            "RSCTL_TRANSPORT_CORE": engine,
        }
        addresses, first = [], len(started)
        for _ in range(count):
            argv = ["-m", "rsctl.transport.reduce", "--bind", "127.0.0.1", "--port", "0"]
            process = subprocess.Popen(
                [sys.executable, *argv, "--lanes", str(lanes)],
                env={**environ, **comm},
                stdout=subprocess.PIPE,
                text=True,
            )
            started.append(process)
            assert process.stdout is not None
            addresses.append(json.loads(process.stdout.readline())["address"])
        return Pool(started[first:], {**comm, "RSCTL_REDUCERS": ",".join(addresses)})

    yield reducers
    for process in started:
        process.kill()
        process.communicate()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
