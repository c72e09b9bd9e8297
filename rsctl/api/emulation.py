"""A cloud on this machine, for rsctl and the vendor's own clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from rsctl.api.arguments import check_count, check_text
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.targets.managed.emulator import NOTICE
from rsctl.targets.managed.emulator.clouds import (
    CloudEmulator,
    client_environment,
    emulator_names,
    emulator_of,
    make_emulator,
)
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, NodeRunner, Program
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from rsctl.targets.managed.emulator.scratch import ScratchFolder
from rsctl.targets.managed.rehearsal.rehearsal import unknown_behaviour


@dataclass(frozen=True)
class EmulatedCloud:
    """An emulator that serves.

    `environment` are the variables by which clients find it, `options` its project and region or
    its region alone, `folder` the location of its buckets, `runner` the program that runs the nodes
    of jobs.
    """

    cloud: str
    url: str
    runner: str
    folder: Path
    options: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    notice: str = NOTICE


def emulated_clouds() -> list[str]:
    """The targets that have an emulator."""
    return emulator_names()


@contextmanager
def emulate(
    cloud: str,
    *,
    port: int = 0,
    runner: Literal["auto", "docker", "process"] = "auto",
    source: str | PathLike[str] = "",
    folder: str | PathLike[str] | None = None,
    pace: float = 0.05,
    behaviour: Mapping[str, Any] | None = None,
    faults: Iterable[Fault] = (),
) -> Iterator[EmulatedCloud]:
    """Emulate a cloud on loopback while the block runs; all its jobs end with the block.

    `cloud` is the name of a target with an emulator: vertex, sagemaker, or a third-party target.

    `port` 0 stands for a free port. With processes `source` stands for /app in every image.
    `folder` is for its buckets, by default a temporary one. `pace` is a factor on waits such as for
    machines. Raises RsctlError, for example for a target without an emulator.
    """
    check_text("cloud", cloud)
    check_count("port", port, 0, 65535)
    settings = {**(behaviour or {}), "pace": pace}
    nodes = make_runner(runner, {ANY_IMAGE: Program(Path(source).absolute())})
    with ExitStack() as stack:
        stack.callback(nodes.close)
        scratch = stack.enter_context(closing(ScratchFolder()))
        root = Path(folder or scratch.path).absolute()
        root.mkdir(parents=True, exist_ok=True)
        emulator = _make(cloud, root, nodes, settings)
        for fault in faults:
            emulator.faults.add(fault)
        _listen(emulator, port)
        stack.enter_context(emulator)
        names = [name for name in ("project", "region") if hasattr(emulator, name)]
        yield EmulatedCloud(
            cloud=cloud,
            url=emulator.url,
            runner=nodes.kind,
            folder=root,
            options={name: getattr(emulator, name) for name in names},
            environment=client_environment(emulator.environment(), pace),
        )


def _make(cloud: str, folder: Path, nodes: NodeRunner, behaviour: dict[str, Any]) -> CloudEmulator:
    try:
        return make_emulator(emulator_of(cloud).emulator, folder, nodes, {}, behaviour)
    except ValueError as problem:
        raise unknown_behaviour(problem) from None


def _listen(emulator: CloudEmulator, port: int) -> None:
    if not port:
        return
    try:
        emulator.listen(port)
    except OSError as problem:
        message = f"cannot listen on port {port}: {problem.strerror}"
        finding = error("port", message, "use another port, or omit --port")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
