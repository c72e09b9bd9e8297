"""The error of a job that was accepted and whose result is unknown: the job continues."""

from __future__ import annotations

from rsctl.findings import ExitCode, Finding, RsctlError, error, note
from rsctl.runs.cost import is_billed
from rsctl.runs.records import RunRecord
from rsctl.target_info import target_info

CODE = "result-unknown"


class ResultUnknown(RsctlError):
    """rsctl cannot follow an accepted job to its end, or cannot show the result.

    `run` is the last record of the run. The findings are the reason and, as the last one, how to
    watch the run again. Submitting the job again would pay for it twice.
    """

    def __init__(self, run: RunRecord, *why: Finding) -> None:
        super().__init__(ExitCode.RESULT_UNKNOWN, *why, _consequence(run))
        self.run = run


def _consequence(run: RunRecord) -> Finding:
    name = run.run
    if run.state.is_final:
        message = f"{name} was accepted and has ended ({run.state.value}): {run.url}"
        return note(CODE, message, f"show it: rsctl status {name}")
    how = ", continues, and is billed" if is_billed(run) else " and continues"
    message = f"the result of {name} is unknown; its job was accepted{how}: {run.url}"
    if target_info(run.target).is_managed and not run.is_located:
        message = f"the result of {name} is unknown; its job, if the cloud has accepted it{how}"
    remedy = f"watch it: rsctl logs -f {name}   cancel it: rsctl cancel {name}"
    return error(CODE, message, remedy)
