"""The commands to type after a run has ended."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from rsctl.api import Run
from rsctl.cli.views.results import is_empty
from rsctl.findings import JobState
from rsctl.job.env_checks import typed_setting, without_secret
from rsctl.job.shell_words import path_word
from rsctl.runs.home import is_rehearsed
from rsctl.runs.origin import origin_of


def next_commands(run: Run, has_files: bool = True, resume: str = "") -> str:
    """The commands that show more of a run; `has_files`: whether its files are still to be fetched;
    `resume`: the command that continues from its checkpoints.

    Leaves out commands that would show nothing.
    """
    parts = []
    if run.record.first_failure is not None:
        parts.append(f"its log: rsctl logs --failed {run.id}")
    elif run.state is not JobState.SUCCEEDED:
        parts.append(f"its log: rsctl logs {run.id}")
    parts.append(f"report: rsctl report {run.id}")
    if any(statistics["count"] > 1 for statistics in run.summary().values()):
        parts.append(f"charts: rsctl metrics --plot {run.id}")
    if has_files and not all(map(is_empty, run.locations().values())):
        parts.append(f"its files: rsctl get {run.id}")
    shown = "   ".join(parts)
    if not resume or not run.has_checkpoints():
        return shown
    is_done = run.state is JobState.SUCCEEDED  # then the same command has no steps left
    return f"{shown}\nresume{', if you set more steps' * is_done}: {resume}"


def resume_command(
    run: Run,
    job: str,
    target: str | None,
    workers: int | None,
    arguments: Sequence[str],
    rehearsal: Sequence[str],
) -> str:
    """The command that submits the job of a run again, from its checkpoints; `rehearsal` are the
    options by which it was rehearsed.
    """
    path = "JOB" if job == "-" else path_word(job)
    words = ["rsctl", "submit", path, "--resume", run.id]
    words += ["--target", target] if target else []
    words += rehearsal
    words += ["--workers", str(workers)] if workers else []
    for setting in run.record.settings:
        words += [] if setting.startswith("checkpoints=") else ["--set", typed_setting(setting)]
    return shlex.join([*words, *(["--", *map(without_secret, arguments)] if arguments else [])])


def recorded_resume_command(run: Run, rehearsal: Sequence[str] = ()) -> str:
    """The command as `resume_command`, by the record of a run: JOB stands for a script or a job
    from standard input. Empty for a rehearsed run without its options.
    """
    origin = origin_of(run.id)
    if origin is None or (is_rehearsed(run.id) and not rehearsal):
        return ""
    job = origin.file if os.path.isfile(origin.file) else "-"
    return resume_command(run, job, run.record.target, None, (), rehearsal)
