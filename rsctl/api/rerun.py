"""Submits a run again: the same job file, source, image, arguments, variables and placements."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rsctl.api.arguments import check_text
from rsctl.api.gate_against import job_of_commit
from rsctl.api.job_file import JobFile
from rsctl.api.origins import make_origin
from rsctl.api.prune.uses import used_runs
from rsctl.api.reconcile import OnOutdated, ignore
from rsctl.api.results import planned_locations
from rsctl.api.run_list import run as find_run
from rsctl.api.submission import PreparedRun, prepare
from rsctl.bench.checkouts import check_out
from rsctl.bench.differences import Difference, differences
from rsctl.bench.fingerprint import Fingerprint, plan_print, shown_differences
from rsctl.bench.records import Benches
from rsctl.findings import ExitCode, Finding, RsctlError, counted, error, note, warning
from rsctl.images.package import digest_in
from rsctl.job.document import read
from rsctl.job.kept_text import kept_text
from rsctl.job.secret_names import HIDDEN, public_variables
from rsctl.runs.folder import RunFolder
from rsctl.runs.home import run_directory
from rsctl.runs.ids import new_run_id
from rsctl.runs.origin import Origin, origin_of
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal
from rsctl.targets.managed.rehearsal.settings import PACE, emulator_settings

_CODE = "rerun"
_DIRTY = "-dirty"
_MOST = 10


def prepare_rerun(reference: str, *, on_outdated: OnOutdated = ignore) -> PreparedRun:
    """Plan the job of a run again, exactly; its `submit` sends it.

    The source is the commit of the run if the folder has changed since, and an image is the
    run's own by digest. The new run starts from the beginning, not from checkpoints. Its `findings`
    name all that is not as it was. Raises RsctlError if the job of the run is not stored, or cannot
    be planned.
    """
    run = _find_run(reference, on_outdated)
    _require_own_job(run)
    origin = origin_of(run.run) or Origin()
    text = _text_of(run, origin)
    folder = origin.folder or os.getcwd()
    if not Path(folder).is_dir():
        message = f"the folder of the job no longer exists: {folder}"
        raise _refused(message, "restore it; relative paths of the job file lead from there")
    run_id, path = new_run_id(run.name), origin.file or "-"
    settings, findings = _without_checkpoints(run, run_id)
    if not origin.folder:
        message = f"the folder of the job file is not recorded: relative paths lead from {folder}"
        findings.append(warning(_CODE, message))
    file = JobFile(read(path, settings, text=text, folder=folder), settings)
    prepared = _prepare(file, run, run_id)
    changed = _changed(run, origin, prepared)
    if origin.commit and any(map(_is_of_source, changed)):
        commit, is_dirty = origin.commit.removesuffix(_DIRTY), origin.commit.endswith(_DIRTY)
        try:
            of_commit = _of_commit(commit, folder, path, text, settings)
            at_commit = _prepare(of_commit, run, run_id)
        except RsctlError as problem:
            message = f"the source is as it is now: {problem.summary}"
            findings.append(warning(_CODE, message, f"restore commit {commit[:12]}, or the files"))
        else:
            unlike = _changed(run, origin, at_commit)
            if not is_dirty or not any(map(_is_of_source, unlike)):
                prepared = replace(at_commit, file=origin.file, folder=folder)
                changed = unlike
                findings.append(_commit_note(commit, prepared))
    prepared = _with_image(prepared, run)
    findings += _unlike(run, origin, changed, prepared)
    return replace(prepared, findings=(*prepared.findings, *findings))


def _find_run(reference: str, on_outdated: OnOutdated) -> RunRecord:
    """The run. Raises RsctlError, which names the bench if the reference is to a bench."""
    check_text("reference", reference)
    try:
        return find_run(reference, on_outdated=on_outdated).record
    except RsctlError:
        with closing(Store()) as store:
            bench = Benches(store).get(reference)
        if bench is None:
            raise
    message = f"{bench.bench} is a bench, and rerun takes one run of a job without a matrix"
    raise _refused(message, f"run the bench again: {bench.command('--new')}")


def _of_commit(
    commit: str, folder: str, path: str, text: str, settings: tuple[str, ...]
) -> JobFile:
    """The job file among the files of a commit. Raises RsctlError if the commit is missing."""
    checkout = check_out(commit, folder, "check out")
    job_path = Path(folder).resolve() / Path(path).name
    return job_of_commit(checkout.place_of(job_path), settings, checkout, text)


def _commit_note(commit: str, prepared: PreparedRun) -> Finding:
    """The note on a commit: a checkout has no files that git ignores, but an image may have."""
    without = "" if prepared.plan.image.tag else ", without the files that git does not track"
    return note(_CODE, f"the source is commit {commit[:12]}, as it was{without}")


def _is_of_source(difference: Difference) -> bool:
    return not difference.name.startswith("package ")


def _prepare(file: JobFile, run: RunRecord, run_id: str) -> PreparedRun:
    emulated = emulator_settings(run.run)
    rehearsal = None
    if emulated is not None:
        behaviour = {n: v for n, v in emulated.behaviour.items() if (n, v) != ("pace", PACE)}
        rehearsal = Rehearsal(emulated.runner, behaviour)
    return prepare(file, run.target, run_id=run_id, rehearse=rehearsal)


def _require_own_job(run: RunRecord) -> None:
    with closing(Store()) as store:
        bench = Benches(store).of_run(run.run)
    if bench is not None:
        message = f"{run.run} is one run of {bench.bench}, which sets the values of its cell"
        raise _refused(message, f"run the bench again: {bench.command('--new')}")
    if run.spec is None:
        message = f"the job file of {run.run} is not stored"
        remedy = "rerun takes runs of a job file, sent by rsctl submit: submit the job itself"
        raise _refused(message, remedy)


def _text_of(run: RunRecord, origin: Origin) -> str:
    """The text of the job file; with a secret in it, from the file itself. Raises RsctlError."""
    text = run.spec or ""
    if any(HIDDEN in setting for setting in run.settings):
        message = f"a --set of {run.run} had a secret, which rsctl does not store"
        raise _refused(message, "submit the job file with the same --set")
    if HIDDEN not in text:
        return text
    with suppress(OSError, UnicodeDecodeError):
        current = Path(origin.file).read_text(encoding="utf-8")
        if kept_text(current) == text:
            return current
    message = f"the job file of {run.run} had a secret, which rsctl does not store"
    raise _refused(message, "submit the job file; write the secret as ${VAR} in run.env")


def _without_checkpoints(run: RunRecord, run_id: str) -> tuple[tuple[str, ...], list[Finding]]:
    """The overrides of a run with other checkpoints, so that the job does not continue from its.

    The new location is never in the folder of another run, with which it would be removed.
    """
    location = planned_locations(run).get("checkpoints", "")
    kept = tuple(text for text in run.settings if not text.startswith("checkpoints="))
    is_default = len(kept) == len(run.settings) and run.run in location
    if not location or is_default:
        return tuple(run.settings), []
    new_location = f"{location.rstrip('/').removesuffix(f'-{run.run}')}-{run_id}"
    if used_runs([location], is_everything=True):
        new_location = str(run_directory(run_id) / "checkpoints")
    message = "the job starts from the beginning: its checkpoints are in "
    message += f"{new_location}, not in {location}"
    return (*kept, f"checkpoints={new_location}"), [note(_CODE, message)]


def _changed(run: RunRecord, origin: Origin, prepared: PreparedRun) -> list[Difference]:
    """The files, packages and image that are not as they were."""
    plan = prepared.plan
    with suppress(OSError):
        now = make_origin(prepared.submission, prepared.file, prepared.folder)
        sent = digest_in(run.plan.get("request")), digest_in(plan.request)
        before = {**origin.content, "image": (run.plan.get("image") or {}).get("tag")}
        before["source and runtime"] = sent[0]
        after = {**now.content, "image": plan.image.tag, "source and runtime": sent[1]}
        return shown_differences(Fingerprint(shown=before), Fingerprint(shown=after))
    return []


def _with_image(prepared: PreparedRun, run: RunRecord) -> PreparedRun:
    """The plan with the run's own image, where that is known by its digest."""
    reference = RunFolder(run.run).image()
    submission = prepared.submission
    if prepared.rehearsal or reference is None or "@" not in reference:
        return prepared
    tag = (run.plan.get("image") or {}).get("tag")
    image = msgspec.structs.replace(submission.plan.image, tag=tag, reference=reference)
    plan = msgspec.structs.replace(submission.plan, image=image)
    return replace(prepared, submission=msgspec.structs.replace(submission, plan=plan))


def _unlike(
    run: RunRecord, origin: Origin, changed: Iterable[Difference], prepared: PreparedRun
) -> Iterator[Finding]:
    """All in which the new run is not the run itself, or may not be."""
    submission = prepared.submission
    plan, job = submission.plan, submission.job
    found = [d for d in changed if d.name != "image" or plan.image.reference is None]
    found += differences(_sent(run.target, run.plan), _sent(plan.target, msgspec.to_builtins(plan)))
    found = list(dict.fromkeys(found))
    for difference in found[:_MOST]:
        yield warning(_CODE, f"not as it was: {difference}")
    if more := len(found[_MOST:]):
        what = counted(more, "more file, package or value", "more files, packages or values")
        yield warning(_CODE, f"not as it was: {what}")
    if origin.commit and origin.commit.endswith(_DIRTY) and any(map(_is_of_source, changed)):
        message = f"the source had changes that commit {origin.commit[:12]} does not have"
        yield warning(_CODE, message, "restore these files to run them again")
    names = sorted({*submission.secrets, *(n for n, value in plan.env.items() if value is None)})
    if names:
        message = f"secrets have the values of today's environment: {', '.join(names)}"
        yield note(_CODE, message)
    if job.image.uri and "@" not in job.image.uri and plan.image.reference is None:
        message = f"{job.image.uri} is a tag, which may be another image now"
        yield warning(_CODE, message, "name the image by its digest: image.uri: NAME@sha256:...")
    if job.limits.spot:
        yield note(_CODE, "spot machines have the price and capacity of today")


def _sent(target: str, plan: dict[str, Any]) -> dict[str, Any]:
    """The values of a plan that a rerun must have again, by name, less the run's own ID."""
    env = public_variables(plan.get("env") or {})
    variables = {f"env.{n}": "(secret)" if value is None else value for n, value in env.items()}
    values = {**plan_print(target, plan), **variables}
    run = plan.get("run", "")
    return {
        name: value.replace(run, "RUN") if isinstance(value, str) else value
        for name, value in values.items()
        if name != "env.RSCTL_CHECKPOINT_DIR"
    }


def _refused(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error(_CODE, message, remedy))
