"""Runs of a bench that the cluster has ended: no data. They run again, without the failed nodes.

A bench's runs are not started again by their service: a second start under the same ID would mix
two measurements.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rsctl.bench.records import BenchRecord
from rsctl.findings import Finding, JobState, warning
from rsctl.job.installed_targets import with_options
from rsctl.job.job import Job
from rsctl.runs.records import FAILED_NODE
from rsctl.runs.store import Store
from rsctl.target_info import TargetInfo


def bench_job(job: Job, info: TargetInfo) -> Job:
    """The job as a bench runs it: with the options that its target sets for benches."""
    if not info.bench_options:
        return job
    return with_options(job, info.name, replace(info.options_of(job), **info.bench_options))


def option_findings(job: Job, info: TargetInfo) -> Iterator[Finding]:
    """Warnings for options of the job file that a bench overrides."""
    given, default = info.options_of(job), info.options_type()()
    for option, value in info.bench_options.items():
        wanted = getattr(given, option)
        if wanted not in (value, getattr(default, option)):
            message = (
                f"a bench runs with {option}: {value}, because a run that {info.title} starts "
                "again under the same ID measures something else"
            )
            path = f"targets.{info.name}.{option}"
            yield warning("bench", message, f"remove {path}: {wanted} for benches", path)


def failed_nodes(store: Store, bench: BenchRecord) -> list[str]:
    """The nodes whose failures have ended runs of the bench, each once."""
    failed = [trial.run for trial in bench.trials if trial.state is JobState.FAILED]
    records = filter(None, map(store.get, failed))
    facts = [fact for record in records for fact in record.facts if fact.name == FAILED_NODE]
    return list(dict.fromkeys(str(fact.value) for fact in facts))


def without_nodes(job: Job, info: TargetInfo, nodes: list[str]) -> Job:
    """The job, which must not get these nodes; unchanged where the target has no such option."""
    if info.excludes_nodes is None or not nodes:
        return job
    options = info.options_of(job)
    before = getattr(options, info.excludes_nodes)
    excluded = ",".join([*filter(None, [before]), *nodes])
    return with_options(job, info.name, replace(options, **{info.excludes_nodes: excluded}))
