"""Nodes as containers: each job has a network of its own, in which nodes know each other by name.

The docker client stays attached to each container from before its start, so that nothing that it
prints is lost; its log is kept nowhere else.
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import partial
from signal import SIGKILL

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.commands import last_line, run_command
from rsctl.targets.managed.emulator.nodes import Kind, Node, NodeListener, NotStarted
from rsctl.targets.managed.emulator.nodes.attached import AttachedCommand, NodeCommand
from rsctl.targets.managed.emulator.nodes.owner import Owner
from rsctl.targets.managed.emulator.nodes.usage import container_usage

_LABEL = "rsctl.emulator"
_SHM = "1g"  # Docker's 64 MB is too small for data loaders and for gloo and NCCL
_LONGEST_IN_FILE = 32 << 10  # docker refuses an --env-file with a line beyond 64 KiB
_RETRY_SECONDS = 0.1
_NO_GATEWAY = "com.docker.network.bridge.inhibit_ipv4=true"  # else this machine could be reached
_CLIENT_VARIABLES = frozenset({"HOME", "PATH", "TMPDIR"})
_CLIENT_PREFIXES = ("BUILDKIT", "COMPOSE", "DOCKER", "GO", "LD_", "OTEL", "SSH", "SSL_", "XDG_")


def obstacle() -> Finding | None:
    """Why this machine cannot run containers, or None."""
    remedy = "install and start Docker, or let the nodes run as processes"
    if shutil.which("docker") is None:
        return error("docker", "the docker command is not installed", remedy)
    done = run_command(["docker", "version", "--format", "{{.Server.Version}}"])
    if done.returncode:
        return error("docker", f"no Docker engine answers: {last_line(done)}", remedy)
    return None


def clean_up(owner: str) -> bool:
    """Remove the containers and networks of an owner; whether none is left."""
    mine = ["--quiet", "--filter", f"label={_LABEL}={owner}"]
    removals = (
        (["docker", "ps", "--all", *mine], ["docker", "rm", "--force", "--volumes"]),
        (["docker", "network", "ls", *mine], ["docker", "network", "rm"]),
    )
    done = [_remove(found, remove) for found, remove in removals]
    return all(done)


def _remove(listing: list[str], remove: list[str]) -> bool:
    listed = run_command(listing)
    found = listed.stdout.split()
    return not listed.returncode and (not found or not run_command([*remove, *found]).returncode)


class DockerRunner:
    """Runs nodes by this machine's docker."""

    kind: Kind = "docker"

    def __init__(self) -> None:
        self._owner = Owner(self.kind)
        self._lock = threading.Lock()
        self._jobs: list[DockerNodes] = []

    def has_image(self, image: str) -> bool:
        """Whether the engine has it."""
        return (
            run_command(["docker", "image", "inspect", "--format", "{{.Id}}", image]).returncode
            == 0
        )

    def nodes(self, job: str, listener: NodeListener, isolated: bool = False) -> DockerNodes:
        """Where the nodes of a job will run. Raises RsctlError, or OSError for RSCTL_HOME."""
        with self._lock:
            self._owner.take()
            nodes = DockerNodes(self._owner, job, listener, isolated)
            self._jobs.append(nodes)
            return nodes

    def close(self) -> None:
        """Close all nodes."""
        for job in self._jobs:
            job.close()
        self._owner.release()


class DockerNodes:
    """The containers of one job."""

    def __init__(
        self, owner: Owner, job: str, listener: NodeListener, isolated: bool = False
    ) -> None:
        self._owner = owner
        self._network_options = ["--internal", f"--opt={_NO_GATEWAY}"] if isolated else []
        self._labels = {_LABEL: owner.name, f"{_LABEL}.job": job}
        self._name = f"rsctl-emulator-{owner.name}-{secrets.token_hex(3)}"
        self._listener = listener
        self._lock = threading.Lock()
        self._has_network = False
        self._started = 0
        self._containers: dict[str, str] = {}
        self._running: dict[str, tuple[str, AttachedCommand]] = {}
        self._is_closed = False

    def address(self, name: str) -> str:
        """The node's name, which docker resolves in the job's network."""
        return name

    def port(self, name: str, wanted: int) -> int:
        """The port that is wanted: every container has its own."""
        return wanted

    def start(self, node: Node) -> None:
        """Create the container, and start it with the client attached."""
        with self._lock:
            if self._is_closed:
                raise OSError("the job has been closed")
            self._require_network()
            self._started += 1
            container = f"{self._name}-{self._started}"
            self._containers[container] = node.name
            self._create(container, node)
            command = NodeCommand(["docker", "start", "--attach", container])
            running = AttachedCommand(
                node.name, command, self._listener, partial(_exit_code, container)
            )
            self._running[node.name] = (container, running)

    def _require_network(self) -> None:
        if not self._has_network:
            options = [*self._label_options(), *self._network_options]
            self._require(["docker", "network", "create", *options, self._name])
            self._has_network = True

    def _create(self, container: str, node: Node) -> None:
        """The environment is on no command line and in no file."""
        lines, others = split_env(node.env)
        if ours := [name for name in others if _redirects(name)]:
            message = f"docker cannot pass {ours[0]}: its value is too long or has several lines"
            raise RsctlError(ExitCode.REFUSED, error("docker", message, "shorten it"))
        argv = ["docker", "create", "--name", container, *self._label_options()]
        argv += ["--network", self._name, *create_options(node), "--env-file", "/dev/stdin"]
        argv += [f"--env={name}" for name in others]
        arguments = node.args
        if node.entrypoint is not None:
            argv += ["--entrypoint", node.entrypoint[0]]
            arguments = [*node.entrypoint[1:], *node.args]
        self._require([*argv, node.image, *arguments], {**os.environ, **others}, lines)

    def _label_options(self) -> list[str]:
        return [f"--label={name}={value}" for name, value in self._labels.items()]

    def _require(
        self, argv: list[str], env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> None:
        """Run a command that makes something. It keeps the owner's lock, should the owner die."""
        done = subprocess.run(
            argv,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            pass_fds=self._owner.held,
        )
        if done.returncode:
            what = " ".join(argv[:2])
            raise RsctlError(ExitCode.REFUSED, error("docker", f"{what}: {last_line(done)}"))

    def stop(self, name: str, grace: float) -> None:
        """SIGTERM for the container's first process, SIGKILL for all after `grace` seconds."""
        self._in_background(name, partial(_stop, grace=grace))

    def kill(self, name: str) -> None:
        """SIGKILL for all of the container."""
        self._in_background(name, partial(_signal, signal="KILL"))

    def usage(self, name: str) -> dict[str, object]:
        """By `docker stats`."""
        container, running = self._running.get(name, ("", None))
        return container_usage(container) if running and running.is_running else {}

    def _in_background(self, name: str, act: Callable[[str, AttachedCommand], None]) -> None:
        if name in self._running:
            threading.Thread(target=act, args=self._running[name], daemon=True).start()

    def close(self) -> None:
        """Remove the containers, running or not, and the network."""
        with self._lock:
            self._is_closed = True
            if self._containers:
                run_command(["docker", "rm", "--force", "--volumes", *self._containers])
        for _, running in self._running.values():
            running.wait()
        if self._has_network:
            self._has_network = False
            run_command(["docker", "network", "rm", self._name])


def _stop(container: str, running: AttachedCommand, grace: float) -> None:
    _signal(container, running, "TERM")
    if not running.wait(grace):
        _signal(container, running, "KILL")


def _signal(container: str, running: AttachedCommand, signal: str) -> None:
    """Send a signal, again until it has arrived: the container may be about to start."""
    while running.is_running:
        if run_command(["docker", "kill", "--signal", signal, container]).returncode == 0:
            return
        running.wait(_RETRY_SECONDS)


def _exit_code(container: str, code: int) -> int:
    """The exit code of a container whose client has ended with this one.

    A client that has failed itself, as it does when the engine stops, takes its container along.
    """
    if code == 0:
        return 0
    form = "{{.State.Status}} {{.State.ExitCode}} {{json .State.Error}}"
    shown = run_command(["docker", "inspect", "--format", form, container]).stdout
    status, known, message = (*shown.strip().split(" ", 2), "", "", "")[:3]
    if status == "created" and known not in ("", "0"):
        return NotStarted(int(known), str(json.loads(message or '""')))
    if status == "exited" and known not in ("", "0"):
        return int(known)
    run_command(["docker", "rm", "--force", "--volumes", container])
    return code if code > 0 else 128 + SIGKILL


def _redirects(name: str) -> bool:
    """Whether a variable of this name changes what a docker client does, or which one is run."""
    upper = name.upper()
    return (
        upper in _CLIENT_VARIABLES or upper.startswith(_CLIENT_PREFIXES) or upper.endswith("_PROXY")
    )


def create_options(node: Node) -> list[str]:
    """The options of `docker create` for a node, without its environment and its command."""
    options = ["--pull", "never", "--network-alias", node.name]
    options += ["--hostname", node.hostname or node.name]
    options += ["--shm-size", _SHM, "--ulimit", "core=0", "--log-driver", "none"]
    for inside, folder in node.mounts.items():
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o777)  # the image's user may be any
        fields = ["type=bind", f"source={folder.resolve()}", f"target={inside}"]
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(fields)
        options += ["--mount", text.getvalue()]
    return options


def split_env(env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Variables as the lines of an --env-file, and those whose values cannot be there.

    The latter reach docker by its own environment, so that none may be one that docker reads:
    see `_redirects`.
    """
    others = {
        name: value
        for name, value in env.items()
        if "\n" in value or "\r" in value or len(value) > _LONGEST_IN_FILE
    }
    return "".join(f"{n}={v}\n" for n, v in env.items() if n not in others), others
