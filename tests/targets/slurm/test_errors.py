"""What Slurm 24.11 and 22.05 print when they refuse a job, and what rsctl makes of it."""

from __future__ import annotations

import pytest

from rsctl.targets.slurm.errors import refusal

FAILED = "sbatch: error: Batch job submission failed: "
HELP = 'Try "sbatch --help" for more information\n'
DOING = "submit the job"


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("unrecognized option '--no-such=1'", "option", "targets.slurm.sbatch"),
        ("unrecognized option '--segment=2'", "option", "targets.slurm.segment"),
        (f"{FAILED}Job dependency problem", "dependency", "targets.slurm.sbatch"),
        (f"{FAILED}Invalid license specification", "license", "targets.slurm.licenses"),
        (f"{FAILED}Requested node configuration is not available", "nodes", "workers.count"),
        (f"{FAILED}Node count specification invalid", "nodes", "workers.count"),
        (f"{FAILED}I/O error writing script/environment to file", "spool", None),
        (f"{FAILED}Invalid partition name specified", "partition", "targets.slurm.partition"),
        (
            f"{FAILED}Required partition not available (inactive or drain)",
            "partition",
            "targets.slurm.partition",
        ),
        (
            f"{FAILED}Invalid account or account/partition combination specified",
            "account",
            "targets.slurm.account",
        ),
        (f"{FAILED}Invalid qos specification", "qos", "targets.slurm.qos"),
        (
            f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
            "time-limit",
            "limits.timeout",
        ),
        (f"{FAILED}Requested reservation is invalid", "reservation", "targets.slurm.reservation"),
        (f"{FAILED}Invalid feature specification", "constraint", "targets.slurm.constraint"),
        (
            f"{FAILED}Invalid generic resource (gres) specification",
            "accelerator",
            "workers.accelerator",
        ),
        (
            f"{FAILED}Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
            "limit",
            None,
        ),
        (
            f"{FAILED}Pathname of a file, directory or other parameter too long",
            "script-size",
            "image.source",
        ),
        (f"{FAILED}Access/permission denied", "permission", None),
    ],
)
def test_a_refusal_has_the_line_that_says_why(text: str, code: str, path: str | None) -> None:
    [finding] = refusal(f"{text}\n{HELP if text.startswith('unrec') else ''}", DOING).findings
    assert finding.message == f"Slurm refused to {DOING}: {text.removeprefix('sbatch: error: ')}"
    assert (finding.code, finding.path) == (code, path)
    assert finding.remedy


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sbatch: error: no more jobs today\nsbatch: see the manual\n", "no more jobs today"),
        ("\nclosed for maintenance\n\n", "closed for maintenance"),
        ("", "no reason given"),
    ],
)
def test_a_refusal_that_is_not_known(text: str, shown: str) -> None:
    [finding] = refusal(text, DOING).findings
    assert (finding.code, finding.message) == ("slurm", f"Slurm refused to {DOING}: {shown}")
