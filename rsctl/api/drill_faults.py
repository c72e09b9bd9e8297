"""The faults of a drill: what each does to a running job, and where it is not possible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Optional

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.suggestions import close_match

Kind = Literal[
    "preempt", "kill-ranks", "kill-reducer", "freeze", "notice", "stock-out", "fill", "cut-off"
]


class Fault(NamedTuple):
    """A fault by its name; `notice` is in seconds."""

    name: str
    kind: Kind
    text: str
    notice: float = 0.0


FAULTS = (
    Fault("preemption", "preempt", "a node is lost without notice"),
    Fault("killed-worker", "kill-ranks", "a rank is killed, its node remains"),
    Fault("killed-reducer", "kill-reducer", "a reducer is lost"),
    Fault("stopped-node", "freeze", "all processes of a node stop without an end"),
    Fault("notice-30s", "notice", "a node is lost 30 s after SIGTERM", 30.0),
    Fault("notice-120s", "notice", "a node is lost 120 s after SIGTERM", 120.0),
    Fault("stock-out", "stock-out", "a node is lost, and no machine is available at first"),
    Fault("full-disk", "fill", "the workers can write no file until they end"),
    Fault("dropped-node", "cut-off", "the network drops a node"),
)
"""All faults, in the order in which a drill runs them."""

_NAMES = {fault.name: fault for fault in FAULTS}


class Situation(NamedTuple):
    """The properties of a job on a target that decide which faults are possible.

    `behaviours` are the names of an emulated cloud's behaviours, None on a local target.
    """

    target: str
    in_containers: bool
    has_reducers: bool
    is_spot: bool
    has_processes: bool = True
    behaviours: Optional[frozenset[str]] = None

    @property
    def is_rehearsed(self) -> bool:
        """Whether the target is an emulated cloud."""
        return self.behaviours is not None


def chosen_faults(names: Sequence[str]) -> list[Fault]:
    """The faults of these names, each once; all without a name. Raises RsctlError."""
    for name in names:
        if name not in _NAMES:
            close = close_match(name, list(_NAMES))
            remedy = f"did you mean {close}?" if close else f"use {', '.join(_NAMES)}"
            message = f"there is no fault {name!r}"
            raise RsctlError(ExitCode.USAGE, error("faults", message, remedy))
    return [_NAMES[name] for name in dict.fromkeys(names)] or list(FAULTS)


def obstacle(fault: Fault, situation: Situation) -> str | None:
    """Why a fault is not possible; None if it is."""
    target, kind = situation.target, fault.kind
    strikes_node = kind != "stock-out" and not (
        situation.is_rehearsed and kind in ("preempt", "notice")
    )
    if kind == "kill-reducer" and not situation.has_reducers:
        return "the job has no reducers"
    if kind == "stock-out" and not situation.is_rehearsed:
        return f"target {target} runs on this machine, which is never out of stock"
    if kind == "cut-off" and not situation.in_containers:
        return "nodes that are processes share the network of this machine: use containers"
    if kind == "notice" and situation.is_rehearsed:
        if "spot_notice" not in (situation.behaviours or ()):
            return f"the documentation of {target} describes no notice before a preemption"
        if not situation.is_spot:
            return f"{target} gives notice to spot machines only, and limits.spot is not set"
    if strikes_node and not situation.in_containers and not situation.has_processes:
        return "processes can be found on Linux only"
    return None


def behaviour_of(fault: Fault, situation: Situation, pace: float) -> dict[str, Any]:
    """How the emulated cloud behaves for a fault; `pace` is the factor on its waits."""
    if not situation.is_rehearsed:
        return {}
    behaviour: dict[str, Any] = {"ingest": 0}
    if "spot_notice" in (situation.behaviours or ()):
        behaviour["spot_notice"] = fault.kind == "notice"
        if fault.kind == "notice":
            behaviour["grace"] = fault.notice / (pace or 1.0)
    return behaviour


def struck_replicas(fault: Fault, replicas: Iterable[str]) -> list[str]:
    """The nodes that a fault strikes: the last worker, the last reducer, or all workers."""
    role = "reducer" if fault.kind == "kill-reducer" else "worker"
    named = [name for name in replicas if name.rpartition("-")[0] == role]
    return named if fault.kind == "fill" else named[-1:]
