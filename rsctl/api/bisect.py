"""Bisection of a regression: the commits between a good and a bad one, each measured by a bench."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import msgspec

from rsctl.api.arguments import check_path, checked_names
from rsctl.api.bisect_commits import CannotMeasure, CommitBenches, only_cells
from rsctl.api.gate_candidate import REPEAT, MaxRegression, RunBench, just_run, open_candidate
from rsctl.api.job_file import Settings, setting_texts
from rsctl.atomic_file import write_file
from rsctl.bench.bisect import Mark, Remaining, remaining
from rsctl.bench.checks import MetricCheck
from rsctl.bench.commits import KnownCommit, commits_between
from rsctl.bench.fingerprint import Cell
from rsctl.bench.floors import Floors
from rsctl.bench.gate import Gate, evaluate
from rsctl.bench.history import History, short_commit
from rsctl.bench.history_files import read_history
from rsctl.bench.history_series import FoundStep, make_series, select
from rsctl.bench.results import Results
from rsctl.bench.verdict import Floor, Verdict
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import cells_remedy
from rsctl.job.matrix import format_value
from rsctl.runs.home import home

_MORE = 2  # the factor by which a commit is run more often while it is undecided
_MOST_ROUNDS = 3
_MARKS = {Verdict.PASS: Mark.GOOD, Verdict.REGRESSED: Mark.BAD}

OnProbe = Callable[["Probe", int], object]
"""Gets each commit that was tested, and about how many tests remain."""


class Probe(msgspec.Struct, kw_only=True):
    """One commit: how it was judged, by the bench of that name, and why it was skipped.

    `effect` is its change against the good commit, as a part of that or in the metric's unit.
    """

    commit: str
    subject: str
    mark: Mark
    bench: str = ""
    effect: Optional[float] = None
    reason: str = ""


class Bisected(msgspec.Struct, kw_only=True):
    """The result. `first_bad` is None if skipped commits hide it; then it is one of `suspects`."""

    metric: str
    cell: str
    good: str
    bad: str
    effect: float
    is_relative: bool
    first_bad: Optional[Probe]
    suspects: list[Probe]
    probes: list[Probe]

    @property
    def headline(self) -> str:
        """The result in one line, for people."""
        if self.first_bad is not None:
            name = short_commit(self.first_bad.commit)
            return f"{name} is the first bad commit: {self.first_bad.subject}"
        names = ", ".join(short_commit(probe.commit) for probe in self.suspects)
        return f"the first bad commit is one of {names}: not all of them could be measured"


class _State(msgspec.Struct):
    """The commits that were skipped, which a later call of the same search need not try again."""

    version: int = 1
    skipped: dict[str, str] = {}


@dataclass
class PreparedBisect:
    """A search, of which nothing has run yet."""

    path: str
    commits: list[KnownCommit]
    repeat: int
    floors: Floors
    target: Optional[str]
    settings: list[str]
    folder: Path
    cells: Optional[list[Cell]] = None
    count: int = 1

    def __post_init__(self) -> None:
        self._benches = CommitBenches(Path(self.path), self.target, tuple(self.settings))

    @property
    def most_runs(self) -> int:
        """About how many runs the search takes: all `count` cells of the ends, then one cell."""
        return (2 * self.count + (len(self.commits) - 1).bit_length()) * self.repeat

    def run(self, run: RunBench = just_run, on_probe: OnProbe = lambda *_: None) -> Bisected:
        """Search, with the benches that exist; raises RsctlError if nothing can be decided.

        What has run is in the store: the same call continues a search that was interrupted. The
        ends are measured in `cells` (default: all), the commits between them in the cell of the
        worst regression. A search that ends removes the files that it has checked out.
        """
        found = self._search(run, on_probe)
        self._benches.clean()
        if found.first_bad is not None:
            self._remove_state()
        return found

    def _search(self, run: RunBench, on_probe: OnProbe) -> Bisected:
        last = len(self.commits) - 1
        good, bad = (self._measure(index, self.repeat, run, self.cells) for index in (0, last))
        check, cells = _narrowed(good, bad, self.floors, self.commits)
        good = only_cells(good, cells)
        state = self._read_state()
        probes = {
            index: self._probe(index, Mark.SKIPPED, state.skipped[known.commit])
            for index, known in enumerate(self.commits)
            if known.commit in state.skipped
        }
        while (now := self._remaining(probes)).next is not None:
            probe = probes[now.next] = self._test(now.next, good, check, run, cells)
            if probe.mark is Mark.SKIPPED:
                state.skipped[probe.commit] = probe.reason
                write_file(self._state_path(), msgspec.json.encode(state))
            on_probe(probe, self._remaining(probes).tests)
        suspects = [probes.get(i) or self._probe(i, Mark.BAD) for i in now.suspects]
        return Bisected(
            metric=check.metric,
            cell=check.title,
            good=self.commits[0].commit,
            bad=self.commits[last].commit,
            effect=check.effect or 0.0,
            is_relative=check.is_relative,
            first_bad=suspects[0] if len(suspects) == 1 else None,
            suspects=suspects,
            probes=[probes[index] for index in sorted(probes)],
        )

    def _remaining(self, probes: dict[int, Probe]) -> Remaining:
        return remaining(len(self.commits), {i: probe.mark for i, probe in probes.items()})

    def _test(
        self,
        index: int,
        good: Results,
        check: MetricCheck,
        run: RunBench,
        cells: Optional[list[Cell]],
    ) -> Probe:
        """Judge a commit: bad if it is worse than the good one by more than half the regression."""
        half = {check.metric: Floor(abs(check.effect or 0.0) / 2, check.is_relative)}
        repeat = self.repeat
        for _ in range(_MOST_ROUNDS):
            try:
                results = self._measure(index, repeat, run, cells)
            except CannotMeasure as problem:
                return self._probe(index, Mark.SKIPPED, str(problem))
            gate = evaluate(good, results, half)
            about = check.metric, check.cell  # the worst part of a curve may be another one
            found = next((c for c in gate.checks if (c.metric, c.cell) == about), None)
            if found is None or found.verdict is Verdict.NO_DATA:
                why = (found and found.reason) or "it has no data"
                return self._probe(index, Mark.SKIPPED, why)
            if found.verdict in _MARKS:
                probe = self._probe(index, _MARKS[found.verdict])
                probe.bench, probe.effect = results.label, found.effect
                return probe
            repeat *= _MORE
        why = f"{repeat // _MORE} runs cannot decide between good and bad"
        return self._probe(index, Mark.SKIPPED, why)

    def _probe(self, index: int, mark: Mark, reason: str = "") -> Probe:
        known = self.commits[index]
        return Probe(commit=known.commit, subject=known.subject, mark=mark, reason=reason)

    def _measure(
        self, index: int, repeat: int, run: RunBench, cells: Optional[list[Cell]]
    ) -> Results:
        """Raises CannotMeasure if it is the commit's fault; the ends' faults end the search."""
        is_end = index in (0, len(self.commits) - 1)
        try:
            return self._benches.measure(self.commits[index].commit, repeat, run, cells)
        except CannotMeasure as problem:
            if not is_end:
                raise
            message = f"{short_commit(self.commits[index].commit)} cannot be measured: {problem}"
            remedy = "choose other commits for --good and --bad"
            raise RsctlError(ExitCode.INCONCLUSIVE, error("bisect", message, remedy)) from None

    def _read_state(self) -> _State:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            data = self._state_path().read_bytes()
            state = msgspec.json.decode(data, type=_State)
            if state.version == 1:
                return state
        return _State()

    def _remove_state(self) -> None:
        with suppress(OSError):
            self._state_path().unlink()
        with suppress(OSError):
            self.folder.rmdir()  # unless it has the state of another search

    def _state_path(self) -> Path:
        about = [self.target, *self.settings]
        key = hashlib.sha256(msgspec.json.encode(about)).hexdigest()[:12]
        return self.folder / f"skipped-{key}.json"


def prepare_bisect(
    job: str | os.PathLike[str],
    target: str | None = None,
    *,
    good: str | None = None,
    bad: str | None = None,
    history: str | os.PathLike[str] | None = None,
    metrics: Iterable[str] = (),
    cells: Iterable[str] = (),
    set: Settings = (),
    repeat: int | None = None,
    max_regression: MaxRegression = (),
) -> PreparedBisect:
    """A search for the commit between `good` and `bad` with which a job file became worse.

    With a `history`, by default the job file's, they are by default the commits around its last
    step for the worse, of the given metrics and cells; the cell of that step is searched. `cells`
    are texts such as `workers.count=4`, of which a cell has all. Nothing runs. Raises RsctlError.
    """
    path = os.path.realpath(check_path("job", job))
    settings = setting_texts(set)
    metrics, cells = checked_names("metrics", metrics), checked_names("cells", cells)
    if not os.path.isfile(path):
        message = f"cannot read {job}: it does not exist"
        raise RsctlError(ExitCode.USAGE, error("bisect", message, "give the path of a job file"))
    candidate = open_candidate(path, target, set=settings)
    rules = candidate.rules(None, max_regression, repeat)
    chosen = _chosen(candidate.cells, cells)
    folder = "."
    if history is None and good is None and rules.history is not None:
        history, folder = rules.history, candidate.folder
    if history is not None and not (good and bad):
        past = read_history(check_path("history", history), folder)
        cell, step = _last_step(past, candidate.name, metrics, cells)
        good, bad = good or step.after, bad or step.until
        chosen = [cell] if cell in candidate.cells else chosen
    if not good:
        remedy = "give --good REF, or --history WHERE, whose last step for the worse is searched"
        finding = error("bisect", "the good commit is unknown", remedy)
        raise RsctlError(ExitCode.USAGE, finding)
    rules.require_floors("bisect")
    floors = rules.floors.of(metrics or list(rules.floors))
    if not floors:
        message = f"{', '.join(metrics)} has no allowed regression"
        raise RsctlError(
            ExitCode.USAGE, error("bisect", message, "give --max-regression METRIC=5%")
        )
    commits = commits_between(os.path.dirname(path), good, bad or "HEAD")
    if len(commits) < 2:
        message = f"there are no commits between {good} and {bad or 'HEAD'}"
        raise RsctlError(ExitCode.USAGE, error("bisect", message))
    key = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:12]
    return PreparedBisect(
        path=path,
        commits=commits,
        repeat=rules.repeat or REPEAT,
        floors=floors,
        target=target,
        settings=list(settings),
        folder=home() / "bisect" / f"{Path(path).stem[:40]}-{key}",
        cells=chosen if len(chosen) < len(candidate.cells) else None,
        count=len(chosen),
    )


def _narrowed(
    good: Results, bad: Results, floors: Floors, commits: list[KnownCommit]
) -> tuple[MetricCheck, list[Cell]]:
    """The worst regression between the ends, and the cells by which it is searched: one if a test
    of that one finds it, otherwise those that are worse by more than is allowed, or all.

    Raises RsctlError if there is no regression.
    """
    gate = evaluate(good, bad, floors)
    check = _regression(gate, commits)
    every = [runs.cell for runs in bad.cells]
    if check.cell is not None:
        return check, [check.cell]
    suspects = sorted(
        (c for c in gate.checks if c.metric == check.metric and c.suspected and c.cell is not None),
        key=lambda each: each.effect or 0.0,
        reverse=check.goal == "min",
    )
    cells = [each.cell for each in suspects if each.cell is not None]
    floor = floors.of([check.metric])
    for chosen in (cells[:1], cells):
        part = evaluate(only_cells(good, chosen), only_cells(bad, chosen), floor)
        found = _worst(part)
        if found is not None:
            return found, chosen if found.cell is None else [found.cell]
    return check, every


def _worst(gate: Gate) -> MetricCheck | None:
    """The worst regression of a gate, of a single cell if there is one."""
    worst = [check for check in gate.worst_first if check.verdict is Verdict.REGRESSED]
    return next((check for check in worst if check.cell is not None), next(iter(worst), None))


def _regression(gate: Gate, commits: list[KnownCommit]) -> MetricCheck:
    """The worst regression between the ends. Raises RsctlError if there is none."""
    worst = _worst(gate)
    if worst is not None:
        return worst
    first, last = short_commit(commits[0].commit), short_commit(commits[-1].commit)
    why = next((f": {c.title}: {c.reason}" for c in gate.worst_first if c.reason), "")
    message = f"{last} is not worse than {first} by more than is allowed{why}"
    remedy = "increase --repeat, lower --max-regression, or choose other commits"
    raise RsctlError(ExitCode.INCONCLUSIVE, error("bisect", message, remedy))


def _chosen(cells: list[Cell], texts: list[str]) -> list[Cell]:
    """The cells with all of the given `KEY=VALUE`. Raises RsctlError if there is none."""
    wanted = [tuple(text.split("=", 1)) for text in texts]
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            message = f"--cell {text!r} is not KEY=VALUE"
            raise RsctlError(
                ExitCode.USAGE, error("bisect", message, "for example workers.count=4")
            )
    found = [
        cell for cell in cells if all(k in cell and format_value(cell[k]) == v for k, v in wanted)
    ]
    if not found:
        message = f"the job has no cell with {', '.join(texts)}"
        raise RsctlError(ExitCode.USAGE, error("bisect", message, cells_remedy(cells)))
    return found


def _last_step(
    history: History, job: str, metrics: list[str], cells: list[str]
) -> tuple[Cell, FoundStep]:
    """The cell and the step, the latest one for the worse of a job. Raises RsctlError if there is
    none.
    """
    history.records = [record for record in history.records if record.job == job]
    found = [
        (one.points[step.position].committed, step.confidence, one.cell, step)
        for one in select(make_series(history), history, metrics, cells)
        for step in one.steps
        if step.is_worse
    ]
    if not found:
        message = f"{history.label} has no step of {job} for the worse"
        remedy = "give --good REF and --bad REF"
        raise RsctlError(ExitCode.USAGE, error("bisect", message, remedy))
    return max(found, key=lambda each: each[:2])[2:]
