"""The docker and docker compose commands that rsctl runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.commands import run_command
from rsctl.targets.local.composefile import container_name

ANSWER_SECONDS = 60.0
"""How long an engine may take to answer; one that hangs must not keep a run from ending."""

_REQUEST = 'printf "%s\\n" "$1" > "${TMPDIR:-/tmp}/rsctl-ask-$RSCTL_REPLICA"'
"""A shell does it: where an image has rsctl and its Python differs from image to image."""
_ASK_SECONDS = 10
_ANY_ERROR = "start"  # the cause of each error of an engine that is otherwise unknown
_MISSED_FOLDER = re.compile("bind source path does not exist: (/.*)")


def compose_command() -> list[str] | None:
    """`docker compose`, or a `docker-compose` on the PATH or beside this Python, or None."""
    if _answers(["docker", "compose", "version"]):
        return ["docker", "compose"]
    beside = Path(sys.executable).with_name("docker-compose")
    for program in (shutil.which("docker-compose"), str(beside)):
        if program and _answers([program, "version"]):
            return [program]
    return None


def missing() -> list[Finding]:
    """The missing requirements for containers on this machine."""
    if shutil.which("docker") is None:
        return [
            error(
                "docker",
                "the docker command is not installed",
                "install Docker, or use --target process",
            )
        ]
    reached = run(["docker", "version"])
    if reached.returncode:
        return [
            error(
                "docker",
                f"no Docker engine answers: {_last_line(reached.stderr)}",
                "start it, or use --target process",
            )
        ]
    if "podman engine" in reached.stdout.lower():
        message = "the docker command uses Podman, which does not accept the containers of target "
        return [error("docker", f"{message}compose", "use Docker, or --target process")]
    if compose_command() is None:
        return [
            error("compose", "docker compose is not installed", "install the Docker compose plugin")
        ]
    return []


def run(
    argv: list[str], stdin: str | None = None, seconds: float | None = ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and keep its output. Never raises for its failure.

    One that does not answer within `seconds` is ended; None waits for as long as it takes.
    """
    return run_command(argv, seconds=seconds, stdin=stdin)


def require(
    argv: list[str], stdin: str | None = None, seconds: float | None = ANSWER_SECONDS
) -> str:
    """The standard output of a command that must succeed. Raises RsctlError with its last line."""
    done = run(argv, stdin, seconds)
    if done.returncode:
        shown = _last_line(done.stderr or done.stdout) or f"exit code {done.returncode}"
        what = " ".join(argv[:4])
        raise RsctlError(ExitCode.REFUSED, error("docker", f"{what}: {shown}", _remedy(shown)))
    return done.stdout


def _remedy(problem: str) -> str | None:
    """The remedy of a known cause; a folder of this machine may be missing on the engine's."""
    missed = _MISSED_FOLDER.search(problem)
    if missed and os.path.exists(missed[1]):
        return (
            "this machine has that folder, but the Docker engine does not: use an engine on this "
            "machine, use --target process, or set RSCTL_HOME to a folder that both have at the "
            "same path"
        )
    from rsctl.runs.stream.diagnosis import causes_in  # slow to import, and rarely needed

    causes = (cause for cause in causes_in([problem]) if cause.code != _ANY_ERROR)
    return next((cause.remedy for cause in causes), None)


def ask_containers(run: str, replicas: Iterable[str], number: int) -> list[subprocess.Popen[bytes]]:
    """Ask the launchers of containers to report what their ranks do, all at once; returns docker's
    commands, which end soon.
    """
    return [
        subprocess.Popen(
            [
                *("timeout", "-k", "1", str(_ASK_SECONDS)),
                *("docker", "exec", container_name(run, replica)),
                *("sh", "-c", _REQUEST, "sh", str(number)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for replica in replicas
    ]


def _answers(argv: list[str]) -> bool:
    return run(argv).returncode == 0


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
