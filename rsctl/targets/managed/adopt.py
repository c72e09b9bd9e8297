"""Makes a run of a job that was submitted elsewhere."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import closing
from typing import Any

import msgspec

from rsctl.findings import JobState
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.ids import ALPHABET, SUFFIX_LENGTH
from rsctl.runs.store import RunRecord, Store
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.service import JobDescription, JobService, answer_of

_LONGEST_NAME = 40


def adopt_job(target: str, url: str, service: JobService) -> RunRecord:
    """A job that was submitted elsewhere, as a run of the store. Raises RsctlError."""
    run = _adopted_run(target, url, answer_of(service.open(url).describe))
    replicas = replica_names(msgspec.convert(run.plan["pools"], list[Pool]))
    description = RunDescription(run=run.run, target=target, request={}, replicas=replicas)
    lock = RunFolder(run.run).begin(description)
    with closing(Store()) as store:
        if lock is not None:
            if store.get(run.run) is None:
                store.add(run)
            os.close(lock)
        return store.find(run.run)


def _adopted_run(target: str, url: str, job: JobDescription) -> RunRecord:
    """The run of a job, not stored yet. The same URL gives the same id on every machine."""
    plan: dict[str, Any] = {
        "run": job.run,
        "target": target,
        "pools": msgspec.to_builtins(job.pools),
        "request": job.request,
    }
    return RunRecord(
        run=_run_id(job.name, url),
        name=job.name,
        target=target,
        url=url,
        state=JobState.QUEUED,
        created=job.created,
        plan=plan,
    )


def _run_id(name: str, url: str) -> str:
    """An id in the form of run ids, from the job's name and a hash of its URL."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"job-{plain}".strip("-")
    number = int.from_bytes(hashlib.sha256(url.encode()).digest()[:8], "big")
    suffix = ""
    for _ in range(SUFFIX_LENGTH):
        number, index = divmod(number, len(ALPHABET))
        suffix += ALPHABET[index]
    return f"{plain[:_LONGEST_NAME].rstrip('-')}-{suffix}"
