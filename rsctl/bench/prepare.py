"""A job file to the cells of a bench: a job and a plan each, and what defines the measurement."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rsctl.bench.fingerprint import (
    CellPrint,
    Fingerprint,
    definitions,
    machine_here,
    plan_print,
)
from rsctl.bench.inputs import code_digest, packages, packages_digest, source_digest, source_files
from rsctl.bench.lost_runs import bench_job, option_findings
from rsctl.bench.own_folders import folder_findings
from rsctl.bench.pack_checks import pack_findings
from rsctl.bench.records import BenchRecord, Cell, new_bench_id
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.document import Document, cells_of, read
from rsctl.job.env_checks import without_secret
from rsctl.job.job import Job
from rsctl.job.kept_text import kept_text
from rsctl.job.matrix import plain
from rsctl.job.options import process_options
from rsctl.job.secret_names import HIDDEN, is_secret_variable, public_document
from rsctl.plan import choose_target, make_plan, name_of
from rsctl.runs.ids import placeholder
from rsctl.runs.stream.events import now
from rsctl.runs.stream.metrics import MetricSpec
from rsctl.targets.base import Submission, Target, metric_specs
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal, RehearsedTarget


@dataclass(frozen=True)
class BenchCell:
    """One cell: its values, and a submission of it with a placeholder for the run's id.

    `digest` is of all that its runs have in common.
    """

    values: Cell
    submission: Submission
    digest: str


@dataclass(frozen=True)
class BenchPlan:
    """The cells of a job file with their plans: a bench before anything of it is recorded.

    `inputs` is a digest of the source and the packages that runs without an image use. With a
    `rehearsal` the cloud is emulated on this machine.
    """

    document: Document
    settings: tuple[str, ...]
    target: Target
    cells: list[BenchCell]
    findings: list[Finding]
    inputs: str = ""
    rehearsal: RehearsedTarget | None = None

    @property
    def is_packed(self) -> bool:
        """Whether its runs are slots of few jobs, see `rsctl.bench.packed`."""
        return self.job.bench.pack

    @property
    def job(self) -> Job:
        """The job of the first cell, for what all cells have in common."""
        return self.cells[0].submission.job

    @property
    def is_sequential(self) -> bool:
        """Whether its runs must not overlap unless the user asks for it."""
        return False

    @property
    def metric_specs(self) -> dict[str, MetricSpec]:
        """The job's metrics, for reading them out of the log."""
        return metric_specs(self.job)

    @property
    def content(self) -> dict[str, str]:
        """The files and packages that runs without an image use, by name."""
        found: dict[str, str] = {}
        for cell in {cell.submission.job.image.source: cell for cell in self.cells}.values():
            found |= content_of(cell.submission, self.document.path, self.document.folder)
        return found

    @property
    def definition(self) -> str:
        """A digest of the measurement: benches that share it can be one."""
        digests = [cell.digest for cell in self.cells]
        rehearsed = [self.rehearsal.definition] if self.rehearsal else []
        packed = ["packed"] if self.is_packed else []
        text = "\n".join([self.target.info.name, *digests, self.inputs, *rehearsed, *packed])
        return hashlib.sha256(text.encode()).hexdigest()

    def fingerprints(self) -> list[Fingerprint]:
        """The properties of the bench that must be equal, less those that only runs report.

        One for each placement where its runs may be.
        """
        counts = [1 + len(cell.submission.alternatives) for cell in self.cells]
        return [self._fingerprint(number) for number in range(min(counts))]

    def _fingerprint(self, placement: int) -> Fingerprint:
        prints = []
        for cell in self.cells:
            submission = [cell.submission, *cell.submission.alternatives][placement]
            plan = msgspec.to_builtins(submission.plan)
            fixed = plan_print(self.target.info.name, plan)
            if self.target.info.name == "process":
                fixed["machine"] = machine_here()
            prints.append(CellPrint(cell.values, fixed))
        return Fingerprint(prints, definitions(self.metric_specs))

    def new_bench(self, repeat: int) -> BenchRecord:
        """A bench to record."""
        root = self.document.root
        return BenchRecord(
            bench=new_bench_id(self.job.name),
            name=self.job.name,
            target=self.target.info.name,
            definition=self.definition,
            created=now(),
            repeat=repeat,
            cells=[cell.values for cell in self.cells],
            spec=public_document(plain(root)) if root else {},
            file=os.path.abspath(self.document.path) if self.document.path != "-" else "-",
            folder=self.document.folder,
            text=kept_text(self.document.text) or "",
            settings=[without_secret(setting) for setting in self.settings],
            rehearsed=self.rehearsal is not None,
            content=self.content,
            rehearsal=self.rehearsal.given.arguments if self.rehearsal else [],
        )


def prepare(
    document: Document,
    settings: tuple[str, ...],
    target: str | None,
    rehearse: Rehearsal | None = None,
) -> BenchPlan:
    """The cells of a job file that was read with `settings`, on a target or the file's own.

    With `rehearse` each cell has defaults for values that need an account. Raises RsctlError with
    all errors of all of them.
    """
    chosen = choose_target(document, target)
    document.require_job()
    rehearsal = RehearsedTarget(chosen.info.name, rehearse) if rehearse else None
    cells, findings, wrong = [], list(document.findings), []
    code_of = cache(_code_of)  # the cells share their source
    for values, one in cells_of(document):
        if rehearsal and one.job:
            from rsctl.targets.managed.rehearsal.job import complete_job

            completed, defaults = complete_job(one.job, chosen.info.name)
            one = msgspec.structs.replace(one, job=completed)
            findings += [finding for finding in defaults if finding not in findings]
        if one.job:
            told = [*option_findings(one.job, chosen.info), *folder_findings(one.job)]
            findings += [finding for finding in told if finding not in findings]
            one = msgspec.structs.replace(one, job=bench_job(one.job, chosen.info))
        try:
            submission = make_plan(one, chosen, placeholder(name_of(one)))
        except RsctlError as problem:
            wrong += [finding for finding in problem.findings if finding not in wrong]
            continue
        known = submission.plan.findings
        findings += [finding for finding in known if finding not in findings]
        cells.append(BenchCell(values, submission, digest_of(submission, code_of)))
    if wrong:
        raise RsctlError(ExitCode.USAGE, *wrong)
    if not cells:
        remedy = "keep at least one combination, or remove the matrix"
        finding = error("matrix", "the matrix excludes all of its cells", remedy, "matrix")
        document.add([finding])
        raise RsctlError(ExitCode.USAGE, *document.findings)
    if cells[0].submission.job.bench.pack:
        findings += pack_findings(cell.submission.job for cell in cells)
        if any(finding.is_error for finding in findings):
            raise RsctlError(ExitCode.USAGE, *findings)
    sources = {cell.submission.job.image.source: cell.submission for cell in cells}
    inputs = "".join(_inputs_of(submission, document) for submission in sources.values())
    return BenchPlan(document, settings, chosen, cells, findings, inputs, rehearsal)


def reopen(bench: BenchRecord) -> BenchPlan:
    """A recorded bench, to run more of it. Raises RsctlError if its job is another by now."""
    require_real(bench)
    path = bench.file if bench.file != "-" else os.path.join(bench.folder, "-")
    settings = stored_settings(bench)
    document = read(path, settings, text=_text_of(bench))
    if document.folder != bench.folder:
        message = f"the job file of {bench.bench} no longer exists: {bench.file}"
        raise RsctlError(
            ExitCode.USAGE, error("bench", message, "run the job again from its new location")
        )
    prepared = prepare(document, settings, bench.target)
    if prepared.definition != bench.definition:
        message = f"the source, image or environment of {bench.bench} has changed since it started"
        remedy = "restore it, or measure it again: rsctl bench run JOB"
        raise RsctlError(ExitCode.USAGE, error("bench", message, remedy))
    return prepared


def stored_settings(bench: BenchRecord) -> tuple[str, ...]:
    """The overrides of a recorded bench. Raises RsctlError if one had a secret."""
    if any(HIDDEN in setting for setting in bench.settings):
        message = f"a --set of {bench.bench} had a secret, which rsctl does not store"
        remedy = f"give the job instead: {bench.command()}"
        raise RsctlError(ExitCode.USAGE, error("bench", message, remedy))
    return tuple(bench.settings)


def _text_of(bench: BenchRecord) -> str:
    """The text of a recorded bench's job file, with its secrets. Raises RsctlError if the file no
    longer has them.
    """
    if bench.file != "-" and (not bench.text or HIDDEN in bench.text):
        with suppress(OSError, UnicodeDecodeError):
            current = Path(bench.file).read_text(encoding="utf-8")
            if (kept_text(current) or "") == bench.text:
                return current
    if HIDDEN in bench.text:
        message = (
            f"the job file of {bench.bench} has a secret, which rsctl does not store, and has "
            "changed since the bench started"
        )
        remedy = "restore it, or measure it again: rsctl bench run JOB"
        raise RsctlError(ExitCode.USAGE, error("bench", message, remedy))
    return bench.text


def require_real(bench: BenchRecord) -> None:
    """Raise RsctlError for a rehearsal, which needs its emulator again."""
    if bench.rehearsed:
        own = f"gate JOB --against {bench.against.given}" if bench.against else "bench run JOB"
        message = f"{bench.bench} is a rehearsal, which only `rsctl {own} --rehearse` continues"
        raise RsctlError(ExitCode.USAGE, error("bench", message, "run the job without --rehearse"))


def plan_confirmation(
    plan: BenchPlan, bench: BenchRecord, cells: Sequence[Cell], repeat: int
) -> tuple[BenchPlan, BenchRecord]:
    """Fresh runs of some cells of a bench, as a bench of their own."""
    part = replace(plan, cells=[cell for cell in plan.cells if cell.values in cells])
    again = part.new_bench(repeat)
    # Must not be mistaken for the bench itself by a search for this definition.
    again.bench, again.definition = new_bench_id(f"{bench.name}-confirm"), f"{again.bench} again"
    return part, again


def _code_of(source: Path | None, script: str | None) -> str:
    return code_digest(source, script) if source else ""


def _variables(job: Job) -> list[tuple[str, str]]:
    """The variables from the environment, which a plan leaves out, without secrets: a new password
    does not change what is measured.
    """
    blocks = [job.run.env, job.chief.env, *(role.env for role in job.roles.values())]
    named = [(name, value) for env in blocks for name, value in env.items() if value]
    return [
        (name, str(value))
        for name, value in named
        if value.secret and not is_secret_variable(name, value)
    ]


def digest_of(
    submission: Submission, code_of: Callable[[Path | None, str | None], str] = _code_of
) -> str:
    """A digest of a plan but for the id of its run; where there is no image, of the code too.

    It is compared before each run: what runs write beside the code may change in between.
    """
    plan, job = submission.plan, submission.job
    shown: dict[str, Any] = {**msgspec.to_builtins(plan), "findings": [], "image": plan.image.tag}
    for name in ("tracking", "cost"):  # neither changes the samples
        shown.pop(name, None)
    shown["metrics"] = metric_specs(job)
    if variables := _variables(job):
        shown["variables"] = variables
    shown["limits"] = [job.limits.timeout, job.limits.most_restarts]
    text = msgspec.json.encode(shown, order="sorted", enc_hook=str).replace(
        plan.run.encode(), b"RUN"
    )
    code = code_of(_source_of(submission), job.run.script)
    return hashlib.sha256(text + code.encode()).hexdigest()


def _source_of(submission: Submission) -> Path | None:
    """The source folder, where the runs read it itself and no image has a copy of it."""
    source = submission.job.image.source
    if submission.plan.image.tag or not source or not Path(source).is_dir():
        return None
    return Path(source)


def _inputs_of(submission: Submission, document: Document) -> str:
    """A digest of all that runs without an image read, as it is on disk now."""
    source = _source_of(submission)
    if source is None:
        return ""
    ignored = _not_inputs(submission, document.path, document.folder)
    return source_digest(source, ignored) + packages_digest(_python_of(submission))


def content_of(submission: Submission, file: str = "", folder: str = "") -> dict[str, str]:
    """A digest of each file, and the version of each package, that a run without an image uses.

    Less the job `file`, and what its gate keeps in `folder`. Raises OSError.
    """
    source = _source_of(submission)
    if source is None:
        return {}
    files = source_files(source, _not_inputs(submission, file, folder))
    return {**files, **packages(_python_of(submission))}


def _not_inputs(submission: Submission, file: str, folder: str) -> list[Path]:
    job = submission.job
    own = [job.gate.baseline, job.gate.history] if job.gate else []
    places = [Path(folder, location) for location in own if location]
    return [Path(file), *places]


def _python_of(submission: Submission) -> Path | None:
    python = process_options(submission.job).python
    return Path(python) if python else None
