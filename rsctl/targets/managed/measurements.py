"""A cloud's own measurements of a job, and the facts that follow from them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rsctl.findings import Finding, RsctlError, note, warning
from rsctl.runs.home import is_rehearsed
from rsctl.runs.store import Fact, RunRecord, Store
from rsctl.runs.stream.events import MetricEvent
from rsctl.targets.base import Pool
from rsctl.targets.managed.poll_timer import PollTimer
from rsctl.targets.managed.progress import CollectorProgress
from rsctl.targets.managed.service import CloudJob, JobStatus

MEASURED = "cloud."
"""The prefix of the cloud's own measurements."""

CONSOLE = "console"
"""The name of the fact with the job's page in the cloud's console."""


class CloudMeasurements:
    """The measurements of one job and its `facts`.

    They are requested now and then and at the end, since some clouds charge for them. `report` gets
    findings for the user.
    """

    def __init__(
        self,
        job: CloudJob,
        run: RunRecord,
        store: Store,
        progress: CollectorProgress,
        time_scale: float,
        report: Callable[[Finding], None],
    ) -> None:
        self.facts: list[Fact] = run.facts
        self._job, self._run, self._store, self._progress = job, run, store, progress
        self._pools = msgspec.convert(run.plan.get("pools", []), list[Pool])
        self._report = report
        self._timer = PollTimer(time_scale, 60.0, 300.0, growth=1.5)
        self._latest = store.latest(run.run, MEASURED)

    def are_due(self) -> bool:
        """Whether a running job's measurements are due; if so, not again for a while."""
        if not self._timer.is_due() or not self._progress.running:
            return False
        self._timer.restart()
        return True

    def fetch(self) -> list[MetricEvent]:
        """New measurements. If only they are forbidden, that is a warning."""
        try:
            measured = self._job.measure(self._progress.measured, self._pools)
        except RsctlError as problem:
            for finding in problem.findings:
                why = f"the cloud's measurements cannot be read: {finding.message}; the job is not"
                self._report(warning(finding.code, f"{why} affected", finding.remedy, finding.path))
            return []
        if measured:
            self._progress.measured = max(metric.time for metric in measured)
        return measured

    def stored(self, status: JobStatus | None) -> None:
        """Derive facts after the store has the fetched measurements."""
        self._latest = self._store.latest(self._run.run, MEASURED)
        self.update_facts(status)

    def update_facts(self, status: JobStatus | None) -> None:
        """The facts, by the job's status now."""
        derived = self._job.facts(self._latest, self._run.plan, self._progress.noticed)
        self.facts = [*self._reported_facts(status), *derived]

    def _reported_facts(self, status: JobStatus | None) -> list[Fact]:
        """The facts that the cloud reports about the job; shows its page in the console
        immediately.
        """
        facts = status.facts if status else []
        if is_rehearsed(self._run.run):  # the cloud's console does not have it
            return [fact for fact in facts if fact.name != CONSOLE]
        for fact in facts:
            if fact.name == CONSOLE:
                self._report(note(CONSOLE, f"its page in the cloud's console: {fact.text}"))
        return facts
