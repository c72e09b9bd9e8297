"""Strikes a run of a drill: its nodes on this machine, or its emulated cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rsctl.api.drill_faults import Fault, Situation, struck_replicas
from rsctl.api.run_handle import Run
from rsctl.clients.emulator_control import EmulatorControl
from rsctl.targets.local.strikes import NotStruck, Strike, StruckNode, nodes_of
from rsctl.targets.managed.endpoints import endpoints_of

_METHODS: Mapping[str, Callable[[StruckNode], Strike]] = {
    "preempt": lambda node: node.kill(),
    "kill-ranks": lambda node: node.kill_ranks(),
    "kill-reducer": lambda node: node.kill(),
    "kill-reducer-program": lambda node: node.kill_reducer(),
    "freeze": lambda node: node.freeze(),
    "notice": lambda node: node.ask(),
    "fill": lambda node: node.fill_disk(),
    "cut-off": lambda node: node.cut_off(),
}


def strike(fault: Fault, situation: Situation, run: Run) -> Strike:
    """Strike a run. Raises NotStruck and RsctlError."""
    if situation.is_rehearsed and fault.kind in ("preempt", "notice", "stock-out"):
        control = _control(run)
        if fault.kind == "stock-out":
            control.change({"stockouts": 1})
        control.preempt(run.record.url.rpartition("/")[2])
        return Strike(f"the emulator of {situation.target} takes a machine away")
    nodes = nodes_of(run.id, situation.in_containers)
    names = [name for name in struck_replicas(fault, run.replicas) if name in nodes]
    if not names:
        raise NotStruck("no node to strike was running")
    strikes: list[Strike] = []
    for name in names:
        try:
            strikes.append(_METHODS[_method(fault, situation)](nodes[name]))
        except NotStruck:
            if not strikes:
                raise
            break  # the strike of another node has ended the job
    return Strike(
        "; ".join(one.text for one in strikes),
        lambda: [one.undo() for one in strikes],
        lambda: [one.finish() for one in strikes],
    )


def _method(fault: Fault, situation: Situation) -> str:
    """A cloud ends the job with the container of a reducer, so there its program alone is killed.

    The loss of its machine is a preemption.
    """
    if situation.is_rehearsed and fault.kind == "kill-reducer":
        return "kill-reducer-program"
    return fault.kind


def _control(run: Run) -> EmulatorControl:
    *_, region, _ = run.record.url.split("/")  # as in SCHEME://[PROJECT/]REGION/JOB
    return EmulatorControl(endpoints_of(run.id), region)


def is_out_of_stock(run: Run) -> bool:
    """Whether the emulator has refused a machine."""
    return bool(_control(run).behaviour()["stockouts"] == 0)
