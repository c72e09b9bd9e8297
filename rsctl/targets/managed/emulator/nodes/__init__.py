"""Where the nodes of emulated jobs run: in containers, or as processes on this machine.

An emulator of a cloud asks a `NodeRunner` for `JobNodes`, one for each job, starts and ends the
job's nodes there and gets their lines and exit codes. It knows nothing of docker or processes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple, Optional, Protocol

Kind = Literal["docker", "process"]
ANY_IMAGE = "*"
"""The key in `programs` of the program for every image without its own program."""


class Node(NamedTuple):
    """One node of a job, as the cloud's container contract describes it.

    `name` is unique within the job; other nodes reach it at `JobNodes.address`. `entrypoint`
    is not empty and replaces the image's own, None leaves that. `mounts` are folders of this
    machine by the absolute path inside; they are made if they are missing. `hostname` is a
    container's host name if it differs from `name`; processes have this machine's.
    """

    name: str
    image: str
    entrypoint: Optional[list[str]]
    args: list[str]
    env: dict[str, str]
    mounts: dict[str, Path]
    hostname: str = ""


class NotStarted(int):
    """The exit code of a node whose command could not be started, with the engine's message.

    A shell has the same codes for a command that it does not find (127) or may not run (126).
    """

    message: str

    def __new__(cls, code: int, message: str) -> NotStarted:
        """The code with its message."""
        made = super().__new__(cls, code)
        made.message = message
        return made


class NodeListener(Protocol):
    """Receives lines and exits of one job's nodes, from threads of the runner; it must be quick.

    For one node the calls come one after the other, and `ended` is the last.
    """

    def line(self, node: str, stream: str, text: str, time: str) -> None:
        """One whole line of `stdout` or `stderr`; `time` is RFC 3339, UTC, with microseconds.

        A line of more than 256 KiB comes in pieces.
        """

    def ended(self, node: str, code: int) -> None:
        """The node has ended with this exit code: 128 + N if signal N killed it.

        The code is a `NotStarted` if the node's command never ran; what the engine printed of that
        came as lines of stderr.
        """


class JobNodes(Protocol):
    """The nodes of one job. A name may be started again once its node has ended."""

    def address(self, name: str) -> str:
        """The host by which the others reach a node; may be asked before it is started."""

    def port(self, name: str, wanted: int) -> int:
        """The port that the job is to use for a service at a node; always the same one."""

    def start(self, node: Node) -> None:
        """Start a node. Raises OSError or RsctlError if that cannot be done; `ended` follows not.

        What fails only in the node, such as a command that its image does not have, ends it.
        """

    def stop(self, name: str, grace: float) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds. Returns at once; `ended` follows.

        Harmless for a node that has ended or was never started.
        """

    def kill(self, name: str) -> None:
        """SIGKILL, as when a machine is lost. Returns at once; `ended` follows."""

    def usage(self, name: str) -> dict[str, object]:
        """The resource usage of a running node, in the fields of a `telemetry` line; may take
        seconds.

        Empty if it does not run. CPU counts since the last call, network since the node's start.
        """

    def close(self) -> None:
        """End the nodes and remove everything of this job; waits for `ended` of all."""


class NodeRunner(Protocol):
    """Runs the nodes of jobs: by docker, or as processes."""

    kind: Kind

    def has_image(self, image: str) -> bool:
        """Whether nodes of this image could be started."""

    def nodes(self, job: str, listener: NodeListener, isolated: bool = False) -> JobNodes:
        """Where the nodes of a job will run. Raises RsctlError if this machine cannot run any.

        Isolated nodes reach each other by network, and nothing else.
        """

    def close(self) -> None:
        """Close all nodes, and let go of what the runner itself holds."""


class Program(NamedTuple):
    """The replacement for an image without containers.

    `source` becomes the working directory, as the image's /app; `entrypoint` is the image's own,
    where `rsctl-launch` is the one of `python`'s rsctl.
    """

    source: Path
    python: str = sys.executable
    entrypoint: tuple[str, ...] = ("rsctl-launch",)
