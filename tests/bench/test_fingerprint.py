"""The fingerprint of a run: what its nodes report of their machines counts on every target."""

from __future__ import annotations

import pytest

from rsctl.bench.fingerprint import merged, run_print
from rsctl.runs.store import Store
from rsctl.runs.versions import keep_versions

from .conftest import MakeRun

OLD = {"cpu": "Xeon Skylake", "cores": "8", "torch": "2.8.0"}
NEW = {"cpu": "Xeon Ice Lake", "cores": "8", "torch": "2.8.0"}


@pytest.mark.parametrize("target", ["process", "vertex"])
def test_the_machines_of_all_workers(store: Store, make_run: MakeRun, target: str) -> None:
    run = make_run(target=target)
    for replica, versions in {"worker-0": OLD, "worker-1": NEW, "reducer-0": OLD}.items():
        keep_versions(store, run.run, replica, versions)
    fixed, shown = run_print(store, run)
    assert fixed["machine"] == "Xeon Ice Lake, 8 cores and Xeon Skylake, 8 cores"
    assert shown == {"torch": "2.8.0"}


def test_nodes_that_report_nothing(store: Store, make_run: MakeRun) -> None:
    assert "machine" not in run_print(store, make_run())[0]


def test_runs_on_several_generations_are_the_same_in_any_order() -> None:
    one, other = {"machine": "Skylake"}, {"machine": "Ice Lake"}
    assert merged([one, other, one]) == merged([other, one]) == {"machine": "Ice Lake | Skylake"}
