"""Which runner an emulator gets: docker, or processes where no engine answers."""

from __future__ import annotations

from collections.abc import Mapping

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.managed.emulator.nodes import NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.docker import DockerRunner, obstacle
from rsctl.targets.managed.emulator.nodes.process import ProcessRunner

RUNNERS = ("auto", "docker", "process")


def make_runner(kind: str, programs: Mapping[str, Program] | None = None) -> NodeRunner:
    """The runner of a kind: docker, process, or auto, which is docker if an engine answers.

    `programs` are the process runner's programs by image, `ANY_IMAGE` for any other. Before it
    starts its first node, a runner cleans up after killed runners of this RSCTL_HOME. Raises
    RsctlError if this machine cannot run that kind.
    """
    if kind not in RUNNERS:
        message = f"{kind!r} is not a runner of nodes"
        finding = error("runner", message, f"give {', '.join(RUNNERS)}")
        raise RsctlError(ExitCode.USAGE, finding)
    if kind == "process":
        return ProcessRunner(programs or {})
    missing = obstacle()
    if missing is None:
        return DockerRunner()
    if kind == "docker":
        raise RsctlError(ExitCode.ENVIRONMENT, missing)
    return ProcessRunner(programs or {})
