"""Which nodes are not fit for a job, by the readings of all of its nodes. Pure.

A false alarm costs a start, and a slow node that is missed costs what it does without a check, so
the bounds are wide: a node is slow if it is far below the median of the others in each of several
rounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from rsctl.node.health.settings import Checks

UNHEALTHY = "node-unhealthy"
"""The code of a finding on one node that the job must not get."""

CHECK = "node-check"
"""The code of a warning that a check could not judge a node."""

SLOW_NETWORK = "node-network"
FULL_DISK = "node-disk"

Readings = Mapping[str, float]

_LEAST_OF_MEDIAN = 0.5
"""Nodes of one machine type differ by a few percent; processes that share a machine differ by 30 %
and more (`benchmarks/checks.py`)."""

_LEAST_OF_MEDIAN_OF_GPUS = 0.7
"""GPUs have no other load, and differ less."""

_LEAST_OF_CATALOGUE = 0.25
_FLOW_GBPS = 5.0
"""The most that AWS guarantees for one connection between machines that are not in one cluster
placement group, for all machine types (EC2 User Guide, "Amazon EC2 instance network
bandwidth"). One connection is what the check measures."""

_LEAST_BYTES = 256 << 20
_MOST_RETIRED_PAGES = 60
"""The number at which a GPU has to be replaced, as public guides report NVIDIA's rule. Not
verified in a document of NVIDIA; GPUs from Ampere on remap rows instead."""

_OF_APPLICATIONS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that a program causes, and a healthy GPU reports (NVIDIA/k8s-device-plugin, health.go)."""

_RECORDED = frozenset({63, 92})
"""Xids of memory errors that the GPU has remapped (63: NVIDIA, GPU Memory Error Management) or
corrected (92)."""

_SLOWDOWNS = {8: "a hardware slowdown", 64: "its temperature", 128: "its power supply"}
"""Bits of nvmlClocksEventReasons: HwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown."""

_RATES = {
    "matmul_gflops": ("multiplies matrices at {:.3g} GFLOP/s", "cpu"),
    "copy_gbs": ("copies memory at {:.3g} GB/s", "cpu"),
    "send_gbps": ("sends to its neighbours at {:.3g} Gbit/s", "network"),
    "receive_gbps": ("receives from its neighbours at {:.3g} Gbit/s", "network"),
    "cuda.matmul_tflops": ("multiplies matrices at {:.3g} TFLOP/s", "gpu"),
    "cuda.copy_gbs": ("copies memory at {:.3g} GB/s", "gpu"),
}
"""The meaning of a reading, and its check. Readings of all GPUs of all nodes are compared."""

_OTHER_NODE = "Submit the job again to get other machines, on Slurm with targets.slurm.exclude"
_NETWORK_REMEDY = (
    "Look for a firewall, a zone or a placement far from the others, or another job on the network "
    "of these nodes; where this is the speed to expect, set checks.network: false."
)


class Slow(NamedTuple):
    """A rate far below the others: the node's index, the name of the reading."""

    node: int
    name: str


class NodeProblem(NamedTuple):
    """A finding on the node of this index. An error ends the job."""

    node: int
    code: str
    message: str
    remedy: str
    is_error: bool = True


def slow_rates(nodes: Sequence[Readings], checks: Checks) -> frozenset[Slow]:
    """The rates far below the median of the other nodes, or of all other GPUs. Of nodes that share
    one machine, only GPUs are compared.
    """
    families: dict[str, list[tuple[Slow, float]]] = {}
    for index, readings in enumerate(nodes):
        for name, value in readings.items():
            is_judged = not checks.is_one_machine or name.startswith("cuda")
            if _family(name) in _RATES and is_judged:
                families.setdefault(_family(name), []).append((Slow(index, name), value))
    return frozenset(
        slow
        for family, rates in families.items()
        for place, (slow, value) in enumerate(rates)
        if (others := [other for n, (_, other) in enumerate(rates) if n != place])
        and value < _least(family) * median(others)
    )


def problems(
    nodes: Sequence[Readings], slow: frozenset[Slow], checks: Checks, names: Sequence[str]
) -> list[NodeProblem]:
    """The findings on all nodes, errors first. `slow` are the rates that were slow in each round,
    `names` is what a node is called.
    """
    found = [*_network(nodes, slow, checks, names)]
    for each in sorted(slow):
        what, check = _RATES[_family(each.name)]
        if check != "network":
            text = f"{_part(each.name)}{what.format(nodes[each.node][each.name])}"
            found.append(_slow(each, f"{names[each.node]}: {text}", nodes, check))
    for index, readings in enumerate(nodes):
        found += _disks(index, names[index], readings)
        found += _gpus(index, names[index], readings, checks)
    return sorted(found, key=lambda problem: not problem.is_error)


def _family(name: str) -> str:
    return re.sub(r"^cuda\d+\.", "cuda.", name)


def _part(name: str) -> str:
    match = re.match(r"(?:cuda|gpu)(\d+)\.", name)
    return f"GPU {match[1]} " if match else ""


def _least(family: str) -> float:
    return _LEAST_OF_MEDIAN_OF_GPUS if family.startswith("cuda.") else _LEAST_OF_MEDIAN


def _slow(each: Slow, text: str, nodes: Sequence[Readings], check: str) -> NodeProblem:
    others = [
        value
        for index, readings in enumerate(nodes)
        for name, value in readings.items()
        if _family(name) == _family(each.name) and (index, name) != each
    ]
    of = "other GPUs" if check == "gpu" else "other nodes"
    message = f"{text}, and the median of the {of} is {median(others):.3g}"
    remedy = f"{_OTHER_NODE}; where nodes differ by design, set checks.{check}: false."
    return NodeProblem(each.node, UNHEALTHY, message, remedy)


def _network(
    nodes: Sequence[Readings], slow: frozenset[Slow], checks: Checks, names: Sequence[str]
) -> Iterator[NodeProblem]:
    """The slow nodes by name. If that is every second one, the network is at fault; two nodes
    cannot tell who of them is.
    """
    least = _LEAST_OF_CATALOGUE * min(checks.gbps, _FLOW_GBPS) if checks.gbps else 0.0
    below = {
        Slow(index, name)
        for index, readings in enumerate(nodes)
        for name in ("send_gbps", "receive_gbps")
        if readings.get(name, least) < least
    }
    found = {each for each in slow if each.name in ("send_gbps", "receive_gbps")} | below
    guilty = sorted({each.node for each in found})
    if not guilty:
        return
    if 2 * len(guilty) >= len(nodes):
        rates = [nodes[i][n] for i, n in found]
        who = " and ".join(names[i] for i in guilty) if len(guilty) < 4 else f"{len(guilty)} nodes"
        message = f"{who} reach only {min(rates):.3g} to {max(rates):.3g} Gbit/s on one connection"
        expected = f", and the catalogue has {checks.gbps:g} for the machine" if below else ""
        other = "" if below else ", far less than in the other direction"
        yield NodeProblem(guilty[0], SLOW_NETWORK, message + expected + other, _NETWORK_REMEDY)
        return
    for index in guilty:
        each = next(each for each in sorted(found) if each.node == index)
        text = _RATES[each.name][0].format(nodes[index][each.name])
        problem = _slow(each, f"{names[index]}: {text}", nodes, "network")
        yield problem._replace(remedy=f"{_OTHER_NODE}. {_NETWORK_REMEDY}")


def _disks(index: int, name: str, readings: Readings) -> Iterator[NodeProblem]:
    for folder in ("tmp", "outputs", "checkpoints"):
        free = readings.get(f"disk.{folder}_free_bytes")
        files = readings.get(f"disk.{folder}_free_files")
        if (free is None or free >= _LEAST_BYTES) and (files is None or files >= 1):
            continue
        left = "no file more" if files is not None and files < 1 else f"{(free or 0) / 1e6:.0f} MB"
        what = {"tmp": "temporary files"}.get(folder, folder)
        message = f"{name}: the disk for {what} has space for {left}"
        remedy = "Free space there, or set checks.cpu: false."
        # Outputs may be on a disk that all nodes share: another node would not help.
        yield NodeProblem(index, UNHEALTHY if folder == "tmp" else FULL_DISK, message, remedy)


def _gpus(index: int, name: str, readings: Readings, checks: Checks) -> Iterator[NodeProblem]:
    if not checks.gpu:
        return
    count = readings.get("gpus")
    if checks.gpus and count and count < checks.gpus:
        message = f"{name} has {count:g} of the {checks.gpus:g} GPUs of its machine"
        yield NodeProblem(index, UNHEALTHY, message, f"{_OTHER_NODE}.")
    if readings.get("rates_late"):
        message = f"{name}: its GPUs have not been measured, because PyTorch did not answer in time"
        remedy = "Look for an image that loads slowly, or a GPU that hangs."
        yield NodeProblem(index, CHECK, message, remedy, is_error=False)
    if count == 0:
        message = f"{name} has no NVIDIA driver, so that checks.gpu has checked nothing"
        yield NodeProblem(index, "node-gpu", message, "Set checks.gpu: false.", is_error=False)
    for key, value in readings.items():
        if key.startswith("gpu") and "." in key:
            yield from _gpu(index, f"{name}: {_part(key)}", key.partition(".")[2], int(value))


def _gpu(index: int, who: str, key: str, value: int) -> Iterator[NodeProblem]:
    """A sign of a fault. What needs a reset but harms no program is a warning."""
    faults = {
        "ecc_uncorrected": f"has {value} uncorrected memory errors since its driver was loaded",
        "remap_failed": "could not remap a broken row of its memory",
        "retired_pages": f"has {value} retired pages of memory",
        "xid": f"has reported error Xid {value}",
    }
    is_fault = key in faults and value > 0
    if key == "retired_pages":
        is_fault = value >= _MOST_RETIRED_PAGES
    elif key == "xid":
        is_fault = value not in _OF_APPLICATIONS | _RECORDED
    if is_fault:
        remedy = f"{_OTHER_NODE}, and report this GPU to the owner of the machine."
        yield NodeProblem(index, UNHEALTHY, f"{who}{faults[key]}", remedy)
    elif key in ("remap_pending", "retirement_pending") and value > 0:
        message = f"{who}waits for a reset to replace broken memory"
        remedy = "Have the GPU reset, or the node restarted, after the job."
        yield NodeProblem(index, "node-gpu", message, remedy, is_error=False)
    elif key == "throttled" and (why := [t for bit, t in _SLOWDOWNS.items() if value & bit]):
        message = f"{who}lowers its clock because of {' and '.join(why)}"
        remedy = "Look at its rates in `rsctl metrics --nodes`, and report it if they are low."
        yield NodeProblem(index, "node-gpu", message, remedy, is_error=False)
