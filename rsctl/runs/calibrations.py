"""The calibration of each target, and profiles of scripts: files in RSCTL_HOME."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec

from rsctl.atomic_file import read_json, write_file
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.profile import Profile
from rsctl.job.job import Job
from rsctl.runs.home import home, private_folder

T = TypeVar("T")


def saved_calibration(target: str) -> Calibration | None:
    """The fitted constants of a target, None if there are none or the file cannot be read."""
    return read_json(home() / "calibrations" / f"{target}.json", Calibration)


def save_calibration(target: str, calibration: Calibration) -> Path:
    """Keep the constants of a target in place of earlier ones. Raises RsctlError."""
    return _write(home() / "calibrations" / f"{target}.json", calibration)


def saved_profile(job: Job) -> Profile | None:
    """The measured profile of the script of a job with these arguments, None if there is none."""
    return read_json(home() / "profiles" / f"{_script_digest(job)}.json", Profile)


def save_profile(job: Job, profile: Profile) -> Path:
    """Store the measured profile of a job's script, replacing an earlier one. Raises RsctlError."""
    return _write(home() / "profiles" / f"{_script_digest(job)}.json", profile)


def _write(path: Path, content: object) -> Path:
    private_folder(path.parent)
    write_file(path, msgspec.json.format(msgspec.json.encode(content)))
    return path


def _script_digest(job: Job) -> str:
    """The properties that make two jobs run the same script in the same way."""
    run = job.run
    parts = [job.name, job.image.source, run.script, run.module, run.command, run.args]
    accelerator = job.workers.accelerator
    parts += [str(accelerator), str(job.workers.processes)]
    return hashlib.sha256(msgspec.json.encode(parts, enc_hook=str)).hexdigest()[:32]
