"""A job file as it was read: the job, every finding, and the positions of its keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from collections.abc import Mapping as Environ
from collections.abc import Sequence as Items
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rsctl.findings import ExitCode, Finding, RsctlError, note
from rsctl.job import checks, matrix, overrides
from rsctl.job.decode import MAX_FINDINGS, Decoder, TooMany
from rsctl.job.file_text import YamlError, read_text
from rsctl.job.gate_checks import check_gate_cells
from rsctl.job.installed_targets import complete_job, job_type_of
from rsctl.job.job import Job
from rsctl.job.other_launchers import foreign_file, script_file
from rsctl.job.units import LocalPath
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping, Node, Position, Scalar, describe, locate


class Document(Struct):
    """One job file. `job` is None if the file is not a mapping; a job with errors must not be run.

    `guessed` are key paths that a misspelled key was assumed to mean. `folder` is the folder to
    which the file's paths are relative.
    """

    path: str
    text: str = ""
    root: Mapping | None = None
    job: Job | None = None
    findings: list[Finding] = field(default_factory=list)
    guessed: set[str] = field(default_factory=set)
    folder: str = ""

    @property
    def has_errors(self) -> bool:
        """Whether the job cannot run because of a finding."""
        return any(finding.is_error for finding in self.findings)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings by key path, with their positions in the file.

        What merely follows from an error that was found before is left out: see `is_broken`. So is
        a warning or note of a matter that is now an error of the same key.
        """
        located = [self._located(f) for f in findings if not self.is_broken(f.path)]
        self.findings += [finding for finding in located if finding not in self.findings]
        refused = {(f.code, f.path) for f in located if f.is_error}
        self.findings = [f for f in self.findings if f.is_error or (f.code, f.path) not in refused]
        self.findings.sort(key=lambda f: (f.file != self.path, f.line or 0, f.column or 0))

    def is_broken(self, path: str | None) -> bool:
        """Whether there is an error at this key, above it, or at one of its own keys.

        A finding about such a value would be about the default that replaces it.
        """
        if not path:
            return False
        wrong = {finding.path for finding in self.findings if finding.is_error and finding.path}
        return any(_concerns(other, path) for other in wrong | self.guessed)

    def require_job(self) -> Job:
        """The job. Raises RsctlError with all findings if there is an error among them."""
        if self.job is None or self.has_errors:
            raise RsctlError(ExitCode.USAGE, *self.findings)
        return self.job

    def _located(self, finding: Finding) -> Finding:
        if finding.file or self.root is None:
            return finding
        mark = locate(self.root, finding.path)
        return replace(finding, file=mark.file, line=mark.line, column=mark.column)


def _concerns(wrong: str, path: str) -> bool:
    if path == wrong or path.startswith((wrong + ".", wrong + "[")):
        return True
    last_step = wrong[len(path) :] if wrong.startswith(path) else ""
    return re.fullmatch(r"\.[^.\[]+|\[\d+\]", last_step) is not None


def read(
    path: str,
    settings: Items[str] = (),
    environ: Environ[str, str] | None = None,
    text: str | None = None,
    folder: str | None = None,
) -> Document:
    """Read a job file with every mistake in it as a finding; never raises for its content.

    `settings` are `--set` texts, `environ` has the values of `${VAR}` (default: the process's own).
    `text` is the file's content, if it has been read before. Its paths are relative to `folder`,
    by default the file's own.
    """
    own = os.path.dirname(os.path.abspath(path)) if os.path.isfile(path) else os.getcwd()
    document = Document(path, folder=folder or own)
    try:
        document.text = _read_job(path) if text is None else text
        root = parse(document.text, path, document.findings)
        root = _mapping(root, path)
        _refuse_foreign_file(root)
        root = overrides.apply(root, list(settings), document.findings)
    except YamlError as problem:
        document.findings += problem.findings
        return document
    _decode_and_check(document, root, environ)
    if document.job is not None:  # a single cell of it has no matrix
        document.add(check_gate_cells(document.job, root))
    return document


def cells_of(
    document: Document, environ: Environ[str, str] | None = None
) -> list[tuple[dict[str, Any], Document]]:
    """Each cell of the matrix: its values by key path, and the job with them, without a matrix.

    A job without a matrix is one cell without values. The document must have no errors.
    """
    root = document.root
    if root is None:
        return []
    plain = Mapping(root.mark, {k: v for k, v in root.entries.items() if k != "matrix"})
    if document.job is not None and not document.job.matrix:
        return [({}, document)]
    found = []
    for cell in matrix.cells(root):
        tree = plain
        for key, node in cell.items():
            tree = overrides.override(tree, key, node)
        document_of_cell = Document(document.path, document.text, folder=document.folder)
        _decode_and_check(document_of_cell, tree, environ)
        found.append(({key: matrix.plain(node) for key, node in cell.items()}, document_of_cell))
    return found


def _decode_and_check(document: Document, root: Mapping, environ: Environ[str, str] | None) -> None:
    document.root = root
    given = os.environ if environ is None else environ
    job_type = job_type_of(root)
    decoder, problems = _decode(document, root, Decoder(job_type, given, document.folder))
    if any(f.is_error for f in (*decoder.findings, *problems)) and job_type is not complete_job():
        # What can be suggested instead may be a key or a value of any target.
        decoder, problems = _decode(document, root, Decoder(complete_job(), given, document.folder))
    document.findings += decoder.findings
    document.guessed = decoder.guessed
    document.add(problems)
    if document.job is not None:
        document.job = _with_source(document.job, document.folder)
        document.add(checks.check(document.job, document.is_broken))


def _decode(document: Document, root: Mapping, decoder: Decoder) -> tuple[Decoder, list[Finding]]:
    """Set the document's job. The decoder with its findings, and findings beside these."""
    problems: list[Finding] = []
    try:
        document.job = decoder.decode_root(root)
        problems += matrix.check(root, decoder)
        problems += _literal_secrets(root)
    except TooMany:
        problems.append(note("too-many", f"only the first {MAX_FINDINGS} mistakes are shown"))
    return decoder, problems


def _literal_secrets(root: Mapping) -> list[Finding]:
    """Warnings for secrets among the arguments and the targets' options of the file."""
    if not {"run", "chief", "roles", "targets"} & root.entries.keys():
        return []
    from rsctl.job.secret_values import literal_secrets

    return list(literal_secrets(root))


def _with_source(job: Job, base: str) -> Job:
    """`image.source` is the file's folder unless it is given or the image is used without
    changes.
    """
    if job.image.uri or job.image.source:
        return job
    return replace(job, image=replace(job.image, source=LocalPath(base)))


def _read_job(path: str) -> str:
    """The text of a job file. Raises YamlError, also for a script."""
    text = read_text(path)
    what, remedy = script_file(path)
    if what:
        raise YamlError(Position(path, 1, 1), f"this is {what}, not a job file", remedy)
    return text


def _refuse_foreign_file(root: Mapping) -> None:
    """Raises YamlError for a file of another program: one error instead of one for each key."""
    key, what = foreign_file(root.entries)
    run = root.entries.get("run")
    if key and (run is None or not isinstance(run.value, Mapping)):
        message = f"this is {what}, not a job file"
        remedy = "write a job file by the command that it starts: rsctl init COMMAND"
        raise YamlError(root.entries[key].key.mark, message, remedy)


def _mapping(root: Node | None, path: str) -> Mapping:
    if isinstance(root, Mapping):
        return root
    if root is None or (isinstance(root, Scalar) and root.value is None):
        mark, message = Position(path, 1, 1), "the file is empty"
    else:
        mark, message = root.mark, f"expected a mapping, got {describe(root)}"
    raise YamlError(mark, message, "start with `rsctl init`, or with the keys name: and run:")
