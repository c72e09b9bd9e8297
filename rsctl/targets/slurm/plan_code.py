"""The script of a plan with its package, which `sbatch` takes without rsctl."""

from __future__ import annotations

from rsctl.targets.base import Submission
from rsctl.targets.slurm.payload import packed
from rsctl.targets.slurm.script import with_package


def code(submission: Submission) -> str:
    """The whole script. Raises RsctlError if its files have changed."""
    request = submission.plan.request
    return with_package(request["script"], request["package"], packed(submission))
