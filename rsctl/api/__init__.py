"""rsctl from Python: load, plan, submit, follow.

    import rsctl.api

    job = rsctl.api.load("job.yaml", set={"workers.count": 8})
    run = rsctl.api.submit(job, target="vertex")
    for event in run.follow():
        ...

Problems are `RsctlError`, which carries findings. Nothing here prints, ends the process, handles
signals or changes its environment. It may be called from several threads; see
docs/guides/python.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsctl.api.advice import SweptAdvice as SweptAdvice
    from rsctl.api.advice import advise as advise
    from rsctl.api.advice import advise_sweep as advise_sweep
    from rsctl.api.advice import communication as communication
    from rsctl.api.advice import write_recommendation as write_recommendation
    from rsctl.api.bench_handle import Bench as Bench
    from rsctl.api.bench_list import bench as bench
    from rsctl.api.bench_list import benches as benches
    from rsctl.api.bench_list import find as find
    from rsctl.api.bench_run import PreparedBench as PreparedBench
    from rsctl.api.bench_run import packed_plan as packed_plan
    from rsctl.api.bench_run import prepare_bench as prepare_bench
    from rsctl.api.bench_run import run_bench as run_bench
    from rsctl.api.bisect import Bisected as Bisected
    from rsctl.api.bisect import PreparedBisect as PreparedBisect
    from rsctl.api.bisect import Probe as Probe
    from rsctl.api.bisect import prepare_bisect as prepare_bisect
    from rsctl.api.budget import Budget as Budget
    from rsctl.api.calibration import Fitted as Fitted
    from rsctl.api.calibration import FittedRun as FittedRun
    from rsctl.api.calibration import calibrate_from as calibrate_from
    from rsctl.api.calibration import calibration_of as calibration_of
    from rsctl.api.catalog import machines as machines
    from rsctl.api.catalog import price_tables as price_tables
    from rsctl.api.catalog import refresh_prices as refresh_prices
    from rsctl.api.ci_reports import CI_REPORTS as CI_REPORTS
    from rsctl.api.ci_reports import CiReport as CiReport
    from rsctl.api.ci_reports import announce_reports as announce_reports
    from rsctl.api.ci_reports import append_github_summary as append_github_summary
    from rsctl.api.ci_reports import github_annotations as github_annotations
    from rsctl.api.ci_reports import write_reports as write_reports
    from rsctl.api.ci_reports import write_unfinished as write_unfinished
    from rsctl.api.comparison import compare as compare
    from rsctl.api.comparison import comparison_markdown as comparison_markdown
    from rsctl.api.comparison import is_baseline as is_baseline
    from rsctl.api.comparison import results_of as results_of
    from rsctl.api.emulation import EmulatedCloud as EmulatedCloud
    from rsctl.api.emulation import emulate as emulate
    from rsctl.api.emulation import emulated_clouds as emulated_clouds
    from rsctl.api.environment import check_environment as check_environment
    from rsctl.api.events import EventBatches as EventBatches
    from rsctl.api.events import JobFailed as JobFailed
    from rsctl.api.events import make_result as make_result
    from rsctl.api.forgetting import Forgotten as Forgotten
    from rsctl.api.forgetting import forget_run as forget_run
    from rsctl.api.gate_candidate import Candidate as Candidate
    from rsctl.api.gate_candidate import open_candidate as open_candidate
    from rsctl.api.gate_decision import PreparedGate as PreparedGate
    from rsctl.api.gate_decision import gate_table as gate_table
    from rsctl.api.gate_decision import prepare_gate as prepare_gate
    from rsctl.api.gate_history import GateRecorder as GateRecorder
    from rsctl.api.gate_history import HistoryGate as HistoryGate
    from rsctl.api.gate_history import prepare_gate_of as prepare_gate_of
    from rsctl.api.gate_history import recorded_only as recorded_only
    from rsctl.api.gate_pairs import PreparedPairs as PreparedPairs
    from rsctl.api.gate_pairs import prepare_pairs as prepare_pairs
    from rsctl.api.gate_settings import WrittenBaseline as WrittenBaseline
    from rsctl.api.gate_settings import calibrate as calibrate
    from rsctl.api.gate_settings import write_baseline as write_baseline
    from rsctl.api.gates import gate as gate
    from rsctl.api.gates import is_paired as is_paired
    from rsctl.api.history import HistoryView as HistoryView
    from rsctl.api.history import Recorded as Recorded
    from rsctl.api.history import add_bench as add_bench
    from rsctl.api.history import commit_to_record as commit_to_record
    from rsctl.api.history import read_series as read_series
    from rsctl.api.history import record_results as record_results
    from rsctl.api.history import require_history as require_history
    from rsctl.api.image_build import PreparedImage as PreparedImage
    from rsctl.api.image_build import prepare_image as prepare_image
    from rsctl.api.job_file import JobFile as JobFile
    from rsctl.api.job_file import load as load
    from rsctl.api.job_file import plan as plan
    from rsctl.api.job_file import sdk_code as sdk_code
    from rsctl.api.job_file import validate as validate
    from rsctl.api.logs import LogFilter as LogFilter
    from rsctl.api.measurement import measure as measure
    from rsctl.api.metric_feed import MetricFeed as MetricFeed
    from rsctl.api.rerun import prepare_rerun as prepare_rerun
    from rsctl.api.run_diff import RunDiff as RunDiff
    from rsctl.api.run_diff import diff as diff
    from rsctl.api.run_handle import Run as Run
    from rsctl.api.run_list import awaited_clouds as awaited_clouds
    from rsctl.api.run_list import is_job_url as is_job_url
    from rsctl.api.run_list import known_replicas as known_replicas
    from rsctl.api.run_list import known_run as known_run
    from rsctl.api.run_list import known_runs as known_runs
    from rsctl.api.run_list import run as run
    from rsctl.api.run_list import runs as runs
    from rsctl.api.step_profiles import profile_of_run as profile_of_run
    from rsctl.api.submission import OnProgress as OnProgress
    from rsctl.api.submission import PreparedRun as PreparedRun
    from rsctl.api.submission import prepare as prepare
    from rsctl.api.submission import submit as submit
    from rsctl.api.work import Work as Work
    from rsctl.bench.calibrate import MetricNoise as MetricNoise
    from rsctl.bench.commits import KnownCommit as KnownCommit
    from rsctl.bench.compare import Compared as Compared
    from rsctl.bench.compare import Comparison as Comparison
    from rsctl.bench.compare import comparison_table as comparison_table
    from rsctl.bench.floor_edit import write_floors as write_floors
    from rsctl.bench.gate import Gate as Gate
    from rsctl.bench.history import short_commit as short_commit
    from rsctl.bench.history_series import CommitPoint as CommitPoint
    from rsctl.bench.history_series import FoundStep as FoundStep
    from rsctl.bench.history_series import HistorySeries as HistorySeries
    from rsctl.bench.observer import BenchObserver as BenchObserver
    from rsctl.bench.observer import NullObserver as NullObserver
    from rsctl.bench.records import Against as Against
    from rsctl.bench.records import BenchRecord as BenchRecord
    from rsctl.bench.records import Trial as Trial
    from rsctl.bench.results import Results as Results
    from rsctl.bench.results import Series as Series
    from rsctl.bench.rules import GateRules as GateRules
    from rsctl.bench.run import Stop as Stop
    from rsctl.bench.samples import Sample as Sample
    from rsctl.bench.summary import CellStatistic as CellStatistic
    from rsctl.bench.summary import CellSummary as CellSummary
    from rsctl.bench.summary import cell_statistics as cell_statistics
    from rsctl.bench.summary import format_cell as format_cell
    from rsctl.bench.summary import format_trial as format_trial
    from rsctl.bench.verdict import Verdict as Verdict
    from rsctl.estimate.advice.communication import Communication as Communication
    from rsctl.estimate.advice.recommendation import Advice as Advice
    from rsctl.estimate.catalog.price_table import PriceTable as PriceTable
    from rsctl.estimate.catalog.prices import Price as Price
    from rsctl.estimate.costs.billing import PlanCost as PlanCost
    from rsctl.estimate.costs.billing import PoolPrice as PoolPrice
    from rsctl.estimate.costs.limit import dollars as dollars
    from rsctl.estimate.costs.offers import Offer as Offer
    from rsctl.estimate.costs.refresh import RefreshedPrices as RefreshedPrices
    from rsctl.findings import ExitCode as ExitCode
    from rsctl.findings import Finding as Finding
    from rsctl.findings import JobState as JobState
    from rsctl.findings import RsctlError as RsctlError
    from rsctl.images.ensure import ImageResult as ImageResult
    from rsctl.images.events import BuildEvent as BuildEvent
    from rsctl.images.events import BuildOutput as BuildOutput
    from rsctl.images.events import BuildStep as BuildStep
    from rsctl.images.last_build import ImageChange as ImageChange
    from rsctl.runs.cost import RunCost as RunCost
    from rsctl.runs.cost import cost_of as cost_of
    from rsctl.runs.fetch.fetch import Fetched as Fetched
    from rsctl.runs.fetch.fetch import FetchedFile as FetchedFile
    from rsctl.runs.fetch.fetch import FetchProgress as FetchProgress
    from rsctl.runs.fetch.locations import ResultKind as ResultKind
    from rsctl.runs.goodput_records import Goodput as Goodput
    from rsctl.runs.goodput_records import GoodputPart as GoodputPart
    from rsctl.runs.records import Replica as Replica
    from rsctl.runs.records import RunRecord as RunRecord
    from rsctl.runs.records import replica_order as replica_order
    from rsctl.runs.store import Store as Store
    from rsctl.runs.stream.events import Event as Event
    from rsctl.runs.stream.events import FindingEvent as FindingEvent
    from rsctl.runs.stream.events import LogEvent as LogEvent
    from rsctl.runs.stream.events import MetricEvent as MetricEvent
    from rsctl.runs.stream.events import ResultEvent as ResultEvent
    from rsctl.runs.stream.events import StateEvent as StateEvent
    from rsctl.runs.stream.gradients import Gradients as Gradients
    from rsctl.runs.unknown_result import ResultUnknown as ResultUnknown
    from rsctl.targets.base import NodeCommand as NodeCommand
    from rsctl.targets.base import Plan as Plan
    from rsctl.targets.base import Pool as Pool
    from rsctl.targets.base import Shell as Shell
    from rsctl.targets.doctor import Check as Check
    from rsctl.targets.inputs import InputPlan as InputPlan
    from rsctl.targets.managed.emulator.faults import Fault as Fault
    from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal as Rehearsal

_MODULES = {
    "rsctl.estimate.advice.communication": ("Communication",),
    "rsctl.estimate.advice.recommendation": ("Advice",),
    "rsctl.api.advice": (
        *("SweptAdvice", "advise", "advise_sweep", "communication"),
        "write_recommendation",
    ),
    "rsctl.api.bench_handle": ("Bench",),
    "rsctl.api.bench_list": ("bench", "benches", "find"),
    "rsctl.api.bench_run": ("PreparedBench", "packed_plan", "prepare_bench", "run_bench"),
    "rsctl.api.budget": ("Budget",),
    "rsctl.api.bisect": ("Bisected", "PreparedBisect", "Probe", "prepare_bisect"),
    "rsctl.api.ci_reports": (
        *("CI_REPORTS", "CiReport", "announce_reports", "append_github_summary"),
        *("github_annotations", "write_reports", "write_unfinished"),
    ),
    "rsctl.api.calibration": ("Fitted", "FittedRun", "calibrate_from", "calibration_of"),
    "rsctl.api.comparison": ("compare", "comparison_markdown", "is_baseline", "results_of"),
    "rsctl.api.emulation": ("EmulatedCloud", "emulate", "emulated_clouds"),
    "rsctl.api.environment": ("check_environment",),
    "rsctl.api.events": ("EventBatches", "JobFailed", "make_result"),
    "rsctl.api.forgetting": ("Forgotten", "forget_run"),
    "rsctl.api.gate_candidate": ("Candidate", "open_candidate"),
    "rsctl.api.gate_decision": ("PreparedGate", "gate_table", "prepare_gate"),
    "rsctl.api.gates": ("gate", "is_paired"),
    "rsctl.api.gate_pairs": ("PreparedPairs", "prepare_pairs"),
    "rsctl.api.gate_history": (
        *("GateRecorder", "HistoryGate", "prepare_gate_of", "recorded_only"),
    ),
    "rsctl.api.gate_settings": ("WrittenBaseline", "calibrate", "write_baseline"),
    "rsctl.api.history": (
        *("HistoryView", "Recorded", "add_bench", "commit_to_record", "read_series"),
        *("record_results", "require_history"),
    ),
    "rsctl.bench.commits": ("KnownCommit",),
    "rsctl.bench.history": ("short_commit",),
    "rsctl.bench.history_series": ("CommitPoint", "FoundStep", "HistorySeries"),
    "rsctl.api.image_build": ("PreparedImage", "prepare_image"),
    "rsctl.api.job_file": ("JobFile", "load", "plan", "sdk_code", "validate"),
    "rsctl.api.logs": ("LogFilter",),
    "rsctl.api.measurement": ("measure",),
    "rsctl.api.metric_feed": ("MetricFeed",),
    "rsctl.api.rerun": ("prepare_rerun",),
    "rsctl.api.run_diff": ("RunDiff", "diff"),
    "rsctl.api.run_handle": ("Run",),
    "rsctl.api.run_list": (
        *("awaited_clouds", "is_job_url", "known_replicas", "known_run", "known_runs", "run"),
        "runs",
    ),
    "rsctl.api.step_profiles": ("profile_of_run",),
    "rsctl.api.submission": ("OnProgress", "PreparedRun", "prepare", "submit"),
    "rsctl.api.work": ("Work",),
    "rsctl.bench.calibrate": ("MetricNoise",),
    "rsctl.bench.compare": ("Compared", "Comparison", "comparison_table"),
    "rsctl.bench.samples": ("Sample",),
    "rsctl.bench.floor_edit": ("write_floors",),
    "rsctl.bench.gate": ("Gate",),
    "rsctl.bench.observer": ("BenchObserver", "NullObserver"),
    "rsctl.bench.records": ("Against", "BenchRecord", "Trial"),
    "rsctl.bench.results": ("Results", "Series"),
    "rsctl.bench.rules": ("GateRules",),
    "rsctl.bench.run": ("Stop",),
    "rsctl.bench.summary": (
        *("CellStatistic", "CellSummary", "cell_statistics", "format_cell", "format_trial"),
    ),
    "rsctl.bench.verdict": ("Verdict",),
    "rsctl.api.catalog": ("machines", "price_tables", "refresh_prices"),
    "rsctl.estimate.catalog.price_table": ("PriceTable",),
    "rsctl.estimate.catalog.prices": ("Price",),
    "rsctl.estimate.costs.offers": ("Offer",),
    "rsctl.estimate.costs.refresh": ("RefreshedPrices",),
    "rsctl.estimate.costs.billing": ("PlanCost", "PoolPrice"),
    "rsctl.estimate.costs.limit": ("dollars",),
    "rsctl.runs.cost": ("RunCost", "cost_of"),
    "rsctl.runs.goodput_records": ("Goodput", "GoodputPart"),
    "rsctl.targets.doctor": ("Check",),
    "rsctl.targets.managed.emulator.faults": ("Fault",),
    "rsctl.runs.fetch.fetch": ("Fetched", "FetchedFile", "FetchProgress"),
    "rsctl.runs.fetch.locations": ("ResultKind",),
    "rsctl.findings": ("ExitCode", "Finding", "JobState", "RsctlError"),
    "rsctl.images.ensure": ("ImageResult",),
    "rsctl.images.events": ("BuildEvent", "BuildOutput", "BuildStep"),
    "rsctl.images.last_build": ("ImageChange",),
    "rsctl.targets.managed.rehearsal.rehearsal": ("Rehearsal",),
    "rsctl.runs.records": ("Replica", "RunRecord", "replica_order"),
    "rsctl.runs.unknown_result": ("ResultUnknown",),
    "rsctl.runs.store": ("Store",),
    "rsctl.runs.stream.events": (
        *("Event", "FindingEvent", "LogEvent", "MetricEvent", "ResultEvent", "StateEvent"),
    ),
    "rsctl.runs.stream.gradients": ("Gradients",),
    "rsctl.targets.base": ("NodeCommand", "Plan", "Pool", "Shell"),
    "rsctl.targets.inputs": ("InputPlan",),
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
