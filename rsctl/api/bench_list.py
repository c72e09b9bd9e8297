"""Benches of the store: one by its ID, or the latest; and the runs and benches of a reference."""

from __future__ import annotations

from contextlib import closing

from rsctl.api.arguments import check_count, check_text
from rsctl.api.bench_handle import Bench
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.api.run_handle import Run
from rsctl.api.run_list import is_job_url, run
from rsctl.bench.records import Benches, BenchRecord
from rsctl.bench.results import find_source
from rsctl.runs.store import Store


def bench(reference: str) -> Bench:
    """A bench by its id, a unique prefix, `@last` or its job file. Raises RsctlError if there is
    none.
    """
    check_text("reference", reference)
    with closing(Store()) as store:
        return Bench(Benches(store).find(reference))


def benches(limit: int | None = None) -> list[Bench]:
    """The benches of the store, the newest first; a `limit` of 0 lists all.

    Raises RsctlError if the store cannot be used.
    """
    check_count("limit", limit)
    with closing(Store()) as store:
        return [Bench(record) for record in Benches(store).benches(limit or -1)]


def bench_ids() -> dict[str, str]:
    """The id of the bench of each run that belongs to one. Raises RsctlError."""
    with closing(Store()) as store:
        return Benches(store).by_run()


def find(
    reference: str, *, on_outdated: OnOutdated = ignore, is_reconciled: bool = True
) -> Run | Bench:
    """The run or bench of a reference; a run is reconciled unless told otherwise.

    References are ids, unique prefixes, URLs of jobs, and `@last`: the later of the two, which is
    the bench for one of its own runs. `on_outdated` gets why a run may be out of date. Raises
    RsctlError if there is none, or several.
    """
    if is_job_url(reference):
        return run(reference, on_outdated=on_outdated, is_reconciled=is_reconciled)
    with closing(Store()) as store:
        source = find_source(store, reference)
    if isinstance(source, BenchRecord):
        return Bench(source)
    return run(source.run, on_outdated=on_outdated, is_reconciled=is_reconciled)
