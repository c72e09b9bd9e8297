"""One run: its record, its log and metrics, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from os import PathLike
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec

from rsctl.api.arguments import (
    check_count,
    check_number,
    check_path,
    check_text,
    checked_names,
    moment,
    wrong,
)
from rsctl.api.events import EventBatches, JobFailed, make_result
from rsctl.api.logs import LogFilter, OnFinding, chosen_replicas, log_batches
from rsctl.api.metrics import metric_events
from rsctl.api.reconcile import awaited, latest, reconciled
from rsctl.api.results import pages_of, result_locations
from rsctl.api.work import Work, work_of_run
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, error
from rsctl.runs.cost import RunCost, run_cost
from rsctl.runs.disk_use import disk_use
from rsctl.runs.findings import INCOMPLETE_LOG, RESTART_IN_PLACE, findings_of
from rsctl.runs.goodput_records import Goodput, goodput_of
from rsctl.runs.gradients import gradients_of
from rsctl.runs.home import is_rehearsed, run_directory
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stragglers import RANK, Straggler, steady_straggler
from rsctl.runs.stream.events import Event, LogEvent, MetricEvent, ResultEvent
from rsctl.runs.stream.formatting import format_number
from rsctl.runs.stream.gradients import Gradients
from rsctl.runs.waiting import Waiting, waiting_of
from rsctl.targets import get
from rsctl.targets.base import NodeCommand, Pool, Shell, replica_names

if TYPE_CHECKING:
    from rsctl.runs.fetch.fetch import Fetched, FetchProgress
    from rsctl.runs.fetch.locations import ResultKind

CANCEL_SECONDS = 60.0
_ASK_SECONDS = 2.0
_CANCEL_POLL_SECONDS = 0.05
_WATCH_SECONDS = 0.5


class Run:
    """A run of the store. It keeps nothing open: any thread may use it, and several at once.

    `record` is its record as last read; only `status`, `watch`, `cancel` and the end of `follow`
    reconcile it.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.record.state.value}>"

    def _repr_html_(self) -> str:
        from rsctl.bench.formats.html import html_table

        run = self.record
        rows = [
            ["state", run.state.value],
            ["url", run.url or ""],
            ["created", run.created],
            ["ended", run.ended or ""],
            *([name, format_number(value)] for name, value in self.last_values().items()),
        ]
        return html_table("Values of metrics are the last ones", [["run", self.id], *rows])

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.run

    @property
    def state(self) -> JobState:
        """The state as of `record`; `status` asks for the present one."""
        return self.record.state

    @property
    def replicas(self) -> list[str]:
        """The names of its replicas, by its plan."""
        return replica_names(msgspec.convert(self.record.plan["pools"], list[Pool]))

    @property
    def work(self) -> Work:
        """The number of steps of its job, and its time limit, as far as they are known."""
        return work_of_run(self.record)

    @property
    def is_rehearsed(self) -> bool:
        """Whether its cloud is, or was, an emulator."""
        return is_rehearsed(self.id)

    def status(self) -> RunRecord:
        """Reconcile it with its job; returns its record afterwards."""
        try:
            self.record = reconciled(self.record)
        finally:
            self._release()
        return self.record

    def reload(self) -> RunRecord:
        """The stored record of the run; does not contact its target."""
        self.record = latest(self.record)
        return self.record

    def watch(self) -> Iterator[RunRecord]:
        """The state of the run, now and after each change, until it has ended."""
        try:
            yield self.record
            while not self.record.state.is_final:
                sleep(_WATCH_SECONDS)
                before, self.record = self.record, awaited(self.record)
                if self.record != before:
                    yield self.record
        finally:
            self._release()

    def follow(self) -> Iterator[Event]:
        """Its events from the first on, to the result, which is the last.

        If you leave or interrupt the loop, the run continues, and you can follow it again. Raises
        RsctlError, for example without credentials.
        """
        batches = self.event_batches()
        for events in batches:
            yield from events
        yield batches.result()

    def event_batches(
        self, tail: int | None = None, tail_of: Callable[[LogEvent], bool] | None = None
    ) -> EventBatches:
        """Its events as they come, many at once, and an empty list now and then between them.

        `tail` leaves out the log before each replica's last lines; of these, only lines that pass
        the test `tail_of` count.
        """
        check_count("tail", tail)
        return EventBatches(self, tail, tail_of)

    def wait(self, timeout: float | None = None, *, check: bool = False) -> ResultEvent:
        """Wait for its end.

        Raises TimeoutError after so many seconds; the run continues. With `check`, raises
        JobFailed, an RsctlError with the known causes, unless it succeeded.
        """
        if timeout is not None:
            check_number("timeout", timeout)
        deadline = None if timeout is None else monotonic() + timeout
        batches = self.event_batches()
        for _ in batches:
            is_late = deadline is not None and monotonic() > deadline
            if is_late and not self.reload().state.is_final:
                raise TimeoutError(f"{self.id} has not ended after {timeout:g} s")
        result = batches.result()
        if check and result.exit_code:
            raise JobFailed(result)
        return result

    def logs(
        self,
        *,
        tail: int | None = None,
        role: str | None = None,
        replicas: Iterable[str] = (),
        since: datetime | str | None = None,
        grep: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogEvent]:
        """The lines of its merged log, by time; with `follow`, until it has ended.

        `tail` gives the last lines only, `since` the lines from a time on: a datetime, RFC 3339, or
        a duration ago such as 10m. `grep` gives the lines in which a regular expression matches.
        Raises RsctlError for a replica that does not exist.
        """
        names = tuple(checked_names("replicas", replicas))
        since = None if since is None else moment("since", since)
        if grep is not None:
            check_text("grep", grep)
        chosen = LogFilter(role=role, replicas=names, since=since, grep=grep)
        batches = self.log_batches(chosen, tail=tail, follow=follow)
        return (line for batch in batches for line in batch)

    def chosen_replicas(self, chosen: LogFilter) -> list[str]:
        """The replicas that a filter selects. Raises RsctlError for an unknown replica."""
        names = chosen_replicas(self.record, chosen)
        return self.replicas if names is None else names

    def log_batches(
        self,
        chosen: LogFilter,
        *,
        tail: int | None = None,
        follow: bool = False,
        on_finding: OnFinding = bool,
    ) -> Iterator[list[LogEvent]]:
        """As `logs`, many lines at once; `on_finding` gets the findings that arrive with them."""
        check_count("tail", tail)
        return self._released(log_batches(self.record, chosen, tail, follow, on_finding))

    def metrics(
        self,
        names: Iterable[str] = (),
        *,
        nodes: bool = False,
        follow: bool = False,
        tail: int | None = None,
    ) -> Iterator[MetricEvent]:
        """The values of its metrics in the order of arrival; with `follow`, until it has ended.

        `names` chooses metrics; without any, telemetry of the nodes is left out unless `nodes`.
        With `tail` only the last values so far, without reading the earlier ones.
        """
        check_count("tail", tail)
        chosen = frozenset(checked_names("names", names))
        return metric_events(self, chosen, nodes, follow, tail)

    def collect(self) -> None:
        """Bring its log and metrics on this machine up to date. Raises RsctlError."""
        try:
            get(self.record.target).collect(self.id)
        finally:
            self._release()

    def waiting(self) -> Waiting | None:
        """Why it has no machines yet, and what comes next; None if it does not wait."""
        return waiting_of(self.record)

    def findings(self) -> list[Finding]:
        """Warnings and errors that came up while it ran, each once."""
        return findings_of(self.id, self.state.is_final)

    def restarts_in_place(self) -> int:
        """How often torchrun has started the ranks of all nodes again."""
        return sum(finding.code == RESTART_IN_PLACE for finding in self.findings())

    def log_findings(self) -> list[Finding]:
        """Why its log is not complete, if it is not."""
        return [finding for finding in self.findings() if finding.code in INCOMPLETE_LOG]

    def gradients(self) -> Gradients | None:
        """The statistics of its gradient transport; None if gradients do not go over reducers."""
        with closing(Store()) as store:
            return gradients_of(store, self.record)

    def slowest_rank(self) -> Straggler | None:
        """The rank that the others wait for, by the last timed steps; None if no rank is the
        slowest in more of them than by chance.
        """
        with closing(Store()) as store:
            return steady_straggler(store.values(self.id, f"{RANK}*", newest_first=True))

    def summary(self) -> dict[str, dict[str, Any]]:
        """For each metric its `last` value, the `count` of all replicas' values, its `best` by the
        goal and its `unit`; without metrics of machines.

        Where several replicas log a metric, these are the chief's; if the chief does not log it,
        they are the metric's `aggregate` over the replicas of each step.
        """
        with closing(Store()) as store:
            return store.summary(self.id)

    def last_values(self) -> dict[str, float]:
        """The last value of each metric, as in `summary`."""
        with closing(Store()) as store:
            return store.last_values(self.id)

    def locations(self) -> dict[str, str]:
        """Where its `outputs`, `checkpoints` and `model` are: a path here, or a bucket's URL."""
        return result_locations(self.record)

    def has_checkpoints(self) -> bool | None:
        """Whether it has a checkpoint to resume from; None if that cannot be read."""
        from rsctl.api.fetching import has_checkpoints

        return has_checkpoints(self.record)

    def pages(self) -> dict[str, str]:
        """Addresses about it, `console`, `tensorboard`, `logs`; folders of one on this machine."""
        return pages_of(self.record)

    def fetch(
        self,
        folder: str | PathLike[str] | None = None,
        *,
        only: Iterable[ResultKind] = (),
        include: Iterable[str] = (),
        max_unpacked: int | None = None,
        on_progress: Callable[[FetchProgress], object] = bool,
    ) -> Fetched:
        """Download its results so far to a folder, `./RUN` by default.

        `only` are some of `outputs`, `checkpoints`, `logs`, `artifacts`; `include` are globs on
        names, or on paths below the folder; `max_unpacked` is in bytes. Files that already exist
        are not fetched again, and an interrupted download continues. Errors of single files are
        among the findings of the result; raises RsctlError if the download cannot continue.
        """
        from rsctl.api.fetching import fetch_results
        from rsctl.runs.fetch.fetch import FetchSelection

        check_count("max_unpacked", max_unpacked)
        if folder is not None:
            check_path("folder", folder)
        kinds: frozenset[Any] = frozenset(checked_names("only", only))
        if unknown := kinds - FetchSelection.kinds:
            known = ", ".join(sorted(FetchSelection.kinds))
            raise wrong("only", min(unknown), "is not a kind of result", f"give some of {known}")
        globs = tuple(checked_names("include", include))
        choice = FetchSelection(kinds or FetchSelection.kinds, globs, max_unpacked)
        return fetch_results(self.record, folder, choice, on_progress)

    def disk_use(self) -> int:
        """Bytes that its folder and its metrics in the database take on this machine."""
        with closing(Store()) as store:
            metrics = store.disk_uses(self.id).get(self.id, 0)
        return disk_use(run_directory(self.id)) + metrics

    def result(self, exit_code: int | None = None) -> ResultEvent:
        """Its end, as far as known, as the last event of `follow`."""
        state = self.reload().state
        if exit_code is None:  # a run that is gone without an end has failed
            exit_code = int(state.exit_code if state.is_final else ExitCode.JOB_FAILED)
        return make_result(self.id, self.record, self.summary(), exit_code)

    def cost(self) -> RunCost | None:
        """The cost of the run as of its last update.

        None if nothing is billed: on your own machines, and in a rehearsal.
        """
        return run_cost(self.record)

    def goodput(self) -> Goodput:
        """The part of its paid time that went into new training steps, and the causes of the rest.

        As of its last update.
        """
        with closing(Store()) as store:
            return goodput_of(store, self.record)

    def to_dict(self, *, details: bool = False) -> dict[str, Any]:
        """Plain data, as `rsctl list -o json` prints it: without plan and spec, which are long.

        With `details`, as `rsctl status -o json` prints it: with spec, gradients, why it waits, the
        slowest rank, findings and goodput.
        """
        fields: dict[str, Any] = msgspec.to_builtins(self.record)
        del fields["plan"], fields["metrics_spec"], fields["spec"]
        fields["metrics"] = self.last_values()
        fields["rehearsed"] = self.is_rehearsed
        fields["results"] = self.locations()
        fields["facts"] = {fact.name: fact.value for fact in self.record.facts}
        fields["restarts_in_place"] = self.restarts_in_place()
        fields["cost"] = msgspec.to_builtins(self.cost())
        if details:
            fields["spec"] = self.record.spec
            fields["gradients"] = msgspec.to_builtins(self.gradients())
            fields["waiting"] = msgspec.to_builtins(self.waiting())
            fields["slowest_rank"] = msgspec.to_builtins(self.slowest_rank())
            fields["findings"] = msgspec.to_builtins(self.findings())
            fields["goodput"] = msgspec.to_builtins(self.goodput())
        return fields

    def node_command(
        self, command: Sequence[str], replica: str | None = None, is_terminal: bool = False
    ) -> NodeCommand:
        """The process on this machine by which a command runs on a node (the chief).

        An empty command is a shell. Raises RsctlError if rsctl cannot reach the node.
        """
        from rsctl.api.entering import node_command

        return node_command(self, replica, command, is_terminal)

    def shell(self, replica: str | None = None, is_terminal: bool = False) -> Shell | NodeCommand:
        """The shell on a node (the chief): a process, or the one that the cloud offers.

        Raises RsctlError if there is none.
        """
        from rsctl.api.entering import shell_of

        return shell_of(self, replica, is_terminal)

    def request_cancel(self) -> None:
        """Request that the job ends, once, and wait for the answer only. Raises RsctlError."""
        get(self.record.target).cancel(self.id)

    def cancel(self, timeout: float = CANCEL_SECONDS) -> RunRecord:
        """End it, and wait for the end; returns its record afterwards. Does not change an ended
        run.

        A cloud may give it longer to shut down than `timeout` seconds: then it is `cancelling`.
        Raises RsctlError (exit code 6) if it still runs after that.
        """
        check_number("timeout", timeout)
        deadline, ask_at = monotonic() + timeout, 0.0
        try:
            while not self.record.state.is_final:
                if monotonic() >= ask_at:  # a supervisor that is just being started may miss one
                    self.request_cancel()
                    ask_at = monotonic() + _ASK_SECONDS
                self.record = awaited(self.record)
                if self.record.state.is_final or monotonic() >= deadline:
                    break
                sleep(_CANCEL_POLL_SECONDS)
        finally:
            self._release()
        if self.record.state.is_final or self.record.state is JobState.CANCELLING:
            return self.record
        message = f"{self.id} has not ended after {timeout:g} s"
        raise RsctlError(ExitCode.TIMED_OUT, error("cancel", message, "try again"))

    def _released(self, batches: Iterator[list[LogEvent]]) -> Iterator[list[LogEvent]]:
        try:
            yield from batches
        finally:
            self._release()

    def _release(self) -> None:
        get(self.record.target).release(self.id)
