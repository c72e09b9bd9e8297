"""The key `profile` in a plan: the variables of the nodes, and findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.node.rank_profiler import RANKS, STEPS, TOOL
from rsctl.targets.launch_command import unlaunched

if TYPE_CHECKING:
    from rsctl.targets.base import Plan

_KEY = "profile"


def profile_env(job: Job) -> dict[str, Optional[str]]:
    """The variables of the workers for `profile`; none without it."""
    profile = job.profile
    if profile is None or not job.run.is_launched:
        return {}
    env: dict[str, Optional[str]] = {
        TOOL: profile.tool,
        RANKS: ",".join(map(str, dict.fromkeys(profile.ranks))),
    }
    return {**env, STEPS: str(profile.range)} if profile.range else env


def profile_findings(job: Job, plan: Plan) -> Iterator[Finding]:
    """Findings on a profile that the planned job cannot make, or whose files it cannot keep."""
    profile = job.profile
    if profile is None:
        return
    if not job.run.is_launched:
        setting, remedy = unlaunched(job)
        message = f"rsctl-launch starts the profiler, and a job with {setting} does not run it"
        yield error("unsupported", message, remedy, _KEY)
        return
    beyond = [rank for rank in profile.ranks if rank >= plan.world_size]
    if beyond and job.run.launcher != "once":  # whose scripts start ranks by themselves
        ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
        message = f"the job has {ranks}, so rank {beyond[0]} does not exist"
        yield error(_KEY, message, f"use ranks below {plan.world_size}", f"{_KEY}.ranks")
    if plan.image.tag is not None and profile.tool != "torch" and not _installs(job, profile.tool):
        remedy = "add py-spy to image.python" if profile.tool == "py-spy" else (
            "install it by image.run, or use an image.base that has it, such as NVIDIA's"
        )  # fmt: skip
        message = f"rsctl does not see whether the image has {profile.tool}; without it, the job "
        message += "runs without a profile"
        yield note(_KEY, message, remedy, f"{_KEY}.tool")


def _installs(job: Job, tool: str) -> bool:
    """Whether the job file itself installs a tool into the image."""
    image = job.image
    lines = [*image.apt, *image.run]
    lines += image.python if isinstance(image.python, list) else []
    return any(tool in line or (tool == "nsys" and "nsight-systems" in line) for line in lines)
