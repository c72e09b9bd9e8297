"""The fingerprint of a measurement: what must be equal for a comparison, and what may differ.

Target, machines, counts and arguments must be equal, cell by cell, and the definition of the
metric. What a change may change is shown beside the verdict: source, image, environment, versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Optional

import msgspec

from rsctl.bench.differences import (
    ALTERNATIVES,
    NOT_SET,
    OTHER_FILES,
    Difference,
    argument_differences,
    differences,
    value_text,
)
from rsctl.estimate.costs.billing import billing_of
from rsctl.findings import RsctlError
from rsctl.job.gate_checks import metric_of
from rsctl.job.secret_names import public_arguments, public_variables
from rsctl.node.nvml import Nvml
from rsctl.node.versions import machine
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.runs.versions import versions_of
from rsctl.target_info import ARGUMENT_KEYS, has_target, target_info
from rsctl.targets.base import Pool

Cell = dict[str, Any]
"""The values of one cell of a matrix by key path; empty if there is no matrix."""

_OF_THE_MACHINE = ("cpu", "cores", "clock", "gpu", "gpu_clock")
_CLOCK = re.compile(r", [0-9.]+ [MG]Hz(?: and [0-9]+ MHz)*")
_RUNS_OWN_ENV = ("RSCTL_OUTPUT_DIR", "RSCTL_CHECKPOINT_DIR", "RSCTL_RUN", "RSCTL_CLUSTER")
_ARGUMENTS = "arguments"
_ENV = "env."
_FILE = "file "
_ABSENT = {_ENV: NOT_SET, _FILE: "does not exist", "package ": "not installed"}
_SECRET = "(secret)"  # noqa: S105


class CellPrint(msgspec.Struct, omit_defaults=True):
    """The properties of one cell that must be equal, and the machine of each repetition.

    A machine is None if no node of the repetition's run has reported it.
    """

    cell: Cell
    fixed: dict[str, Any]
    machines: list[Optional[str]] = []


class Fingerprint(msgspec.Struct):
    """The identity of a measurement.

    `cells` have the properties that must be equal by cell, `metrics` the definition of each metric,
    and `shown` the properties that may differ. Unknown properties are omitted.
    """

    cells: list[CellPrint] = []
    metrics: dict[str, dict[str, Any]] = {}
    shown: dict[str, Any] = {}

    def of_cell(self, cell: Cell) -> dict[str, Any] | None:
        """The properties of a cell that must be equal; None if the cell does not exist."""
        return next((entry.fixed for entry in self.cells if entry.cell == cell), None)

    def machines_of(self, cell: Cell) -> list[Optional[str]]:
        """The machine of each repetition of a cell; empty if that is not recorded."""
        return next((entry.machines for entry in self.cells if entry.cell == cell), [])


def refusals(
    baseline: Fingerprint, candidate: Fingerprint, cell: Cell, metric: str
) -> list[Difference]:
    """Why a metric of a cell cannot be compared: differences in what must be equal."""
    return [
        *fixed_differences(baseline, candidate, cell),
        *definition_differences(baseline, candidate, metric_of(metric)),
    ]


def fixed_differences(
    baseline: Fingerprint, candidate: Fingerprint, cell: Cell
) -> list[Difference]:
    """Differences of a cell's target, machines, counts and arguments."""
    before, after = baseline.of_cell(cell), candidate.of_cell(cell)
    if not before or not after:  # nothing of the cell was ever submitted
        return []
    found = differences(_known_to_both(before, after), _known_to_both(after, before))
    return [one for each in found for one in _in_detail(each)]


def machines_to_compare(
    baseline: Fingerprint, candidate: Fingerprint, cell: Cell
) -> tuple[list[Optional[str]], list[Optional[str]]] | None:
    """The machines of both sides' repetitions if they are of several kinds; None otherwise."""
    before, after = baseline.machines_of(cell), candidate.machines_of(cell)
    if _is_without_clock(before) or _is_without_clock(after):
        before, after = ([_without_clock(m) for m in side] for side in (before, after))
    kinds = {*before, *after} - {None}
    return (before, after) if before and after and len(kinds) > 1 else None


def with_repetitions(first: Fingerprint, again: Fingerprint) -> Fingerprint:
    """The fingerprint of the repetitions of both."""
    cells = [
        msgspec.structs.replace(entry, machines=[*entry.machines, *again.machines_of(entry.cell)])
        for entry in first.cells
    ]
    return msgspec.structs.replace(first, cells=cells)


def definition_differences(
    baseline: Fingerprint, candidate: Fingerprint, metric: str
) -> list[Difference]:
    """Differences in how a metric's sample comes about."""
    before, after = baseline.metrics.get(metric), candidate.metrics.get(metric)
    if before is None or after is None:
        return []
    return differences(before, after, f"metrics.{metric}.")


def shown_differences(
    baseline: Fingerprint, candidate: Fingerprint, have_variables: bool = False
) -> list[Difference]:
    """Differences in what may differ. `have_variables` is whether both sides know all of
    their variables, even if there are none.

    Files and packages count if both sides have recorded some: older measurements have a digest of
    their definition instead, which says nothing.
    """
    before, after = (
        {name: value for name, value in side.shown.items() if name != "definition"}
        for side in (baseline, candidate)
    )
    for kind in (_FILE, "package "):
        if not all(any(name.startswith(kind) for name in side) for side in (before, after)):
            before, after = (
                {name: value for name, value in side.items() if not name.startswith(kind)}
                for side in (before, after)
            )
    sides = (before, after)
    have_variables |= all(any(name.startswith(_ENV) for name in side) for side in sides)
    unsure = [] if have_variables else [_ENV]
    unsure += [_FILE] if OTHER_FILES in {**before, **after} else []
    found = differences(before, after)
    return [one if one.name.startswith(tuple(unsure)) else _or_absent(one) for one in found]


def _or_absent(one: Difference) -> Difference:
    """A difference of a variable, a file or a package: one that a side does not have is absent, not
    unknown.
    """
    absent = next((text for kind, text in _ABSENT.items() if one.name.startswith(kind)), None)
    sides = (absent if value is None else value for value in (one.baseline, one.candidate))
    return Difference(one.name, *sides)


def run_print(store: Store, run: RunRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties of one run that must be equal, and those that may differ."""
    replicas = versions_of(store, run.run)
    versions = next(iter(replicas.values()), {})
    fixed = plan_print(run.target, run.plan)
    shown: dict[str, Any] = {}
    workers = [of for name, of in replicas.items() if name.startswith("worker-")] or [versions]
    machines = sorted({_machine(of) for of in workers} - {""})
    if machines:
        fixed["machine"] = " and ".join(machines)
    if is_rehearsed(run.run):
        fixed["rehearsed"] = "on this machine"
    others = {n: v for n, v in versions.items() if n not in _OF_THE_MACHINE}
    image: Mapping[str, Any] = run.plan.get("image") or {}
    shown |= {**others, "image": image.get("tag"), "transport": image.get("transport")}
    shown |= _environment(run.plan.get("env") or {})
    shown["region"] = _region(run)
    return fixed, {n: value for n, value in shown.items() if value or n.startswith(_ENV)}


def _region(run: RunRecord) -> str | None:
    """The region of a run's present placement, by its request; None on machines of your own."""
    try:
        billing = billing_of(target_info(run.target), run.plan.get("request") or {})
    except RsctlError:  # the target is not installed
        return None
    return billing.region if billing else None


def plan_print(target: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a plan that must be equal: all of a run's but the machine it reports."""
    return {"target": target, **_pools(plan), **_arguments(target, plan)}


def machine_here() -> str:
    """The machine that a process started here reports."""
    return _machine(machine(Nvml.load()))


def merged(prints: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The prints of runs that should be alike as one; values that differ are joined."""
    values: dict[str, list[Any]] = {}
    for one in prints:
        for name, value in one.items():
            earlier = values.setdefault(name, [])
            if value not in earlier:
                earlier.append(value)
    return {
        n: v[0] if len(v) == 1 else ALTERNATIVES.join(sorted(map(value_text, v)))
        for n, v in values.items()
    }


def definitions(specs: Mapping[str, MetricSpec]) -> dict[str, dict[str, Any]]:
    """The definition of each metric: how rsctl computes its sample."""
    return {
        name: {key: value for key, value in msgspec.to_builtins(spec).items() if value is not None}
        for name, spec in specs.items()
    }


def _pools(plan: Mapping[str, Any]) -> dict[str, Any]:
    pools = msgspec.convert(plan.get("pools") or [], list[Pool])
    found: dict[str, Any] = {}
    for pool in pools:  # a chief of its own kind is a pool beside the other workers'
        name = f"{pool.role}s" if pool.role in ("worker", "reducer") else pool.role
        found[name] = f"{found[name]} and {_pool(pool)}" if name in found else _pool(pool)
    if plan.get("world_size"):
        found["world size"] = plan["world_size"]
    return found


def _pool(pool: Pool) -> str:
    kind = [part for part in (pool.machine, pool.accelerator) if part]
    return f"{pool.count} x {' with '.join(kind)}" if kind else str(pool.count)


def _machine(versions: Mapping[str, str]) -> str:
    cores = f"{versions['cores']} cores" if "cores" in versions else None
    names = [versions.get(name) for name in ("cpu", "clock", "gpu", "gpu_clock")]
    return ", ".join(filter(None, [names[0], cores, *names[1:]]))


def _arguments(target: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the first worker, from its request."""
    keys = target_info(target).argument_keys if has_target(target) else ARGUMENT_KEYS
    arguments = next(_argument_lists(plan.get("request"), keys), None)
    return {_ARGUMENTS: " ".join(public_arguments(arguments))} if arguments else {}


def _argument_lists(request: Any, keys: Set[str]) -> Iterator[list[str]]:
    """The arguments that a request has below some keys, less the program before them."""
    if isinstance(request, Mapping):
        for name, value in request.items():
            if name in keys and _is_texts(value):
                yield value[value.index("--launcher") :] if "--launcher" in value else value
            elif name in keys and isinstance(value, Mapping):
                yield [f"{key}={value[key]}" for key in sorted(value)]
            else:
                yield from _argument_lists(value, keys)
    elif isinstance(request, list):
        for value in request:
            yield from _argument_lists(value, keys)


def _is_texts(value: Any) -> bool:
    return bool(value) and isinstance(value, list) and all(isinstance(v, str) for v in value)


def _environment(env: Mapping[str, Optional[str]]) -> dict[str, str]:
    return {
        f"{_ENV}{name}": _SECRET if value is None else value
        for name, value in sorted(public_variables(env).items())
        if name not in _RUNS_OWN_ENV
    }


def _known_to_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Without the machine or its clock where one side does not know it: older runs did not record
    it.
    """
    known = {name: value for name, value in one.items() if name != "machine" or name in other}
    machine = known.get("machine")
    if machine is not None and _is_without_clock([other["machine"]]):
        kinds = [_without_clock(kind) or "" for kind in str(machine).split(ALTERNATIVES)]
        known["machine"] = ALTERNATIVES.join(dict.fromkeys(kinds))
    return known


def _in_detail(difference: Difference) -> list[Difference]:
    """A difference of whole command lines as the differences of their arguments."""
    before, after = difference.baseline, difference.candidate
    if difference.name != _ARGUMENTS or not isinstance(before, str) or not isinstance(after, str):
        return [difference]
    return argument_differences(before, after)


def _is_without_clock(machines: Iterable[Optional[str]]) -> bool:
    return any(machine and not _CLOCK.search(machine) for machine in machines)


def _without_clock(machine: Optional[str]) -> Optional[str]:
    return _CLOCK.sub("", machine) if machine else machine
