"""The baseline of a paired gate: a commit in a folder of its own, or another job file."""

from __future__ import annotations

import os
from pathlib import Path

from rsctl.api.bench_run import PreparedBench, prepare_bench
from rsctl.api.job_file import JobFile, load
from rsctl.bench.checkouts import Checkout, check_out
from rsctl.bench.paired_plan import PairedPlan, pair_plans
from rsctl.bench.prepare import BenchPlan, reopen, require_real, stored_settings
from rsctl.bench.records import Against, BenchRecord
from rsctl.findings import ExitCode, Finding, RsctlError, error, note, warning
from rsctl.job.document import Document, read
from rsctl.job.options import process_options
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal

_PYTHON = "targets.process.python"


def pair_with(
    candidate: PreparedBench, against: str | os.PathLike[str], target: str | None = None
) -> tuple[PreparedBench, PairedPlan]:
    """The bench of a candidate and its baseline, and its plan. Raises RsctlError.

    `against` is a git ref of the repository that the candidate's job file is in, or the path of a
    job file. The candidate's settings hold for both.
    """
    path = os.fspath(against)
    if not path:
        finding = error("against", "--against is empty", "give a git ref or the path of a job file")
        raise RsctlError(ExitCode.USAGE, finding)
    if is_job_file(path):
        job = load(path, set=candidate.job.settings, strict=False)
        about, notes = Against(given=path, file=os.path.abspath(path)), list[Finding]()
    else:
        job, about, notes = _of_ref(candidate.job, path)
    rehearsal = candidate.plan.rehearsal
    baseline = _prepared(job, about, target, rehearsal.given if rehearsal else None)
    if about.commit is not None:
        own = next(f for f in Path(about.file).parents if f.name == about.commit)
        require_own_source(baseline, own, "give a job file with other source: --against FILE")
    plan = pair_plans(candidate.plan, baseline.plan, about)
    known = [f for f in baseline.findings if f not in candidate.findings]
    findings = (*candidate.findings, *known, *notes, *_unpaired(plan))
    return PreparedBench(candidate.job, plan, findings), plan


def reopen_pairs(bench: BenchRecord) -> tuple[PreparedBench, PairedPlan]:
    """A recorded paired bench, to run more of it. Raises RsctlError if a side has changed."""
    against = bench.against
    if against is None:
        raise ValueError(f"{bench.bench} is not paired")
    require_real(bench)
    found = pair_with(_candidate_of(bench), against.commit or against.file, bench.target)
    if found[1].definition != bench.definition:
        message = f"the source, image or environment of {bench.bench} has changed since it started"
        remedy = "restore it, or measure it again: rsctl gate JOB --against REF"
        raise RsctlError(ExitCode.USAGE, error("bench", message, remedy))
    return found


def reopen_own(bench: BenchRecord) -> BenchPlan:
    """The job of a recorded bench; of a paired bench that of its candidate. Raises RsctlError if
    it has changed since the bench started.
    """
    if bench.against is None:
        return reopen(bench)
    reopen_pairs(bench)
    return _candidate_of(bench).plan


def _candidate_of(bench: BenchRecord) -> PreparedBench:
    return prepare_bench(load(bench.file, set=stored_settings(bench), strict=False), bench.target)


def is_job_file(against: str) -> bool:
    """Whether it is the path of a job file; otherwise it is a git ref."""
    is_named = against.endswith((".yaml", ".yml")) and not against.startswith("refs/")
    return is_named or os.path.isfile(against)


def _of_ref(candidate: JobFile, ref: str) -> tuple[JobFile, Against, list[Finding]]:
    """The job file of a ref; the candidate's, with the files of the ref, if it has none."""
    if candidate.path == "-":
        message = "--against REF needs a job file: rsctl reads the same file of the ref"
        raise RsctlError(
            ExitCode.USAGE, error("against", message, "give the path of the file instead of -")
        )
    own = Path(candidate.path).resolve()
    checkout = check_out(ref, str(own.parent))
    path = checkout.place_of(own)
    about = Against(given=ref, commit=checkout.commit, file=str(path))
    notes, text = [], None
    if not path.is_file():
        text = candidate.text
        message = (
            f"{about.label} does not have {own.relative_to(checkout.top)}: the baseline runs its "
            "files by the job file of the working tree"
        )
        notes.append(warning("against", message))
    return job_of_commit(path, candidate.settings, checkout, text), about, notes


def job_of_commit(
    path: Path, settings: tuple[str, ...], checkout: Checkout, text: str | None = None
) -> JobFile:
    """The job file among the files of a commit. It runs by the Python of the working tree where git
    does not track that. Raises RsctlError for a link to a file that is not in the commit.
    """
    if not path.resolve().is_relative_to(checkout.folder.resolve()):
        message = f"{path.relative_to(checkout.folder)} of the commit links to a file outside of it"
        remedy = "commit the job file itself, or give the path of a job file"
        raise RsctlError(ExitCode.USAGE, error("against", message, remedy))
    document = _read(path, settings, text)
    python = _shared_python(document, checkout)
    if python is not None:
        settings = (*settings, f"{_PYTHON}={python}")
        document = _read(path, settings, text)
    return JobFile(document, settings)


def require_own_source(prepared: PreparedBench, folder: Path, remedy: str) -> None:
    """Raise RsctlError if a job reads source that is not among the files of its commit."""
    for cell in prepared.plan.cells:
        source = cell.submission.job.image.source
        if source and not Path(source).resolve().is_relative_to(folder.resolve()):
            message = f"it is not in the repository: all commits would run {source}"
            raise RsctlError(ExitCode.USAGE, error("against", message, remedy, "image.source"))


def _read(path: Path, settings: tuple[str, ...], text: str | None) -> Document:
    return read(str(path), settings, text=text, folder=str(path.parent))


def _shared_python(document: Document, checkout: Checkout) -> str | None:
    """The Python of the working tree, where git does not track it and a checkout has no copy."""
    if document.job is None:
        return None
    python = process_options(document.job).python
    if python is None or not Path(python).is_relative_to(checkout.folder):
        return None
    own = checkout.top / Path(python).relative_to(checkout.folder)
    return str(own) if own.exists() and not os.path.lexists(python) else None


def _prepared(
    job: JobFile, about: Against, target: str | None, rehearse: Rehearsal | None
) -> PreparedBench:
    """The baseline's bench. Raises RsctlError that says which job file its findings are of."""
    try:
        return prepare_bench(job, target, rehearse=rehearse)
    except RsctlError as problem:
        message = f"this is about the baseline, {about.label}: {about.file}"
        raise RsctlError(problem.exit_code, *problem.findings, note("against", message)) from None


def _unpaired(plan: PairedPlan) -> list[Finding]:
    """A warning for cells that one side alone has."""
    count = len(plan.against.unpaired)
    if not count:
        return []
    cells = "1 cell of the matrix is" if count == 1 else f"{count} cells of the matrix are"
    message = f"{cells} in one of the two job files only: not run, and the gate cannot pass"
    return [warning("against", message)]
