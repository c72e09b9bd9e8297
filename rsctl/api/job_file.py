"""Job files, read and planned. Nothing here sends anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Union

import msgspec
from msgspec.structs import replace

from rsctl.api.arguments import check_path, checked_names
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job import matrix
from rsctl.job.document import Document, cells_of, read
from rsctl.job.job import Job
from rsctl.plan import choose_target, make_plan, name_of, require_no_matrix
from rsctl.runs.ids import new_run_id, placeholder, require_run_id
from rsctl.target_info import import_object, target_info
from rsctl.targets import get
from rsctl.targets.base import Plan, Submission, Target

Settings = Union[Mapping[str, object], Iterable[str]]
"""Keys of the job file with their values, or texts such as `workers.count=8`."""

_QUOTED = re.compile(r"""[\[{"'].*|\s.*|.*\s|true|false|null|~|[-+.\d].*|""", re.DOTALL)
"""Texts that YAML reads as another type unless they are quoted."""


class JobFile(msgspec.Struct, frozen=True):
    """A job file as read, with its overrides. Planning does not change it."""

    document: Document
    settings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the text, which can contain a secret."""
        return f"JobFile({self.path!r}, settings={len(self.settings)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The file as read, for pickle: the type of its job exists in this process only."""
        return _read, (self.path, self.settings, self.text, self.document.folder)

    @property
    def path(self) -> str:
        """The file; `-` is standard input."""
        return self.document.path

    @property
    def text(self) -> str:
        """Its content."""
        return self.document.text

    @property
    def name(self) -> str:
        """The job's name, with which the ids of its runs begin."""
        return name_of(self.document)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The mistakes of the file itself, each with its line; a target may find more."""
        return tuple(self.document.findings)

    @property
    def spec(self) -> Job:
        """The job as typed values. Raises RsctlError with all findings if there are errors."""
        return self.document.require_job()

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The values of each cell of the job's matrix; none without a matrix."""
        if self.document.root is None:
            return []
        return [
            {path: matrix.plain(node) for path, node in cell.items()}
            for cell in matrix.cells(self.document.root)
        ]

    def copy_document(self) -> Document:
        """The document, for callers that add findings to it."""
        document = self.document
        findings, guessed = list(document.findings), set(document.guessed)
        return replace(document, findings=findings, guessed=guessed)


AnyJob = Union[JobFile, Job, str, "PathLike[str]"]
"""A job file that was loaded, its path, or a job made in Python."""


def load(
    path: str | PathLike[str],
    *,
    set: Settings = (),
    text: str | None = None,
    strict: bool = True,
) -> JobFile:
    """Read a job file; `set` overrides its keys, as `--set` does: `{"workers.count": 8}`.

    `text` is the file's content, if it has already been read; its paths are relative to `path`.

    Raises RsctlError with every mistake in it. Unless `strict`, they are the job's findings, and
    `plan` raises them together with those of the target.
    """
    settings = setting_texts(set)
    job = _read(check_path("path", path), settings, text)
    if strict:
        job.document.require_job()
    return job


def _read(
    path: str, settings: tuple[str, ...], text: str | None, folder: str | None = None
) -> JobFile:
    return JobFile(read(path, settings, text=text, folder=folder), settings)


def plan(
    job: AnyJob,
    target: str | None = None,
    *,
    run_id: str | None = None,
    rehearse: bool = False,
) -> Plan:
    """Plan the exact submission of a job to a target (default: its own), with findings.

    Without a run ID, the plan has a placeholder instead. With `rehearse` the values that need an
    account have the defaults of a rehearsal. Raises RsctlError with all mistakes of the job on this
    target, and with each cell of its matrix.
    """
    source, _ = source_of(job)
    notes: list[Finding] = []
    if rehearse:
        source, notes = rehearsed(source, target_of(source, target).info.name)
    planned = _submission(source, target, run_id).plan
    planned = replace(planned, findings=[*planned.findings, *notes])
    if isinstance(source, Job) or not _has_cells(source):
        return planned
    _add_cells(source, target_of(source, target), rehearse)
    source.require_job()
    return replace(planned, findings=[*source.findings, *notes])


def rehearsed(source: Document | Job, target: str) -> tuple[Document | Job, list[Finding]]:
    """The job with the values that its rehearsal uses, and a note on them. Raises RsctlError."""
    from rsctl.targets.managed.rehearsal.job import complete_job

    job = source if isinstance(source, Job) else source.job
    if job is None:
        return source, []
    completed, notes = complete_job(job, target)
    return completed if isinstance(source, Job) else replace(source, job=completed), notes


def validate(job: AnyJob, target: str | None = None) -> list[Finding]:
    """All errors of a job on a target, and of each cell of its matrix."""
    source, _ = source_of(job)
    if isinstance(source, Job):
        try:
            submission = make_submission(source, target)
            return [*submission.plan.findings, *message_findings(submission.job)]
        except RsctlError as problem:
            return list(problem.findings)
    chosen = choose_target(source, target)
    _add_findings(source, chosen)
    if _has_cells(source) and not source.has_errors:
        _add_cells(source, chosen)
    if source.job is not None and not source.has_errors:
        source.add(message_findings(source.job))
    return source.findings


def message_findings(job: Job) -> list[Finding]:
    """Warnings about receivers of `notify` that get no message from this environment.

    Apprise is not imported: only `check_environment` asks whether it understands a URL.
    """
    if not job.notify:
        return []
    from rsctl.results.tracking.receivers import notify_findings

    return notify_findings(job)


def sdk_code(
    job: AnyJob, target: str | None = None, *, run_id: str | None = None, is_script: bool = False
) -> str:
    """Python code that makes the job's request by the SDK of its cloud, with a run id of its own.

    With `is_script`, the script of a target whose jobs are scripts. Raises RsctlError, also for a
    target that has no SDK, or no script.
    """
    source, _ = source_of(job)
    chosen = new_run_id(name_of(source)) if run_id is None else run_id
    submission = _submission(source, target, chosen)
    require_no_matrix(submission.job)
    info = target_info(submission.plan.target)
    if reference := info.script_code if is_script else info.sdk_code:
        code: str = import_object(reference)(submission)
        return f"{_only_first(submission)}{code}"
    if is_script:
        message = f"the jobs of target {submission.plan.target} are not scripts"
        raise RsctlError(ExitCode.USAGE, error("sdk", message, "use -o json, or target slurm"))
    message = f"target {submission.plan.target} has no SDK"
    raise RsctlError(ExitCode.USAGE, error("sdk", message, "use -o json, or a cloud's target"))


def _only_first(submission: Submission) -> str:
    """A comment for the code: it leaves out the steps that only rsctl does."""
    if not submission.alternatives:
        return ""
    others = "; ".join(str(alternative.placement) for alternative in submission.alternatives)
    return f"# For {submission.placement} only. `rsctl submit` continues with: {others}\n"


def make_submission(job: AnyJob, target: str | None = None) -> Submission:
    """The submission, with a placeholder for the run ID."""
    return _submission(source_of(job)[0], target, None)


def _submission(source: Document | Job, target: str | None, run_id: str | None) -> Submission:
    if run_id is not None:
        require_run_id(run_id)
    return make_plan(source, target_of(source, target), run_id or placeholder(name_of(source)))


def source_of(job: AnyJob) -> tuple[Document | Job, tuple[str, ...]]:
    """A document to add findings to, or a job; and its overrides."""
    if isinstance(job, Job):
        return job, ()
    file = job if isinstance(job, JobFile) else load(job, strict=False)
    return file.copy_document(), file.settings


def target_of(source: Document | Job, name: str | None) -> Target:
    """The target of this name, otherwise the job's own."""
    return get(name or source.target) if isinstance(source, Job) else choose_target(source, name)


def setting_texts(settings: Settings) -> tuple[str, ...]:
    """`{"workers.count": 8}` as `workers.count=8`. Raises RsctlError if YAML has no such value."""
    if not isinstance(settings, Mapping):
        return tuple(checked_names("set", settings))
    return tuple(f"{key}={_value_text(key, value)}" for key, value in settings.items())


def _value_text(key: str, value: object) -> str:
    if isinstance(value, PathLike):
        value = str(value)
    if isinstance(value, str) and not _QUOTED.fullmatch(value):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except TypeError as problem:
        message = f"a job file has no such value: {problem}"
        remedy = "give text, a number, a list or a mapping"
        raise RsctlError(ExitCode.USAGE, error("value", message, remedy, key)) from None


def _plain(value: object) -> object:
    """A path within a value, or a number or an array of NumPy or PyTorch. Raises TypeError."""
    if isinstance(value, PathLike):
        return str(value)
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    raise TypeError(f"type {type(value).__name__}")


def _has_cells(source: Document) -> bool:
    return source.job is not None and bool(source.job.matrix)


def _add_cells(source: Document, target: Target, rehearse: bool = False) -> None:
    """The additional findings of planning the cells of a matrix."""
    for _, cell in cells_of(source):
        if rehearse and cell.job:
            cell.job = rehearsed(cell.job, target.info.name)[0]  # type: ignore[assignment]
        _add_findings(cell, target)
        source.findings += [f for f in cell.findings if f not in source.findings]


def _add_findings(document: Document, target: Target) -> None:
    try:
        make_plan(document, target, placeholder(name_of(document)))
    except RsctlError as problem:
        if problem.exit_code != ExitCode.USAGE:
            raise
