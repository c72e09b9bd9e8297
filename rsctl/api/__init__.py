"""rsctl from Python: load, plan, submit, follow.

    import rsctl.api

    job = rsctl.api.load("job.yaml", set={"workers.count": 8})
    run = rsctl.api.submit(job, target="vertex")
    for event in run.follow():
        ...

Problems are `RsctlError`, which carries findings. Nothing here prints, ends the process, handles
signals or changes its environment. It may be called from several threads; see docs/python.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsctl.api.emulation import EmulatedCloud as EmulatedCloud
    from rsctl.api.emulation import emulate as emulate
    from rsctl.api.emulation import emulated_clouds as emulated_clouds
    from rsctl.api.environment import check_environment as check_environment
    from rsctl.api.events import EventBatches as EventBatches
    from rsctl.api.events import JobFailed as JobFailed
    from rsctl.api.events import make_result as make_result
    from rsctl.api.image_build import PreparedImage as PreparedImage
    from rsctl.api.image_build import prepare_image as prepare_image
    from rsctl.api.job_file import JobFile as JobFile
    from rsctl.api.job_file import load as load
    from rsctl.api.job_file import plan as plan
    from rsctl.api.job_file import sdk_code as sdk_code
    from rsctl.api.job_file import validate as validate
    from rsctl.api.logs import LogFilter as LogFilter
    from rsctl.api.run_handle import Forgotten as Forgotten
    from rsctl.api.run_handle import Run as Run
    from rsctl.api.run_handle import forget_run as forget_run
    from rsctl.api.run_list import is_job_url as is_job_url
    from rsctl.api.run_list import known_run as known_run
    from rsctl.api.run_list import known_runs as known_runs
    from rsctl.api.run_list import run as run
    from rsctl.api.run_list import runs as runs
    from rsctl.api.submission import OnProgress as OnProgress
    from rsctl.api.submission import PreparedRun as PreparedRun
    from rsctl.api.submission import prepare as prepare
    from rsctl.api.submission import submit as submit
    from rsctl.doctor import Check as Check
    from rsctl.emulators.faults import Fault as Fault
    from rsctl.fetch.fetch import Fetched as Fetched
    from rsctl.fetch.fetch import FetchedFile as FetchedFile
    from rsctl.fetch.fetch import FetchProgress as FetchProgress
    from rsctl.fetch.locations import ResultKind as ResultKind
    from rsctl.findings import ExitCode as ExitCode
    from rsctl.findings import Finding as Finding
    from rsctl.findings import JobState as JobState
    from rsctl.findings import RsctlError as RsctlError
    from rsctl.image.ensure import ImageResult as ImageResult
    from rsctl.image.events import BuildEvent as BuildEvent
    from rsctl.image.events import Output as Output
    from rsctl.image.events import Step as Step
    from rsctl.image.last_build import ImageChange as ImageChange
    from rsctl.rehearsal.rehearsal import Rehearsal as Rehearsal
    from rsctl.runs.records import Replica as Replica
    from rsctl.runs.records import RunRecord as RunRecord
    from rsctl.runs.store import Store as Store
    from rsctl.stream.events import Event as Event
    from rsctl.stream.events import FindingEvent as FindingEvent
    from rsctl.stream.events import LogEvent as LogEvent
    from rsctl.stream.events import MetricEvent as MetricEvent
    from rsctl.stream.events import ResultEvent as ResultEvent
    from rsctl.stream.events import StateEvent as StateEvent
    from rsctl.stream.gradients import Gradients as Gradients
    from rsctl.targets.base import Plan as Plan
    from rsctl.targets.base import Pool as Pool

_MODULES = {
    "rsctl.api.emulation": ("EmulatedCloud", "emulate", "emulated_clouds"),
    "rsctl.api.environment": ("check_environment",),
    "rsctl.api.events": ("EventBatches", "JobFailed", "make_result"),
    "rsctl.api.image_build": ("PreparedImage", "prepare_image"),
    "rsctl.api.job_file": ("JobFile", "load", "plan", "sdk_code", "validate"),
    "rsctl.api.logs": ("LogFilter",),
    "rsctl.api.run_handle": ("Forgotten", "Run", "forget_run"),
    "rsctl.api.run_list": ("is_job_url", "known_run", "known_runs", "run", "runs"),
    "rsctl.api.submission": ("OnProgress", "PreparedRun", "prepare", "submit"),
    "rsctl.doctor": ("Check",),
    "rsctl.emulators.faults": ("Fault",),
    "rsctl.fetch.fetch": ("Fetched", "FetchedFile", "FetchProgress"),
    "rsctl.fetch.locations": ("ResultKind",),
    "rsctl.findings": ("ExitCode", "Finding", "JobState", "RsctlError"),
    "rsctl.image.ensure": ("ImageResult",),
    "rsctl.image.events": ("BuildEvent", "Output", "Step"),
    "rsctl.image.last_build": ("ImageChange",),
    "rsctl.rehearsal.rehearsal": ("Rehearsal",),
    "rsctl.runs.records": ("Replica", "RunRecord"),
    "rsctl.runs.store": ("Store",),
    "rsctl.stream.events": (
        *("Event", "FindingEvent", "LogEvent", "MetricEvent", "ResultEvent", "StateEvent"),
    ),
    "rsctl.stream.gradients": ("Gradients",),
    "rsctl.targets.base": ("Plan", "Pool"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import what is asked for: each command, and each notebook, needs a part of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
