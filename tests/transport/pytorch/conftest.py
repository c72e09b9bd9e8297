"""Training scripts as ranks of a job, with the binding attached as PyTorch attaches it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rsctl_start
from tests.kit.fork_server import Child
from tests.kit.polling import DEADLINE_SECONDS

if TYPE_CHECKING:
    from torch.distributed import TCPStore

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
ENTRY_POINTS = (
    "[torch.backends]\nrsctl = rsctl.transport.pytorch:autoload\n"
    "[torch.distributed.backends]\nrsctl = rsctl.transport.pytorch:register\n"
)
_CURRENT = "PYTEST_CURRENT_TEST"
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


class Forks:
    """Scripts that begin as copies of a process which has imported torch, see tests/kit."""

    def __init__(self, server: str, environ: dict[str, str], folder: Path) -> None:
        self._server = server
        self._environ = environ
        self._folder = folder
        self._numbers = itertools.count()
        self._running: dict[int, Child] = {}

    def outputs(self) -> tuple[Path, Path]:
        """Two files that are not there yet."""
        number = next(self._numbers)
        return self._folder / f"{number}.out", self._folder / f"{number}.err"

    def start(self, argv: list[str], outputs: tuple[Path, Path], environ: dict[str, str]) -> int:
        """Start a script; returns its process id. What it prints is added to two files."""
        environ = _of_this_test({**self._environ, **environ})
        request = {"start": argv, "environ": environ, "folder": str(SCRIPTS.parent)}
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        files = [os.open(path, flags, 0o600) for path in (os.devnull, *outputs)]
        child = Child(self._server, request, files)
        for file in files:
            os.close(file)
        self._running[child.pid] = child
        return child.pid

    def wait(self, pid: int, seconds: float = 120) -> int:
        """The exit code of a script, as a shell gives it; one that takes too long is killed."""
        child = self._running.pop(pid)
        code = child.exit_code(seconds)
        child.close()
        if code is None:
            code = -signal.SIGKILL
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """End what still runs."""
        for child in self._running.values():
            child.close()


class Job:
    """The running ranks of one job, and the store at which they meet."""

    def __init__(self, forks: Forks, store: TCPStore) -> None:
        self.ranks: list[int] = []
        self.outputs = forks.outputs()
        self._forks = forks
        self._store = store

    def end(self) -> Ended:
        """Wait until all have ended."""
        code = max([self._forks.wait(rank) for rank in self.ranks])
        out, err = (path.read_text() for path in self.outputs)
        return Ended(code, out, err)


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
def forks(
    torch_forks: dict[str, str],
    environ: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Forks]:
    """Starts scripts without the time that importing torch takes."""
    made = Forks(torch_forks["TORCH_FORKS"], environ, tmp_path_factory.mktemp("forks"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def launch(forks: Forks) -> Callable[..., Job]:
    """Start a script of `scripts` on `nodes` nodes with `ranks` ranks each, with the variables that
    torchrun gives to its ranks."""

    def launch(script: str, *arguments: str, nodes: int = 1, ranks: int = 2, **comm: str) -> Job:
        store = rendezvous()
        job = Job(forks, store)
        for rank in range(nodes * ranks):
            environ = {
                **comm,
                "RANK": str(rank),
                "WORLD_SIZE": str(nodes * ranks),
                "LOCAL_RANK": str(rank % ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "GROUP_RANK": str(rank // ranks),
                "GROUP_WORLD_SIZE": str(nodes),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(store.port),
                "TORCHELASTIC_RUN_ID": "none",
                "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            argv = [str(SCRIPTS / script), *arguments]
            job.ranks.append(forks.start(argv, job.outputs, environ))
        return job

    return launch


@pytest.fixture(scope="session")
def run(launch: Callable[..., Job]) -> Callable[..., Ended]:
    """Run a script to its end."""

    def run(script: str, *arguments: str, **options: Any) -> Ended:
        return launch(script, *arguments, **options).end()

    return run


@pytest.fixture(scope="session")
def torchrun(environ: dict[str, str], torch_forks: dict[str, str]) -> Callable[..., Ended]:
    """Run a script to its end on two ranks by torchrun itself."""
    path = f"{torch_forks['PYTHONPATH']}{os.pathsep}{environ['PYTHONPATH']}"
    forked = {**environ, **torch_forks, "PYTHONPATH": path}

    def torchrun(script: str, *arguments: str, **comm: str) -> Ended:
        program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        wrapper = rsctl_start.command("rsctl.node.run_with_binding")[1:] if is_old() else []
        return ended(
            [*program, "--nproc-per-node", "2", *wrapper, str(SCRIPTS / script), *arguments],
            {**forked, **comm},
        )

    return torchrun


@pytest.fixture(scope="session")
def import_torch() -> str:
    """The line by which a script has torch and, by torch's entry points, the binding."""
    load = "; from rsctl.transport.pytorch import autoload; autoload()"
    return f"import torch{load if is_old() else ''}"


@pytest.fixture(scope="session")
def alone(forks: Forks) -> Callable[..., Ended]:
    """Run a program as the only rank of a job."""

    def alone(program: str, **comm: str) -> Ended:
        store = rendezvous()
        job = Job(forks, store)
        script = job.outputs[0].with_suffix(".py")
        script.write_text(f"import torch\n{program}")
        environ = {**_of_only_rank(store), **comm}
        job.ranks.append(forks.start([str(script)], job.outputs, environ))
        return job.end()

    return alone


@pytest.fixture(scope="session")
def in_interpreter(environ: dict[str, str], import_torch: str) -> Callable[..., Ended]:
    """As `alone`, in an interpreter of its own, which imports torch and ends as each does."""

    def in_interpreter(program: str, **comm: str) -> Ended:
        store = rendezvous()
        whole = f"{import_torch}\n{program}"
        return ended([sys.executable, "-c", whole], {**environ, **_of_only_rank(store), **comm})

    return in_interpreter


def _of_only_rank(store: TCPStore) -> dict[str, str]:
    """The variables that torchrun gives to a rank that is alone."""
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    ranks |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    return ranks | {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}


def is_old() -> bool:
    """Whether this torch loads no binding by itself, as 2.4: see rsctl/node/run_with_binding.py."""
    import torch

    return not hasattr(torch, "_import_device_backends")


def rendezvous() -> TCPStore:
    """A store at which ranks meet, as torchrun has one for its own."""
    from torch.distributed import TCPStore

    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def _of_this_test(environ: dict[str, str]) -> dict[str, str]:
    """Variables that name the present test, and not that which made them first."""
    return {**environ, _CURRENT: os.environ.get(_CURRENT, "")}


def ended(argv: list[str], environ: dict[str, str]) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(
        argv, env=_of_this_test(environ), capture_output=True, text=True, timeout=DEADLINE_SECONDS
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def plain(run: Callable[..., Ended]) -> Ended:
    """The training script by PyTorch alone, on two ranks."""
    return run("train.py", "--backend", "gloo")


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
