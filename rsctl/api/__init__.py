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
    from rsctl.api.events import EventBatches as EventBatches
    from rsctl.api.events import JobFailed as JobFailed
    from rsctl.api.job_file import JobFile as JobFile
    from rsctl.api.job_file import load as load
    from rsctl.api.job_file import plan as plan
    from rsctl.api.job_file import sdk_code as sdk_code
    from rsctl.api.job_file import validate as validate
    from rsctl.api.logs import LogFilter as LogFilter
    from rsctl.api.run_handle import Forgotten as Forgotten
    from rsctl.api.run_handle import Run as Run
    from rsctl.api.run_handle import forget_run as forget_run
    from rsctl.api.run_list import run as run
    from rsctl.api.run_list import runs as runs
    from rsctl.api.submission import PreparedRun as PreparedRun
    from rsctl.api.submission import prepare as prepare
    from rsctl.api.submission import submit as submit
    from rsctl.findings import ExitCode as ExitCode
    from rsctl.findings import Finding as Finding
    from rsctl.findings import JobState as JobState
    from rsctl.findings import RsctlError as RsctlError
    from rsctl.rehearsal.rehearsal import Rehearsal as Rehearsal
    from rsctl.runs.records import Run as RunRecord  # noqa: F401
    from rsctl.stream.events import Event as Event
    from rsctl.stream.events import FindingEvent as FindingEvent
    from rsctl.stream.events import LogEvent as LogEvent
    from rsctl.stream.events import MetricEvent as MetricEvent
    from rsctl.stream.events import ResultEvent as ResultEvent
    from rsctl.stream.events import StateEvent as StateEvent
    from rsctl.targets.base import Plan as Plan

_MODULES = {
    "rsctl.api.events": ("EventBatches", "JobFailed"),
    "rsctl.api.job_file": ("JobFile", "load", "plan", "sdk_code", "validate"),
    "rsctl.api.logs": ("LogFilter",),
    "rsctl.api.run_handle": ("Forgotten", "Run", "forget_run"),
    "rsctl.api.run_list": ("run", "runs"),
    "rsctl.api.submission": ("PreparedRun", "prepare", "submit"),
    "rsctl.findings": ("ExitCode", "Finding", "JobState", "RsctlError"),
    "rsctl.rehearsal.rehearsal": ("Rehearsal",),
    "rsctl.stream.events": (
        *("Event", "FindingEvent", "LogEvent", "MetricEvent", "ResultEvent", "StateEvent"),
    ),
    "rsctl.targets.base": ("Plan",),
}
_HOMES = {name: (module, name) for module, names in _MODULES.items() for name in names}
_HOMES["RunRecord"] = ("rsctl.runs.records", "Run")

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import what is asked for: each command, and each notebook, needs a part of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
