"""Target `slurm`: a job as one batch script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.job.job import Job
from rsctl.targets.base import ImagePlan, Placeholder, Plan, Submission
from rsctl.targets.inputs import planned
from rsctl.targets.managed.endpoints import shared_service
from rsctl.targets.managed.service import JobService
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.planned_image import PlannedImage, plan_image
from rsctl.targets.slurm import rest_job
from rsctl.targets.slurm.checks import job_findings
from rsctl.targets.slurm.environment import common_env, step_env
from rsctl.targets.slurm.info import INFO
from rsctl.targets.slurm.inputs import input_plans
from rsctl.targets.slurm.options import slurm_options
from rsctl.targets.slurm.payload import make_payload
from rsctl.targets.slurm.pools import allocation_of
from rsctl.targets.slurm.script import batch_script
from rsctl.targets.variables import reducer_count, secrets_of

if TYPE_CHECKING:
    from rsctl.images.events import Show


class SlurmTarget(ManagedTarget):
    """A Slurm cluster."""

    info = INFO

    def render(self, job: Job, run: str) -> Submission:
        """The batch script. Raises RsctlError with all errors of the job."""
        options, allocation = slurm_options(job), allocation_of(job)
        image, package = _image(job), make_payload(job)
        findings = [*image.findings, *job_findings(job, allocation, package)]
        if any(finding.is_error for finding in findings):
            raise RsctlError(ExitCode.USAGE, *findings)
        secrets, tag = secrets_of(job), image.plan.tag
        chief = next(step for step in allocation.steps if step.role == "worker" and not step.first)
        script = batch_script(job, run, allocation, tag, package.digest, list(secrets))
        if not options.connection.startswith(("local", "ssh://")):
            rest_job.submission(script, {}, "/")  # raises if slurmrestd lacks one of its options
        request: dict[str, Any] = {
            "connection": options.connection,
            "shared": options.shared,
            "package": package.digest,
            "environment": dict.fromkeys(secrets),
            "script": script,
        }
        if job.limits.queue:
            request["longest_wait"] = float(job.limits.queue)
        if tag is not None:
            request["environment"] = {"RSCTL_IMAGE": tag, **request["environment"]}
        plan = Plan(
            run=run,
            target=INFO.name,
            image=image.plan,
            pools=allocation.pools(),
            world_size=allocation.world_size,
            env={**common_env(job, run), **step_env(job, run, chief)},
            request=request,
            findings=findings,
            inputs=planned(input_plans(job, run)),
        )
        places = [Placeholder(("environment", name), name) for name in secrets]
        if image.recipe is not None:
            places.append(Placeholder(("environment", "RSCTL_IMAGE")))
        return Submission(
            plan,
            job,
            recipe=image.recipe,
            package=package,
            placeholders=tuple(places),
            secrets=secrets,
        )

    def submit(self, submission: Submission, record: Callable[[], None], show: Show) -> None:
        """Keep the package in the run's folder, and send the script with it."""
        from rsctl.targets.slurm.client import payload_path
        from rsctl.targets.slurm.payload import packed

        text = packed(submission)
        path = payload_path(submission.plan.run)

        def record_and_keep() -> None:
            record()
            path.write_text(text, encoding="ascii")

        try:
            super().submit(submission, record_and_keep, show)
        finally:
            path.unlink(missing_ok=True)

    def deliver_package(self, submission: Submission, show: Show) -> None:
        """Nothing: the script has it."""

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """See Target."""
        if submission.recipe is None:
            return None
        return super().have_image(submission, show)

    def service(self, endpoints: Endpoints) -> JobService:
        """The clusters' job service."""
        from rsctl.targets.slurm.client import SlurmService  # which a plan does not need

        return shared_service(SlurmService, endpoints)

    def preflight(self, submission: Submission) -> list[Finding]:
        """Obstacles to the job's connection from this environment."""
        from rsctl.targets.slurm.preflight import preflight_findings

        return preflight_findings(slurm_options(submission.job).connection)

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """The folders of results, on the shared file system."""
        env, request = plan.get("env", {}), plan.get("request", {})
        if "RSCTL_OUTPUT_DIR" not in env:
            return {"outputs": f"{request['folder']}/outputs"} if "folder" in request else {}
        found = {"outputs": env["RSCTL_OUTPUT_DIR"]}
        if checkpoints := env.get("RSCTL_CHECKPOINT_DIR"):
            found["checkpoints"] = checkpoints
        return found

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """Slurm has no pages."""
        return {}


def _image(job: Job) -> PlannedImage:
    transport = "rsctl" if reducer_count(job) else "none"
    if slurm_options(job).container == "none":
        return PlannedImage(ImagePlan(tag=None, transport=transport))
    return plan_image(job, INFO.name, transport)


TARGET = SlurmTarget()
