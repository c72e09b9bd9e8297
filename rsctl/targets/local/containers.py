"""Replicas as containers under docker compose, for the supervisor."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from signal import SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM
from time import monotonic, sleep, time
from typing import Any

import yaml

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.commands import last_line
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stream.ends import Killer
from rsctl.targets.local import docker
from rsctl.targets.local.backend import ReplicaCommand, ReplicaExit
from rsctl.targets.local.composefile import container_name, project_name

_END_SIGNALS = {str(int(number)) for number in (SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM)}
"""Signals that ask or make a program end, as docker's events have them."""
_RESTART_SECONDS = 30.0  # an engine that restarts ends the containers, but removes none of them
_POLL_SECONDS = 0.5


class ContainerBackend:
    """Starts each container attached, so that its output and exit code are available like a
    command's.
    """

    def __init__(
        self, folder: RunFolder, description: RunDescription, secrets: Mapping[str, str]
    ) -> None:
        self._file = folder.path / "compose.yaml"
        self._content: dict[str, Any] = description.request["compose"]
        self._run = description.run
        self._secrets = secrets
        self._created = 0.0
        self._has_lost_engine = False

    def prepare(self, attempt: int) -> None:
        """Create the network and the containers, none of them started.

        Compose reads values that the plan leaves open from its standard input: in its own
        environment, PATH or DOCKER_HOST of a job would change compose itself.
        """
        with suppress(OSError):  # it is for people to read
            self._file.write_text(yaml.safe_dump(self._content, sort_keys=False))
        if attempt > 1:
            self.clean_up()
        self._created = time()
        given = {**self._secrets, "RSCTL_ATTEMPT": str(attempt)}
        content = yaml.safe_dump(with_values(self._content, given), sort_keys=False)
        file = ["--project-directory", str(self._file.parent), "--file", "-"]
        docker.require([*self._compose(), *file, "create", "--quiet-pull"], content, None)

    def command(self, replica: str, attempt: int) -> ReplicaCommand:
        """A client that starts the container and stays attached to it."""
        argv = ["docker", "start", "--attach", container_name(self._run, replica)]
        return ReplicaCommand(argv, None, dict(os.environ))

    def stop(self, replicas: Mapping[str, int], hard: bool) -> None:
        """One docker command for all of them; containers that have ended cause no error."""
        names = [container_name(self._run, replica) for replica in replicas]
        if names:
            docker.run(["docker", "kill", "--signal", "KILL" if hard else "TERM", *names])

    def ask(self, replicas: Collection[str], number: int) -> None:
        """By a program in each container."""
        docker.ask_containers(self._run, replicas, number)  # the supervisor reaps them later

    def exit_of(self, replica: str, exit_code: int) -> ReplicaExit:
        """Docker's information on the container's end.

        It may not know of a kill by the kernel because the whole machine was out of memory.
        """
        fields = "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}} {{.State.Error}}"
        name = container_name(self._run, replica)
        inspected = docker.run(["docker", "inspect", "--format", fields, name])
        if inspected.returncode and "no such object" not in inspected.stderr.lower():
            self._has_lost_engine = True
            reason = f"the Docker engine no longer answers: {last_line(inspected)}"
            return ReplicaExit(exit_code or 1, reason)
        if inspected.returncode:
            command = self._ending_command(name)
            reason = _through_docker(command) or "its container no longer exists"
            return ReplicaExit(exit_code or 1, reason, Killer(command=command))
        status, code, out_of_memory, problem = (inspected.stdout.strip() + "   ").split(" ", 3)
        if out_of_memory == "true":
            more = "" if int(code) else ": the kernel killed one of its processes"
            return ReplicaExit(int(code), f"out of memory{more}", Killer(out_of_memory=True))
        if problem.strip():
            return ReplicaExit(int(code) or 1, problem.strip())
        command = self._ending_command(name) if int(code) or status != "exited" else None
        if status != "exited":
            command = "docker rm" if command and status == "removing" else command
            reason = _through_docker(command) or f"its container is {status}; docker lost it"
            return ReplicaExit(exit_code or 1, reason, Killer(command=command))
        return ReplicaExit(int(code), _through_docker(command), Killer(command=command))

    def _ending_command(self, container: str) -> str | None:
        """The docker command of another process that ended a container, if any.

        The engine remembers its last events (docs.docker.com, `docker system events`).
        """
        argv = ["docker", "events", "--since", f"{self._created:.9f}", "--until", f"{time():.9f}"]
        filters = (f"container={container}", "event=kill", "event=destroy")
        argv += [f"--filter={each}" for each in filters]
        form = "{{.Action}} {{.Actor.Attributes.signal}}"
        events = docker.run([*argv, "--format", form]).stdout.splitlines()
        if any(event.startswith("destroy") for event in events):
            return "docker rm"
        signals = {event.removeprefix("kill ") for event in events}
        if str(int(SIGTERM)) in signals:
            return "docker stop"
        return "docker kill" if signals & _END_SIGNALS else None

    def clean_up(self) -> None:
        """Remove the containers and the network; safe without the compose file too.

        An engine that no longer answered at a container's end has time to restart.
        """
        down = [*self._compose(), "down", "--volumes", "--timeout", "0"]
        deadline = monotonic() + (_RESTART_SECONDS if self._has_lost_engine else 0.0)
        self._has_lost_engine = False
        while True:
            try:
                docker.require(down)
                return
            except RsctlError as problem:
                if monotonic() >= deadline:
                    raise self._remaining(problem, down) from None
            sleep(_POLL_SECONDS)

    def _remaining(self, problem: RsctlError, down: list[str]) -> RsctlError:
        message = f"containers and a network of {self._run} may remain: {problem.summary}"
        remedy = f"{problem.findings[0].remedy or 'remove the cause'}; then: {shlex.join(down)}"
        return RsctlError(problem.exit_code, error("docker", message, remedy))

    def _compose(self) -> list[str]:
        command = docker.compose_command()
        if command is None:
            raise RsctlError(
                ExitCode.ENVIRONMENT, error("compose", "docker compose is not installed")
            )
        mine = ["--project-name", project_name(self._run)]
        return [*command, *mine, "--env-file", os.devnull]  # the user's .env is for other projects


def _through_docker(command: str | None) -> str | None:
    return f"ended through docker: {command}" if command else None


def with_values(content: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """A compose file whose variables without a value have the given one; `$` is doubled."""
    services = {}
    for name, service in content["services"].items():
        filled = {
            variable: given.get(variable, "").replace("$", "$$") if value is None else value
            for variable, value in service["environment"].items()
        }
        services[name] = {**service, "environment": filled}
    return {**content, "services": services}
