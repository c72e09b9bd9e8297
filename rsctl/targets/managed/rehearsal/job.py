"""A job as it is rehearsed: options that only an account has, data, settings of the emulator.

Pure except for checks of the data and of this machine. The request stays the cloud's: only options
that the job does not have get default values, and each is named.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from rsctl.findings import Finding, error, note
from rsctl.images.package import is_packaged
from rsctl.installation import install_command
from rsctl.job.inputs import inputs_of
from rsctl.job.installed_targets import with_options, with_value
from rsctl.job.job import Job
from rsctl.job.placements import REGION
from rsctl.job.values import value_on
from rsctl.target_info import import_object, target_info
from rsctl.targets.base import Plan, Submission
from rsctl.targets.local.host import this_host
from rsctl.targets.local.oversubscription import oversubscription
from rsctl.targets.managed.emulator.clouds import emulator_of
from rsctl.targets.managed.emulator.nodes import Kind
from rsctl.targets.managed.rehearsal.buckets import bucket_folder
from rsctl.targets.managed.rehearsal.image import NEEDS_VENDOR, replacement_transport
from rsctl.targets.managed.rehearsal.settings import PACE, EmulatorSettings


class RehearsedJob(NamedTuple):
    """A job that can be planned without an account, and a note on the defaults it got, if any."""

    job: Job
    findings: list[Finding]


def complete_job(job: Job, target: str) -> RehearsedJob:
    """The job, with defaults for missing options of the account that the target needs."""
    options, emulator = target_info(target).options_of(job), emulator_of(target)
    lacking = {n: v for n, v in emulator.defaults.items() if getattr(options, n) is None}
    options = replace(options, **lacking)
    defaults = [f"targets.{target}.{name}: {value}" for name, value in lacking.items()]
    changed = with_options(job, target, options)
    if job.image.is_built and not value_on(job.image.repository, target):
        region = REGION if isinstance(options.region, list) else options.region
        repository = emulator.repository.format(region=region, name=job.name)
        defaults.append(f"image.repository: {repository}")
        everywhere = with_value(job.image.repository, target, repository)
        changed = replace(changed, image=replace(changed.image, repository=everywhere))
    if not defaults:
        return RehearsedJob(changed, [])
    message = f"the job does not set these values, and this rehearsal uses: {', '.join(defaults)}"
    return RehearsedJob(
        changed, [note("rehearsal", message, "the real cloud needs your own values")]
    )


def rehearsal_findings(submission: Submission, runner: Kind) -> list[Finding]:
    """The notes for the user on this rehearsal, and errors for missing requirements."""
    plan, job = submission.plan, submission.job
    return [
        *_transport_findings(job, plan, runner),
        *_data_findings(job, plan.target),
        *_runner_findings(job, plan, runner),
        *oversubscription(job, plan.pools, plan.world_size, this_host().cpus),
    ]


def _transport_findings(job: Job, plan: Plan, runner: Kind) -> Iterator[Finding]:
    transport = plan.image.transport
    what = (
        "containers"
        if runner == "docker"
        else ("processes of this Python, without building an image")
    )
    message = f"this is a rehearsal on this machine, in {what}, not in the cloud"
    if transport in NEEDS_VENDOR and not job.run.is_launched:
        message += f". {transport} is not available here, and nothing replaces it"
    elif transport in NEEDS_VENDOR:
        instead = replacement_transport(plan)
        message += f". {transport} is not available here: transport {instead} replaces it"
    if transport == "reduction-server" and job.run.is_launched:
        message += ", and rsctl's own reducers replace Google's"
    yield note("rehearsal", message)


def _data_findings(job: Job, target: str) -> Iterator[Finding]:
    for job_input in inputs_of(job, target):
        location = job_input.location
        folder = bucket_folder(location)
        if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
            continue
        remedy = f"put a sample of the data into {folder}"
        if is_pattern := re.search(r"[{*?\[]", location) is not None:
            if _matches(location):
                continue
            remedy = f"put at least one file there whose name matches {folder.name}"
        nothing = "no file that matches" if is_pattern else "nothing"
        yield error(
            "rehearsal-data",
            f"in a rehearsal {location} is {folder}, and {nothing} exists there",
            remedy,
            job_input.key,
        )


def _matches(location: str) -> bool:
    """Whether a file fits a pattern of names, such as gs://data/train-{000..127}.tar.

    Scripts expand such patterns by themselves; here `{...}` stands for anything.
    """
    bucket = "/".join(location.split("/")[:3])
    pattern = re.sub(r"\{[^{}/]*\}", "*", location[len(bucket) :]).strip("/")
    try:
        return any(bucket_folder(bucket).glob(pattern))
    except (ValueError, NotImplementedError):  # no pattern of Python's
        return False


def _runner_findings(job: Job, plan: Plan, runner: Kind) -> Iterator[Finding]:
    if runner == "docker":
        yield from _missing_image(job)
        return
    if job.run.package is not None:
        yield from _missing_pip()
    elif job.image.uri and not is_packaged(job):
        yield from _without_image(job)
    if job.run.launcher == "torchrun":
        yield from _missing_torch()
    elif job.run.launcher == "mpi":
        message = "mpirun treats nodes that are processes of this machine as one"
        yield error("mpi", message, "use --rehearse-with docker", "run.launcher")
    if (checks := emulator_of(plan.target).process_checks) is not None:
        yield from import_object(checks)(plan)


def _without_image(job: Job) -> Iterator[Finding]:
    """The notes for processes if rsctl does not build the job's image."""
    command, docker = job.run.command, "use --rehearse-with docker"
    started = "run.script" if job.run.script else "run.command"
    script = job.run.script or (command[0] if command else None)
    if script is None and job.run.module is None:
        message = "the job runs the image's own command, and processes do not have the image"
        yield error("image", message, f"set run.command, or {docker}", "image.uri")
        return
    message = f"processes do not have the image {job.image.uri}: they run the job's command with "
    folder = str(job.image.source or os.getcwd())
    message += f"{sys.executable} and its packages, in {folder}"
    yield note("rehearsal", message, f"{docker} to run the image", "image.uri")
    is_there = script is None or os.path.isfile(os.path.join(folder, script))
    if not is_there and (job.run.script or not shutil.which(str(script))):
        message = f"{script} does not exist on this machine, relative to {folder}"
        remedy = f"start rsctl in the folder that contains it, set image.source, or {docker}"
        yield error("rehearsal", message, remedy, started)


def _missing_image(job: Job) -> Iterator[Finding]:
    from rsctl.images.commands import run_command

    if job.image.uri and run_command(["docker", "image", "inspect", job.image.uri]).returncode:
        message = f"this machine does not have the image {job.image.uri}"
        yield error("image", message, f"docker pull {job.image.uri}", "image.uri")


def _missing_pip() -> Iterator[Finding]:
    from importlib.util import find_spec

    if find_spec("pip") is None:
        message = f"pip installs a package, and {sys.executable} has no pip"
        remedy = f"install it: {sys.executable} -m ensurepip, or use --rehearse-with docker"
        yield error("pip", message, remedy, "run.package")


def _missing_torch() -> Iterator[Finding]:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        message = f"launcher torchrun needs torch, which {sys.executable} does not have"
        remedy = f"{install_command('local')}, or use --rehearse-with docker"
        yield error("torch", message, remedy, "run.launcher")


def make_settings(
    submission: Submission, runner: Kind, behaviour: dict[str, Any]
) -> EmulatorSettings:
    """The settings of the emulator for a submission as the module `image` changes it."""
    plan, job = submission.plan, submission.job
    options, emulator = target_info(plan.target).options_of(job), emulator_of(plan.target)
    everywhere = (submission, *submission.alternatives)
    first, *more_images = dict.fromkeys(_image_of(each) for each in everywhere)
    regions = dict.fromkeys(each.placement.region for each in everywhere if each.placement.region)
    own = {name: getattr(options, name) for name in emulator.options}
    if len(regions) > 1:
        own["more_regions"] = list(regions)[1:]
    buckets = sorted({bucket for each in everywhere for bucket in _buckets_of(each)})
    return EmulatorSettings(
        emulator=emulator.emulator,
        runner=runner,
        image=first,
        more_images=more_images,
        source=str(job.image.source or os.getcwd()),
        entrypoint=[] if not job.run.is_launched else ["rsctl-launch"],
        options=own,
        behaviour={"pace": PACE, **behaviour},
        buckets=buckets,
    )


def _image_of(submission: Submission) -> str:
    recipe, tag = submission.recipe, submission.plan.image.tag
    return recipe.reference if recipe else tag or submission.job.image.uri or ""


def _buckets_of(submission: Submission) -> Iterator[str]:
    """The buckets that the job reads and writes, as gs://BUCKET."""
    job, target = submission.job, submission.plan.target
    inputs = [job_input.location for job_input in inputs_of(job, target)]
    for uri in (target_info(target).options_of(job).staging, job.outputs, job.checkpoints, *inputs):
        if uri:
            yield "/".join(uri.split("/")[:3])
