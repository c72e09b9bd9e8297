"""How a supervisor starts, stops and cleans up replicas: the contract, and processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import NamedTuple, Optional, Protocol

from rsctl.node.process_tree import tree
from rsctl.node.rank import oom_kills
from rsctl.node.roles import ROLE_HOSTS
from rsctl.node.stall.request import EVIDENCE_DIR
from rsctl.runs.environment import belongs_to_contract
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stream.ends import Killer
from rsctl.targets.local import strike_program
from rsctl.targets.local.asking import ask_processes
from rsctl.targets.local.endings import role_of
from rsctl.targets.local.ports import ReservedPort

_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.01
_LONGEST_TMPDIR = 70
"""Bytes of a path below which Python's multiprocessing, so each DataLoader with workers, can have a
socket: its path has 32 more, and unix(7) allows 107, macOS 103.
"""


class ReplicaCommand(NamedTuple):
    """The process that the supervisor starts for one replica, and whose output it reads."""

    argv: list[str]
    cwd: Optional[str]
    env: dict[str, str]


class ReplicaExit(NamedTuple):
    """The exit code of a replica, and the known facts about its cause."""

    exit_code: int
    reason: Optional[str] = None
    killer: Killer = Killer()


class Backend(Protocol):
    """One kind of local replica."""

    def prepare(self, attempt: int) -> None:
        """Make ready to start. Raises RsctlError."""

    def command(self, replica: str, attempt: int) -> ReplicaCommand:
        """The command for a replica."""

    def stop(self, replicas: Mapping[str, int], hard: bool) -> None:
        """Ask replicas to end, or end them; the values are the process ids of their commands."""

    def ask(self, replicas: Collection[str], number: int) -> None:
        """Ask the nodes of replicas to report what their ranks do, in their logs."""

    def exit_of(self, replica: str, exit_code: int) -> ReplicaExit:
        """The exit of a replica whose command ended with this code."""

    def clean_up(self) -> None:
        """Remove everything that belongs to the run; harmless if there is nothing."""


class ProcessBackend:
    """Replicas as processes.

    They are known by their environment, which descendants inherit, and to their supervisor also
    as its own descendants: it adopts orphans, so that a process which has left its process group
    and emptied its environment is found too. Only a supervisor gives `secrets`.
    """

    def __init__(
        self,
        folder: RunFolder,
        description: RunDescription,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._commands = {c["replica"]: c for c in description.request["commands"]}
        self._run = description.run
        self._secrets = secrets or {}
        self._is_supervisor = secrets is not None
        self._reducers = sum(1 for name in description.replicas if role_of(name) == "reducer")
        self._with_address = _with_address(description) if description.roles else []
        self._ports: list[ReservedPort] = []
        self._links = folder.path / "links"
        self._oom_kills: int | None = None

    def prepare(self, attempt: int) -> None:
        """Reserve separate ports for every attempt: for the rendezvous, for each reducer, and in a
        job with roles for each of their replicas and of the other workers.
        """
        self._oom_kills = oom_kills()  # of the memory group that this process and replicas share
        self._release_ports()
        for _ in range(1 + self._reducers + len(self._with_address[1:])):
            self._ports.append(ReservedPort())

    def command(self, replica: str, attempt: int) -> ReplicaCommand:
        """The request's command, with values in its environment that only this machine knows."""
        command = self._commands[replica]
        env = {n: v for n, v in os.environ.items() if not belongs_to_contract(n)}
        env |= {
            name: self._secrets.get(name, "") if value is None else value
            for name, value in command["env"].items()
        }
        env["RSCTL_ATTEMPT"] = str(attempt)
        env["RSCTL_PARENT"] = str(os.getpid())
        rendezvous, *others = (str(port.number) for port in self._ports)
        env["RSCTL_PORT"] = rendezvous
        env["RSCTL_REDUCER_PORTS"] = ",".join(others[: self._reducers])
        if self._with_address:
            env[ROLE_HOSTS] = self._role_hosts([rendezvous, *others[self._reducers :]])
        env["TMPDIR"] = self._temporary_folder(replica)
        env[EVIDENCE_DIR] = str(self._folder.path / replica / "evidence")
        return ReplicaCommand(command["argv"], command["cwd"], env)

    def _temporary_folder(self, replica: str) -> str:
        """The replica's TMPDIR, by a link if its path is too long for sockets."""
        folder = self._folder.path / replica / "tmp"
        if len(os.fsencode(folder)) <= _LONGEST_TMPDIR:
            return str(folder)
        import tempfile  # with all of shutil, for long paths alone

        try:
            if not self._links.is_symlink():
                self._links.symlink_to(tempfile.mkdtemp(prefix="rsctl-"))
            link = os.path.join(os.readlink(self._links), replica)
            os.symlink(folder, link)
        except OSError:  # the system's folder cannot be written
            return str(folder)
        return link

    def _remove_links(self) -> None:
        """Remove the links, also those of a supervisor that was killed."""
        with suppress(OSError):  # there are none
            links = os.readlink(self._links)
            self._links.unlink()
            for link in filter(os.path.islink, [os.path.join(links, n) for n in os.listdir(links)]):
                os.unlink(link)
            os.rmdir(links)

    def _role_hosts(self, ports: list[str]) -> str:
        hosts: dict[str, list[str]] = {}
        for name, port in zip(self._with_address, ports, strict=True):
            hosts.setdefault(role_of(name), []).append(f"127.0.0.1:{port}")
        return json.dumps(hosts)

    def stop(self, replicas: Mapping[str, int], hard: bool) -> None:
        """SIGTERM to the launchers, which pass it on; SIGKILL to all that descends from them."""
        for replica, launcher in replicas.items():
            if not hard:
                _signal(launcher, signal.SIGTERM)
                continue
            for pid in {*processes_of(self._run, replica), *_descendants(launcher), launcher}:
                _signal(pid, signal.SIGKILL)

    def ask(self, replicas: Collection[str], number: int) -> None:
        """By the named pipes of their launchers."""
        ask_processes(self._run, replicas, number)

    def exit_of(self, replica: str, exit_code: int) -> ReplicaExit:
        """A negative code is the signal that killed it."""
        now = oom_kills()
        is_known = now is not None and self._oom_kills is not None
        out_of_memory = now != self._oom_kills if is_known else None
        return ReplicaExit(
            128 - exit_code if exit_code < 0 else exit_code, None, Killer(out_of_memory)
        )

    def clean_up(self) -> None:
        """Kill all remaining processes of the run."""
        deadline = monotonic() + _KILL_SECONDS
        while (pids := self._left()) and monotonic() < deadline:
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            sleep(_POLL_SECONDS)
        self._release_ports()
        self._remove_links()

    def _left(self) -> list[int]:
        """Process ids of the run that are alive, as far as they can be recognised."""
        if not self._is_supervisor:
            return processes_of(self._run)
        reap_orphans()
        return [*{*processes_of(self._run), *_descendants(os.getpid())}]

    def _release_ports(self) -> None:
        while self._ports:
            self._ports.pop().release()


def _with_address(description: RunDescription) -> list[str]:
    """The replicas whose addresses all others know, workers first."""
    return [name for name in description.replicas if role_of(name) != "reducer"]


def reap_orphans(children: Collection[int] = ()) -> None:
    """Reap adopted processes that have ended, so that no zombies pile up.

    The ends of `children` are left to the code that waits for those.
    """
    if sys.platform != "linux":  # elsewhere no process adopts orphans
        return
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in children:
                return  # its own waiter reaps it; the rest at the next call
            os.waitpid(ended.si_pid, os.WNOHANG)


def _descendants(root: int) -> list[int]:
    return [process.pid for process in tree(root) if process.pid != root]


def processes_of(run: str, replica: str | None = None) -> list[int]:
    """Process ids of a run, or of one replica of it; needs /proc.

    Zombies and processes of other users are left out.
    """
    known = strike_program.of_run(run)
    return [pid for pid, own in known.items() if replica in (None, own.get("RSCTL_REPLICA"))]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
