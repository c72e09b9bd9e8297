"""What Slurm 24.11 and 22.05 print when they refuse a job, and what rsctl makes of it."""

from __future__ import annotations

import pytest

from rsctl.targets.slurm.errors import refusal

FAILED = "sbatch: error: Batch job submission failed: "
HELP = 'Try "sbatch --help" for more information\n'


@pytest.mark.parametrize(
    ("text", "shown", "path"),
    [
        (
            f"unrecognized option '--no-such=1'\n{HELP}",
            "unrecognized option '--no-such=1'",
            "targets.slurm.sbatch",
        ),
        (
            f"unrecognized option '--segment=2'\n{HELP}",
            "unrecognized option '--segment=2'",
            "targets.slurm.segment",
        ),
        (
            f"{FAILED}Job dependency problem\n",
            "Batch job submission failed: Job dependency problem",
            "targets.slurm.sbatch",
        ),
        (
            f"{FAILED}Invalid license specification\n",
            "Batch job submission failed: Invalid license specification",
            "targets.slurm.licenses",
        ),
        (
            f"{FAILED}Requested node configuration is not available\n",
            "Batch job submission failed: Requested node configuration is not available",
            "workers.count",
        ),
        (
            f"{FAILED}I/O error writing script/environment to file\n",
            "Batch job submission failed: I/O error writing script/environment to file",
            None,
        ),
    ],
)
def test_a_refusal_has_the_line_that_says_why(text: str, shown: str, path: str | None) -> None:
    [finding] = refusal(text, "submit the job").findings
    assert finding.message == f"Slurm refused to submit the job: {shown}"
    assert finding.path == path
    assert finding.remedy
