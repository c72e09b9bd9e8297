"""Nodes as processes of this machine: each has a loopback address and a separate root folder.

Nothing is mounted and no process is confined. A path that is absolute in the cloud is a link below
the node's root, RSCTL_ROOT; such paths in its environment or arguments are mapped there.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import rsctl_start
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.node.process_tree import tree
from rsctl.node.telemetry import Meter
from rsctl.targets.local.ports import MOST, ReservedPort
from rsctl.targets.managed.emulator.nodes import (
    ANY_IMAGE,
    Kind,
    Node,
    NodeListener,
    NotStarted,
    Program,
)
from rsctl.targets.managed.emulator.nodes.attached import AttachedCommand, NodeCommand
from rsctl.targets.managed.emulator.nodes.owner import Owner
from rsctl.targets.managed.emulator.nodes.root import Root

_MARK = "RSCTL_EMULATED_NODE"
"""The variable by which all processes of a node are known: OWNER:JOB:NODE."""

_POLL_SECONDS = 0.01
_KILL_SECONDS = 10.0
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "TMPDIR", "TZ", "USER")
_RSCTL_PROGRAMS = {
    "rsctl-launch": "rsctl.node.launch",
    "rsctl-reduce": "rsctl.transport.reduce",
}


def clean_up(owner: str) -> bool:
    """Kill the processes of an owner; they are gone when it returns."""
    _kill_marked(f"{owner}:")
    return True


class ProcessRunner:
    """Runs nodes as processes; `programs` stand for the images."""

    kind: Kind = "process"

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._programs = programs
        self._owner = Owner(self.kind)
        self._lock = threading.Lock()
        self._jobs: list[ProcessNodes] = []

    def has_image(self, image: str) -> bool:
        """Whether something stands for it."""
        return image in self._programs or ANY_IMAGE in self._programs

    def nodes(self, job: str, listener: NodeListener, isolated: bool = False) -> ProcessNodes:
        """Where the nodes of a job will run. Raises RsctlError, or OSError for RSCTL_HOME."""
        if isolated:
            message = "processes use this machine's network: they cannot be isolated from it"
            raise RsctlError(
                ExitCode.ENVIRONMENT, error("runner", message, "use the docker runner")
            )
        if sys.platform != "linux":
            message = "nodes run as processes only on Linux: each needs its own loopback address"
            raise RsctlError(
                ExitCode.ENVIRONMENT, error("runner", message, "install and start Docker")
            )
        with self._lock:
            self._owner.take()
            nodes = ProcessNodes(self._owner, f"{job[:60]}-{secrets.token_hex(3)}", self, listener)
            self._jobs.append(nodes)
            return nodes

    def program(self, image: str) -> Program:
        """The replacement for an image. Raises RsctlError if there is none."""
        program = self._programs.get(image) or self._programs.get(ANY_IMAGE)
        if program is None:
            message = f"processes cannot run the image {image}"
            raise RsctlError(ExitCode.REFUSED, error("image", message, "use the docker runner"))
        return program

    def close(self) -> None:
        """Close all nodes."""
        for job in self._jobs:
            job.close()
        self._owner.release()


class ProcessNodes:
    """The processes of one job."""

    def __init__(
        self, owner: Owner, name: str, runner: ProcessRunner, listener: NodeListener
    ) -> None:
        self._mark = f"{owner.name}:{name}:"
        self._folder = owner.folder / name.replace("/", "_")
        self._runner = runner
        self._listener = listener
        self._lock = threading.Lock()
        self._addresses: dict[str, str] = {}
        self._ports: dict[tuple[str, int], ReservedPort] = {}
        self._running: dict[str, AttachedCommand] = {}
        self._meters: dict[str, tuple[int, Meter]] = {}
        self._is_closed = False

    def address(self, name: str) -> str:
        """A loopback address that no other node of this job has."""
        with self._lock:
            while name not in self._addresses:
                found = ".".join(str(random.randint(1, 254)) for _ in range(3))  # noqa: S311
                if f"127.{found}" not in (*self._addresses.values(), "127.0.0.1"):
                    self._addresses[name] = f"127.{found}"
            return self._addresses[name]

    def port(self, name: str, wanted: int) -> int:
        """A port that is free at all addresses: torch's store listens on all of them.

        The next is free too: on SageMaker, a reducer's node listens at one beside its reducer's.
        """
        with self._lock:
            if (name, wanted) not in self._ports:
                self._ports[name, wanted] = ReservedPort(MOST)
            return self._ports[name, wanted].number

    def start(self, node: Node) -> None:
        """Start the command of what stands for the node's image."""
        with self._lock:
            if self._is_closed:
                raise OSError("the job has been closed")
            self._running[node.name] = self._attached(node)

    def _attached(self, node: Node) -> AttachedCommand:
        program = self._runner.program(node.image)
        root = Root(self._folder / node.name, node.mounts)
        env = {name: root.leads(value) for name, value in node.env.items()}
        env = _environment(program) | env
        env |= {"RSCTL_ROOT": str(root.folder), _MARK: self._mark + node.name}
        argv = [root.leads(argument) for argument in _command(program, node)]
        command = NodeCommand(argv, str(program.source), env)

        def conclude(code: int) -> int:
            self._kill_rest(node.name)
            return code if code >= 0 else 128 - code

        try:
            return AttachedCommand(node.name, command, self._listener, conclude)
        except OSError as problem:
            if not program.source.is_dir():
                raise
            message = f"cannot run {argv[0]}: {problem.strerror}"
            command = NodeCommand(["/bin/sh", "-c", 'echo "$0" >&2; exit 127', message])
            why = _start_error(argv[0], problem)

            def conclude_start(code: int) -> int:
                return NotStarted(conclude(code), why)

            return AttachedCommand(node.name, command, self._listener, conclude_start)

    def stop(self, name: str, grace: float) -> None:
        """SIGTERM for the node's first process, as a container gets it; then SIGKILL for all."""
        running = self._running.get(name)
        if running is None or not running.is_running:
            return
        with suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGTERM)

        def end() -> None:
            if not running.wait(grace):
                self._kill_rest(name)

        threading.Thread(target=end, daemon=True).start()

    def kill(self, name: str) -> None:
        """SIGKILL for all of the node."""
        running = self._running.get(name)
        if running is not None and running.is_running:
            threading.Thread(target=self._kill_rest, args=(name,), daemon=True).start()

    def usage(self, name: str) -> dict[str, object]:
        """By /proc; the network is all of this machine's loopback, as nodes share it."""
        running = self._running.get(name)
        if running is None or not running.is_running:
            return {}
        pid = running.process.pid
        with self._lock:
            if self._meters.get(name, (0, None))[0] != pid:
                self._meters[name] = (pid, Meter("lo", pid))
            meter = self._meters[name][1]
        return meter.read()

    def _kill_rest(self, name: str) -> None:
        """Kill what descends from the node's first process too: it may have changed its marks."""
        running = self._running.get(name)
        if running is not None and running.process.returncode is None:
            _kill_tree(running.process.pid)
        _kill_marked(self._mark + name, exactly=True)

    def close(self) -> None:
        """Kill all nodes, wait for their ends, give the ports back."""
        with self._lock:
            self._is_closed = True
        for name in self._running:
            self._kill_rest(name)
        _kill_marked(self._mark)
        for running in self._running.values():
            running.wait()
        with self._lock:
            while self._ports:
                self._ports.popitem()[1].release()


def _start_error(command: str, problem: OSError) -> str:
    """The message of a container engine for a command that it cannot start."""
    why = "executable file not found in $PATH"
    if not isinstance(problem, FileNotFoundError):
        why = (problem.strerror or str(problem)).lower()
    return (
        "failed to create task for container: failed to create shim task: OCI runtime create "
        "failed: runc create failed: unable to start container process: error during container "
        f'init: exec: "{command}": {why}: unknown'
    )


def _command(program: Program, node: Node) -> list[str]:
    """The command line, with this Python in place of an image's, and its rsctl's programs."""
    entrypoint = program.entrypoint if node.entrypoint is None else node.entrypoint
    argv = [*entrypoint, *node.args]
    module = _RSCTL_PROGRAMS.get(argv[0]) if argv else None
    return [*rsctl_start.command(module, program.python), *argv[1:]] if module else argv


def _environment(program: Program) -> dict[str, str]:
    """The variables that a container would get from its image: few, and none of the caller's
    secrets.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    beside = os.path.dirname(program.python)
    return {**passed_on, "PATH": os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])}


def _kill_tree(root: int) -> None:
    """SIGKILL for a process after its descendants, which it adopts until it ends."""
    for process in reversed(tree(root)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


def _kill_marked(mark: str, exactly: bool = False) -> None:
    """SIGKILL for the processes of a mark, or of all that start with it, until none is left.

    Those that even the kernel cannot end are left after a while.
    """
    wanted, deadline = f"{_MARK}={mark}".encode(), monotonic() + _KILL_SECONDS
    while (found := _marked(wanted, exactly)) and monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        sleep(_POLL_SECONDS)


def _marked(wanted: bytes, exactly: bool) -> list[int]:
    """Process IDs; zombies no longer have an environment, and other users' cannot be read."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with suppress(OSError):
                variables = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                if any(v == wanted if exactly else v.startswith(wanted) for v in variables):
                    found.append(int(entry))
    return found
