"""Differences between two runs: their job files, code, machines and environments."""

from __future__ import annotations

import re
from typing import Any

from rsctl.bench.differences import NOT_SET, Difference
from rsctl.bench.fingerprint import (
    CellPrint,
    Fingerprint,
    definition_differences,
    definitions,
    fixed_differences,
    run_print,
    shown_differences,
)
from rsctl.bench.records import Benches
from rsctl.job.document import read
from rsctl.job.matrix import plain
from rsctl.runs.origin import origin_of
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.metrics import CHECKED

_RATES = ("_gflops", "_tflops", "_gbs", "_gbps")
_RATES_APART = 1.25
_SHOWN_OTHERWISE = ("run.args", "run.env")
"""Keys whose values are compared as they were sent."""


def run_differences(store: Store, one: RunRecord, other: RunRecord) -> list[Difference]:
    """The differences between two runs, each once. Files and packages count if both have some."""
    before, after = _fingerprint(store, one), _fingerprint(store, other)
    found = fixed_differences(before, after, {})
    for name in one.metrics_spec.keys() & other.metrics_spec.keys():
        found += definition_differences(before, after, name)
    names = {difference.name for difference in found}
    keys = [d for d in _key_differences(one, other) if d.name not in names]
    shown = shown_differences(before, after, have_variables=True)
    checks = _check_differences(store, one, other)
    every = [*found, *keys, *shown, *checks]
    return [e for number, e in enumerate(every) if e not in every[:number]]  # some are lists


def _check_differences(store: Store, one: RunRecord, other: RunRecord) -> list[Difference]:
    """The rates that the slowest nodes of both runs have measured before their ranks started, where
    they are further apart than nodes of one kind are.
    """
    before, after = _slowest(store, one), _slowest(store, other)
    return [
        Difference(f"checks.{name}", f"{before[name]:.3g}", f"{after[name]:.3g}")
        for name in sorted(before.keys() & after.keys())
        if max(before[name], after[name]) > _RATES_APART * min(before[name], after[name])
    ]


def _slowest(store: Store, run: RunRecord) -> dict[str, float]:
    rates: dict[str, float] = {}
    for readings in store.latest(run.run, CHECKED).values():
        for name, value in readings.items():
            if name.endswith(_RATES):
                kind = re.sub(r"^cuda\d+\.", "gpu.", name)
                rates[kind] = min(value, rates.get(kind, value))
    return rates


def _fingerprint(store: Store, run: RunRecord) -> Fingerprint:
    fixed, shown = run_print(store, run)
    origin, bench = origin_of(run.run), Benches(store).of_run(run.run)
    content = origin.content if origin else bench.content if bench else {}
    if origin and origin.commit:
        shown["commit"] = origin.commit
    return Fingerprint([CellPrint({}, fixed)], definitions(run.metrics_spec), {**shown, **content})


def _key_differences(one: RunRecord, other: RunRecord) -> list[Difference]:
    """The keys of the job files that differ, with their overrides."""
    before, after = _keys(one), _keys(other)
    if before is None or after is None:
        return []
    has_commands = all(run.plan.get("request") for run in (one, other))
    return [
        Difference(name, before.get(name, NOT_SET), after.get(name, NOT_SET))
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
        and not (has_commands and any(_is_below(name, key) for key in _SHOWN_OTHERWISE))
    ]


def _keys(run: RunRecord) -> dict[str, Any] | None:
    """The values of a run's job file by key path; None if the file is not stored."""
    if run.spec is None:
        return None
    root = read("-", run.settings, environ={}, text=run.spec).root
    found: dict[str, Any] = {}
    if root is not None:
        _flatten(plain(root), "", found)
    return found


def _flatten(value: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else name, found)
    else:
        found[path] = value


def _is_below(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")
