"""Known errors of Slurm's commands and of slurmrestd, and their remedies."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from rsctl.findings import ExitCode, RsctlError, error

UNANSWERED = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection (refused|timed out|reset)|Socket timed out"
    r"|Zero Bytes were transmitted|controller in (standby|backup) mode"
    r"|Communication connection failure"
    r"|Transport endpoint is not connected|Unexpected message received|Slurm backup controller",
)
"""Texts for which the controller gave no answer: what was asked for may have happened."""

NO_JOB = re.compile(r"Invalid job id|invalid job id", re.IGNORECASE)
ENDED = re.compile(r"Job/step already completing or completed", re.IGNORECASE)


class _Known(NamedTuple):
    code: str
    pattern: str
    remedy: str
    path: Optional[str] = None


_KNOWN = (
    _Known(
        "partition",
        r"[Ii]nvalid partition name|partition.*(does not exist|not valid)"
        r"|Required partition not available",
        "`sinfo -s` lists the partitions and whether they are up",
        "targets.slurm.partition",
    ),
    _Known(
        "account",
        r"[Ii]nvalid account|[Uu]nspecified account",
        "`sacctmgr show associations user=$USER` lists your accounts",
        "targets.slurm.account",
    ),
    _Known("qos", r"Invalid qos", "`sacctmgr show qos` lists them", "targets.slurm.qos"),
    _Known(
        "time-limit",
        r"Requested time limit is invalid|time limit.*(exceed|partition)",
        "`sinfo -o '%P %l'` shows the limits of the partitions: set a shorter limits.timeout, or "
        "another targets.slurm.partition",
        "limits.timeout",
    ),
    _Known(
        "reservation",
        r"(Requested|Invalid) reservation|reservation is invalid",
        "`scontrol show reservation` lists them",
        "targets.slurm.reservation",
    ),
    _Known(
        "constraint",
        r"Invalid feature specification",
        "`sinfo -o '%n %f'` lists the features of the nodes",
        "targets.slurm.constraint",
    ),
    _Known(
        "accelerator",
        r"Invalid generic resource|invalid gres|Invalid Trackable RESource",
        "`sinfo -o '%n %G'` lists the GPUs of the nodes: set targets.slurm.gpu_type to their name",
        "workers.accelerator",
    ),
    _Known(
        "nodes",
        r"Node count specification invalid|More processors requested than permitted"
        r"|Requested node configuration is not available"
        r"|Requested partition configuration not available"
        r"|Memory specification can not be satisfied",
        "`sinfo -N -o '%N %P %T %c %m %G %f'` shows the CPUs, memory, GPUs and features of each "
        "node: ask for fewer nodes, ask for less of each node, or exclude fewer nodes",
        "workers.count",
    ),
    _Known(
        "license",
        r"Invalid license",
        "`scontrol show licenses` lists them",
        "targets.slurm.licenses",
    ),
    _Known(
        "limit",
        r"Job violates accounting/QOS policy|QOS\w*Limit|AssocMax|MaxSubmitJob",
        "`sacctmgr show associations user=$USER` shows the limits: wait for other jobs to end, or "
        "ask for less",
    ),
    _Known(
        "script-size",
        r"(?i:script is too large)|Pathname of a file, directory or other parameter too long",
        "list files that the script does not need in .dockerignore",
        "image.source",
    ),
    _Known(
        "permission",
        r"Access/permission denied|User not found on host|Invalid user id|[Aa]uthentication",
        "check that your account exists on the cluster; for slurmrestd get a new token: "
        "scontrol token",
    ),
    _Known(
        "dependency",
        r"Job dependency problem",
        "`squeue --me` lists your jobs: --dependency must name one that exists",
        "targets.slurm.sbatch",
    ),
    _Known(
        "option",
        r"unrecognized option.*--segment",
        "remove it: --segment needs Slurm 23.11",
        "targets.slurm.segment",
    ),
    _Known(
        "option",
        r"unrecognized option|invalid option|ambiguous|Invalid --",
        "remove the option, which this version of Slurm does not have",
        "targets.slurm.sbatch",
    ),
    _Known(
        "spool",
        r"No space left on device|I/O error writing script|Slurm(d)? could not|save job",
        "the spool of the Slurm controller is full: tell the cluster's administrators",
    ),
)


def refusal(text: str, doing: str) -> RsctlError:
    """The error for a text of Slurm, with what is known of it. `doing` is what was asked for."""
    for known in _KNOWN:
        if match := re.search(known.pattern, text):
            start = text.rfind("\n", 0, match.start()) + 1
            message = f"Slurm refused to {doing}: {first_line(text[start:].partition(chr(10))[0])}"
            finding = error(known.code, message, known.remedy, known.path)
            return RsctlError(ExitCode.REFUSED, finding)
    finding = error("slurm", f"Slurm refused to {doing}: {first_line(text)}", None)
    return RsctlError(ExitCode.REFUSED, finding)


def first_line(text: str) -> str:
    """The last line that names an error, without the name of the command."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    shown = errors[-1] if errors else "no reason given"
    return re.sub(r"^(\w+: )?(error: )?", "", shown)[:300]
