"""Faults of the nodes of a run that runs on this machine, as processes or as containers.

A strike proves that it struck: it waits for its effect, and raises NotStruck without one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from rsctl.targets.local import docker, strike_program

_EFFECT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.2
_T = TypeVar("_T")
_NODE = "RSCTL_EMULATED_NODE"
"""The variable that all processes of an emulated node share."""
_PYTHON = 'exec "$(command -v python3 || command -v python)" - "$@"'


class NotStruck(Exception):
    """A fault that had no effect; the text is the reason."""


def _nothing() -> None:
    """No effect to take back."""


class Strike(NamedTuple):
    """A fault that has struck. `undo` takes back what does not end with the struck processes.

    `finish` is the second half of a fault that has two, such as the end of a notice.
    """

    text: str
    undo: Callable[[], object] = _nothing
    finish: Callable[[], object] = _nothing


class StruckNode(Protocol):
    """A node of a run, named by its replica."""

    replica: str

    def kill_ranks(self) -> Strike:
        """SIGKILL for the ranks' scripts, as the kernel does without memory; the node remains."""

    def kill(self) -> Strike:
        """SIGKILL for all processes of the node, as when the machine is lost."""

    def kill_reducer(self) -> Strike:
        """SIGKILL for the program of a reducer; the node remains, and rsctl-launch with it."""

    def freeze(self) -> Strike:
        """Stop all processes of the node without an end."""

    def ask(self) -> Strike:
        """SIGTERM for the node's first process; `finish` kills what remains."""

    def fill_disk(self) -> Strike:
        """Let the ranks write no file, as on a full disk, until they end."""

    def cut_off(self) -> Strike:
        """Take the node out of the network. Raises NotStruck for processes."""


def nodes_of(run: str, in_containers: bool) -> dict[str, StruckNode]:
    """The nodes of a run that are up, by replica."""
    return _container_nodes(run) if in_containers else _process_nodes(run)


class _ProcessNode:
    """A node whose processes are known by a variable: of an emulator's node, or of the replica."""

    def __init__(self, run: str, replica: str, mark: tuple[str, str]) -> None:
        self.replica = replica
        self._run, self._mark = run, mark

    def _pids(self) -> list[int]:
        name, value = self._mark
        known = strike_program.of_run(self._run)
        return [pid for pid, variables in known.items() if variables.get(name) == value]

    def kill_ranks(self) -> Strike:
        killed = _found(lambda: strike_program.kill(strike_program.scripts(self._pids())))
        return self._killed(killed, "rank", "rank")

    def kill(self) -> Strike:
        return self._killed(strike_program.kill(self._pids()), "all processes", "process")

    def kill_reducer(self) -> Strike:
        killed = strike_program.kill(strike_program.reducers(self._pids()))
        return self._killed(killed, "the program", "program")

    def _killed(self, killed: list[int], what: str, kind: str) -> Strike:
        if not killed:
            raise NotStruck(f"{self.replica} had no running {kind}")
        return Strike(f"SIGKILL to {what} of {self.replica}")

    def freeze(self) -> Strike:
        stopped: set[int] = set()
        deadline = monotonic() + _EFFECT_SECONDS
        while (pids := set(self._pids()) - stopped) and monotonic() < deadline:
            for pid in pids:
                _send(pid, signal.SIGSTOP)
            stopped |= pids
        if not stopped:
            raise NotStruck(f"{self.replica} had no running process")
        _await(lambda: all(map(_is_stopped, stopped)), f"{self.replica} does not stop")

        def undo() -> None:
            for pid in stopped & set(self._pids()):
                _send(pid, signal.SIGCONT)

        return Strike(f"SIGSTOP to all processes of {self.replica}", undo)

    def ask(self) -> Strike:
        pids = self._pids()
        roots = [pid for pid in pids if _parent(pid) not in pids]
        if not any(_send(pid, signal.SIGTERM) for pid in roots):
            raise NotStruck(f"{self.replica} had no running process")

        def finish() -> None:
            strike_program.kill([pid for pid in self._pids() if pid in pids])

        return Strike(f"SIGTERM to {self.replica}", finish=finish)

    def fill_disk(self) -> Strike:
        def fill() -> list[int]:
            pids = self._pids()
            ranks = strike_program.below(strike_program.scripts(pids), pids)
            return strike_program.limit_files(ranks, 0)

        if not (struck := _found(fill)):
            raise NotStruck(f"{self.replica} had no running rank")
        return Strike(
            f"no space for files of {self.replica}",
            undo=lambda: strike_program.limit_files(struck, None),
        )

    def cut_off(self) -> Strike:
        raise NotStruck("processes share the network of this machine")


class _ContainerNode:
    """A container, by its id: a restarted node has another one."""

    def __init__(self, run: str, replica: str, container: str) -> None:
        self.replica = replica
        self._run, self._container = run, container

    def kill_ranks(self) -> Strike:
        return self._kill_inside("kill", "rank")

    def kill_reducer(self) -> Strike:
        return self._kill_inside("kill-reducer", "the program")

    def _kill_inside(self, action: str, what: str) -> Strike:
        struck = self._ask(action)
        if struck == [1]:
            return self.kill()
        if not struck:
            raise NotStruck(f"{self.replica} had no running {what.removeprefix('the ')}")
        return Strike(f"SIGKILL to {what} of {self.replica}")

    def kill(self) -> Strike:
        self._require("kill")
        _await(lambda: self._state("Running") == "false", f"{self.replica} does not end")
        return Strike(f"docker kill of {self.replica}")

    def freeze(self) -> Strike:
        self._require("pause")
        _await(lambda: self._state("Paused") == "true", f"{self.replica} does not stop")
        resume = ["docker", "unpause", self._container]
        return Strike(f"docker pause of {self.replica}", partial(docker.run, resume))

    def ask(self) -> Strike:
        self._require("kill", "--signal", "TERM")
        finish = partial(docker.run, ["docker", "kill", self._container])
        return Strike(f"SIGTERM to {self.replica}", finish=finish)

    def fill_disk(self) -> Strike:
        if not self._ask("fill"):
            raise NotStruck(f"{self.replica} had no running rank")
        undo = partial(_ask_container, self._run, self._container, "free")
        return Strike(f"no space for files of {self.replica}", undo)

    def cut_off(self) -> Strike:
        form = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
        networks = self._inspect(form).split()
        for network in networks:
            docker.run(["docker", "network", "disconnect", "--force", network, self._container])
        if not networks or self._inspect(form).split():
            raise NotStruck(f"docker did not disconnect {self.replica} from its network")
        return Strike(f"docker network disconnect of {self.replica}")

    def _ask(self, action: str) -> list[object]:
        def ask() -> list[object]:
            done, answer = _ask_container(self._run, self._container, action)
            if answer is None:
                problem = done.stderr.strip().rpartition("\n")[2] or "docker exec did not answer"
                raise NotStruck(f"{self.replica}: {problem[:200]}")
            return answer

        return _found(ask)

    def _require(self, *command: str) -> None:
        done = docker.run(["docker", *command, self._container])
        if done.returncode:
            raise NotStruck(f"{self.replica}: {done.stderr.strip()[:200]}")

    def _state(self, name: str) -> str:
        return self._inspect(f"{{{{.State.{name}}}}}")

    def _inspect(self, form: str) -> str:
        done = docker.run(["docker", "inspect", "--format", form, self._container])
        return done.stdout.strip()


def _process_nodes(run: str) -> dict[str, StruckNode]:
    """A launcher on a cloud's node does not know its replica; the processes that it starts do."""
    nodes: dict[str, StruckNode] = {}
    for variables in strike_program.of_run(run).values():
        replica = variables.get("RSCTL_REPLICA")
        if replica:
            name = _NODE if _NODE in variables else "RSCTL_REPLICA"
            nodes[replica] = _ProcessNode(run, replica, (name, variables[name]))
    return nodes


def _container_nodes(run: str) -> dict[str, StruckNode]:
    form = '{{.ID}} {{.Label "rsctl.replica"}}'
    mine = ["docker", "ps", "--no-trunc", "--filter", f"label=rsctl.run={run}", "--format", form]
    rows = [row.split() for row in docker.run(mine).stdout.splitlines()]
    found = {row[1]: row[0] for row in rows if len(row) == 2}
    return {
        replica: _ContainerNode(run, replica, container)
        for replica, container in (found or _emulated_containers(run)).items()
    }


def _emulated_containers(run: str) -> dict[str, str]:
    """The containers of a rehearsed run, which have its variables, by replica."""
    listed = ["docker", "ps", "--no-trunc", "--quiet", "--filter", "label=rsctl.emulator"]
    found = {}
    for container in docker.run(listed).stdout.split():
        form = "{{range .Config.Env}}{{println .}}{{end}}"
        variables = docker.run(["docker", "inspect", "--format", form, container]).stdout
        if f"RSCTL_RUN={run}" in variables.splitlines():
            for replica in _ask_container(run, container, "replica")[1] or ():
                found[str(replica)] = container
    return found


def _ask_container(
    run: str, container: str, action: str
) -> tuple[subprocess.CompletedProcess[str], list[object] | None]:
    """How the program ended in a container, and its last answer; None if it gave none."""
    argv = ["docker", "exec", "--interactive", container, "sh", "-c", _PYTHON, "sh", run, action]
    text = Path(strike_program.__file__).read_text(encoding="utf-8")
    done = docker.run(argv, text)
    try:
        return done, msgspec.json.decode(done.stdout.splitlines()[-1], type=list[object])
    except (IndexError, msgspec.DecodeError):
        return done, None


def _found(look: Callable[[], list[_T]]) -> list[_T]:
    """Look until something is found, or struck: a rank may start later than the chief's, and what
    a launcher starts before it may end meanwhile.
    """
    deadline = monotonic() + _EFFECT_SECONDS
    while not (found := look()) and monotonic() < deadline:
        sleep(_LOOK_SECONDS)
    return found


def _await(has_happened: Callable[[], bool], otherwise: str) -> None:
    deadline = monotonic() + _EFFECT_SECONDS
    while not has_happened():
        if monotonic() > deadline:
            raise NotStruck(otherwise)
        sleep(_POLL_SECONDS)


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether the process existed."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def _parent(pid: int) -> int:
    with suppress(OSError):
        return strike_program.parent(pid)
    return 0


def _is_stopped(pid: int) -> bool:
    return strike_program.state(pid) in "TtXZ"
