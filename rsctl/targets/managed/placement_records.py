"""The record of each placement of a run, and the secrets that it leaves out."""

from __future__ import annotations

from typing import Any

import msgspec

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.document import read
from rsctl.runs.placements import PlannedPlacement
from rsctl.runs.records import RunRecord
from rsctl.targets.base import Submission
from rsctl.targets.variables import values_of_secrets

_KEPT = ("alternatives", "tracking")
"""Fields that are equal in the plans of all placements, because they belong to the run."""


def planned_placement(
    submission: Submission, first: Submission, image: str | None, request: dict[str, Any]
) -> PlannedPlacement:
    """A submission to one placement: its request, and the reference of its image."""
    plan, of_run = msgspec.to_builtins(submission.plan), msgspec.to_builtins(first.plan)
    kept = {name: of_run[name] for name in _KEPT if name in of_run} | {"request": request}
    return PlannedPlacement(
        region=submission.placement.region,
        machine=submission.placement.machine,
        plan={**plan, **kept},
        image=image,
        placeholders=[
            (placeholder.path, placeholder.secret) for placeholder in submission.placeholders
        ],
    )


def secrets_of(run: RunRecord, placement: PlannedPlacement) -> dict[str, str]:
    """The secrets of a placement's request, if another process has submitted the run.

    The run's own token is generated again. The values of the job's variables are read from the
    environment again, as the stored job file says. Raises RsctlError for missing variables.
    """
    names = [secret for _, secret in placement.placeholders if secret]
    job = None
    if run.spec is not None:
        job = read(f"the job file of {run.run}", run.settings, text=run.spec).job
    values = values_of_secrets(job, names)
    lacking = [name for name in names if name not in values]
    if lacking:
        finding = error(
            "placements",
            f"{run.run} must move to {placement}, but has no value for {', '.join(lacking)}: "
            "secrets are not saved with a run",
            "run rsctl status where these variables are set",
        )
        raise RsctlError(ExitCode.ENVIRONMENT, finding)
    return values
