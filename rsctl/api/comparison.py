"""Measurements of runs, benches and baselines, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from typing import Union

from rsctl.api.arguments import check_path, checked_names
from rsctl.api.bench_handle import Bench
from rsctl.api.bench_list import find
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.api.run_handle import Run
from rsctl.bench.baseline import read_baseline
from rsctl.bench.baseline_files import is_location
from rsctl.bench.compare import Comparison
from rsctl.bench.compare import compare as compare_results
from rsctl.bench.paired_results import paired_results
from rsctl.bench.results import Results, run_results
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.store import Store

Measured = Union[Results, Run, Bench, str, "os.PathLike[str]"]
"""Results, or their source: a run, a bench, a baseline, or a reference to one."""


def is_baseline(reference: str) -> bool:
    """Whether a reference says where a baseline is: a file, gs://, s3:// or git:REF:PATH."""
    return is_location(reference)


def results_of(source: Measured, *, folder: str = ".", on_outdated: OnOutdated = ignore) -> Results:
    """The samples of a run, a bench or a baseline, with how they were measured.

    Paths of baselines are relative to `folder`. A run is reconciled; `on_outdated` gets the reason
    if it may be out of date. Raises RsctlError.
    """
    if isinstance(source, Results):
        return source
    if isinstance(source, Bench):
        return source.results()
    if not isinstance(source, Run):
        check_path("source", source)
        reference = os.fspath(source)
        if not isinstance(source, str) or is_location(reference):
            return read_baseline(reference, folder)
        found = find(reference, on_outdated=on_outdated)
        return results_of(found)
    with closing(Store()) as store:
        return run_results(store, source.record)


def compare(
    *sides: Measured, metrics: Iterable[str] = (), on_outdated: OnOutdated = ignore
) -> Comparison:
    """Compare the last side with the first, metric by metric and cell by cell.

    The sides of a single paired bench are its baseline and its candidate; beside others a paired
    bench has the measurements of its candidate.

    `metrics` names those to compare; by default all that any side has. `on_outdated` is as for
    `results_of`. Raises RsctlError.
    """
    if not sides:
        remedy = "give runs, benches or baselines"
        raise RsctlError(ExitCode.USAGE, error("argument", "there is nothing to compare", remedy))
    names = checked_names("metrics", metrics)
    sources = [_found(side, on_outdated) for side in sides]
    only = sources[0] if len(sources) == 1 else None
    if isinstance(only, Bench) and only.record.against is not None:
        with closing(Store()) as store:
            found = paired_results(store, only.record, range(only.record.repeat))
        results = [found.baseline, found.candidate]
    else:
        results = [results_of(source) for source in sources]
    return compare_results(results, names)


def _found(source: Measured, on_outdated: OnOutdated) -> Measured:
    """The run or bench of a reference; other sources as they are."""
    if isinstance(source, str) and not is_location(source):
        return find(source, on_outdated=on_outdated)
    return source


def comparison_markdown(comparison: Comparison) -> str:
    """A comparison as Markdown: the differences, then one table."""
    from rsctl.bench.formats.markdown import comparison_markdown as markdown

    return markdown(comparison)
