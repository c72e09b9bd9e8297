"""ListTrainingJobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rsctl.targets.managed.emulator.page_tokens import make_token, read_token
from rsctl.targets.sagemaker.emulator.aws_services import Parameters
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.warm_pools import WarmPools

_DEFAULT_PAGE = 10
_TOKEN_SECONDS = 86_400.0
_TIMES = ("Creation", "LastModified")
_SORTS = {"Name": "TrainingJobName", "CreationTime": "CreationTime", "Status": "TrainingJobStatus"}
SUPPORTED = frozenset(
    {
        *("NextToken", "MaxResults", "NameContains", "StatusEquals", "SortBy", "SortOrder"),
        *("WarmPoolStatusEquals", "TrainingPlanArnEquals"),
        *(f"{name}Time{side}" for name in _TIMES for side in ("After", "Before")),
    }
)
"""The parameters that do something."""

_SUMMARY = (
    *("TrainingJobName", "TrainingJobArn", "CreationTime", "TrainingEndTime"),
    *("LastModifiedTime", "TrainingJobStatus", "SecondaryStatus"),
)


def page(records: Collection[JobRecord], wanted: Parameters, pools: WarmPools) -> Parameters:
    """One page of summaries, the newest first unless asked otherwise. Raises ValueError.

    As documented, the status is looked at only after a page is cut off, so that pages may be empty.
    """
    start = 0
    if "NextToken" in wanted:
        start = int(read_token(wanted["NextToken"], wanted, _TOKEN_SECONDS))
    plan = wanted.get("TrainingPlanArnEquals")
    planned = [each for each in records if plan in (None, _plan_of(each))]
    found = [job for job in (_summary(record, pools) for record in planned) if _fits(job, wanted)]
    field = _SORTS[wanted.get("SortBy", "CreationTime")]
    is_descending = wanted.get("SortOrder", "Descending") == "Descending"
    found.sort(key=lambda job: job[field], reverse=is_descending)
    end = start + wanted.get("MaxResults", _DEFAULT_PAGE)
    status = wanted.get("StatusEquals")
    shown = [job for job in found[start:end] if status in (None, job["TrainingJobStatus"])]
    more = {"NextToken": make_token(wanted, end)} if end < len(found) else {}
    return {"TrainingJobSummaries": shown, **more}


def _summary(record: JobRecord, pools: WarmPools) -> dict[str, Any]:
    shown = record.copy()
    return {**{n: shown[n] for n in _SUMMARY if n in shown}, **pools.status(record)}


def _plan_of(record: JobRecord) -> str | None:
    plan: str | None = record["ResourceConfig"].get("TrainingPlanArn")
    return plan


def _fits(job: dict[str, Any], wanted: Parameters) -> bool:
    for name in _TIMES:
        when = job[f"{name}Time"]
        if not wanted.get(f"{name}TimeAfter", 0) <= when <= wanted.get(f"{name}TimeBefore", when):
            return False
    pool = job.get("WarmPoolStatus", {}).get("Status")
    return wanted.get("NameContains", "") in job["TrainingJobName"] and (
        wanted.get("WarmPoolStatusEquals") in (None, pool)
    )
