"""Processes under another environment's Python, which does not have rsctl and stays without it.

rsctl's runtime, which needs the standard library only, is in the run's folder and is found by
PYTHONPATH; the job cannot see the rest of rsctl's own environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from rsctl.findings import Finding, error
from rsctl.job.job import Job
from rsctl.job.options import process_options
from rsctl.runs.environment import own_environment
from rsctl.runs.home import run_directory
from rsctl.targets.variables import user_env

_FOLDER = "runtime"
_KEY = "targets.process.python"
_OLDEST = (3, 10)
_SECONDS = 60.0
_PROBE = """\
import sys
sys.path.pop(0)  # the source, which may have files named as modules
import importlib.util
print(*sys.version_info[:2], importlib.util.find_spec("torch") is not None)
"""


def python_env(job: Job, run: str) -> dict[str, Optional[str]]:
    """The variables by which a job's processes run under its own Python; none without one.

    That Python's programs come first in PATH, so that `python` is the same one in a command.
    """
    python = process_options(job).python
    if python is None:
        return {}
    own = user_env(job)
    path = own.get("PATH") or os.environ.get("PATH", os.defpath)
    env: dict[str, Optional[str]] = {"PATH": f"{Path(python).parent}:{path}"}
    if job.run.is_launched:
        inherited = own.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        folders = [runtime_folder(run), inherited]
        env["PYTHONPATH"] = ":".join(folder for folder in folders if folder)
    return env


def runtime_folder(run: str) -> str:
    """Where the parts of rsctl for the job's own Python are."""
    return str(run_directory(run) / _FOLDER)


def write_runtime(job: Job, run: str) -> None:
    """Write the parts of rsctl for the job's own Python into the run's folder. Raises OSError."""
    if process_options(job).python is None or not job.run.is_launched:
        return
    folder = Path(runtime_folder(run))
    from rsctl.images.runtime_files import runtime_entries

    for entry in runtime_entries(""):
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.open() as content, path.open("wb") as file:
            shutil.copyfileobj(content, file)


def path_findings(job: Job) -> Iterator[Finding]:
    """Whether the job's own Python exists, as far as its file shows."""
    python = process_options(job).python
    if python is None or (os.path.isfile(python) and os.access(python, os.X_OK)):
        return
    inside = Path(python) / "bin" / "python"
    remedy = "give an interpreter, such as .venv/bin/python"
    if inside.is_file():
        remedy = f"give the interpreter in it: {inside}"
    yield error("python", f"{python} is not a program", remedy, _KEY)


def probe(job: Job) -> list[Finding]:
    """Whether the job's own Python runs, is new enough, and has torch if the launcher is
    torchrun.
    """
    python = str(process_options(job).python)
    try:
        answer = subprocess.run(
            [python, "-c", _PROBE],
            cwd=job.image.source,
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        ).stdout
        words = answer.splitlines()[-1].split()  # a sitecustomize.py may print more before it
        version, has_torch = (int(words[0]), int(words[1])), words[2] == "True"
    except (ValueError, IndexError):
        message = f"{python} is not a Python interpreter"
        return [error("python", message, "give an interpreter, such as .venv/bin/python", _KEY)]
    except (OSError, subprocess.SubprocessError) as problem:
        failed = isinstance(problem, subprocess.CalledProcessError) and problem.stderr.strip()
        said = (failed or str(problem)).splitlines()[-1]
        message = f"cannot run {python} as a Python interpreter: {said[:200]}"
        return [error("python", message, "give an interpreter, such as .venv/bin/python", _KEY)]
    if version < _OLDEST:
        message = f"{python} is Python {version[0]}.{version[1]}; the launcher needs 3.10 or newer"
        return [error("python", message, "use a newer one, or use target compose", _KEY)]
    if job.run.launcher == "torchrun" and not has_torch:
        message = f"launcher torchrun needs torch, which {python} does not have"
        remedy = f"{python} -m pip install torch, or use run.launcher: once"
        return [error("torch", message, remedy, "run.launcher")]
    return []
