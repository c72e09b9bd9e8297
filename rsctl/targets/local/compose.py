"""Target `compose`: every replica is a container on this machine, in a separate network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rsctl.findings import Finding, error
from rsctl.images.events import Show
from rsctl.images.findings import image_findings
from rsctl.job.job import Job
from rsctl.job.options import compose_options
from rsctl.targets.base import ImagePlan, NodeCommand, Plan, Submission
from rsctl.targets.chief import chief_job
from rsctl.targets.inputs import planned
from rsctl.targets.local import docker, rendering
from rsctl.targets.local.composefile import common_env, compose_file, limits_of, mounted_results
from rsctl.targets.local.info import COMPOSE
from rsctl.targets.local.inputs import disk_findings, input_plans, link_findings
from rsctl.targets.local.oversubscription import oversubscription
from rsctl.targets.local.target import LocalTarget, make_open_folder, make_run_folders
from rsctl.targets.planned_image import plan_image
from rsctl.targets.variables import secrets_of


class ComposeTarget(LocalTarget):
    """docker compose on this machine."""

    info = COMPOSE

    def render(self, job: Job, run: str) -> Submission:
        """The compose file."""
        options = compose_options(job)
        gpus = self.host.gpus if options.gpus == "auto" else options.gpus
        limits = [limits_of(job, index)[0] for index in range(job.workers.count)]
        cpus = sum(limit or 0 for limit in limits) if all(limits) else self.host.cpus
        share = rendering.share_out(job, gpus, cpus)
        findings = [
            *image_findings(job, self.info.name),
            *rendering.share_findings(job, share),
            *rendering.comm_findings(job, share),
            *rendering.restart_findings(job),
            *disk_findings(job, self.info.name),
            *link_findings(job),
            *self._too_many(job, share),
            *_foreign_findings(job),
            *_source_findings(job),
        ]
        if any(finding.is_error for finding in findings):
            nothing = ImagePlan(tag=None, transport="none")
            return Submission(self._plan(job, run, share, nothing, findings), job)
        image = plan_image(job, self.info.name)
        plan = self._plan(job, run, share, image.plan, [*findings, *image.findings])
        return Submission(plan, job, image.recipe, secrets=secrets_of(job))

    def _too_many(self, job: Job, share: rendering.Share) -> Iterator[Finding]:
        pools = rendering.pools(job, share)
        return oversubscription(job, pools, share.world_size, self.host.cpus)

    def _plan(
        self, job: Job, run: str, share: rendering.Share, image: ImagePlan, findings: list[Finding]
    ) -> Plan:
        bandwidth = compose_options(job).network.bandwidth
        return Plan(
            run=run,
            target=self.info.name,
            image=image,
            pools=rendering.pools(job, share, bandwidth / 1e9 if bandwidth else None),
            world_size=share.world_size,
            env=common_env(chief_job(job), run, share),
            request={
                "compose": compose_file(
                    job, run, image.tag or "", share, self.host.may_lock_memory
                ),
                **rendering.supervision(job),
            },
            findings=findings,
            inputs=planned(input_plans(job, run, self.info.name)),
        )

    def ask_nodes(self, run: str, replicas: Sequence[str], number: int) -> None:
        """See `rsctl.api.debug.AskableTarget`."""
        for command in docker.ask_containers(run, replicas, number):
            command.wait()

    def enter(
        self, run: str, replica: str, command: list[str], is_terminal: bool
    ) -> NodeCommand | None:
        """See Enterable."""
        from rsctl.targets.local.enter import container_command

        return container_command(run, replica, command, is_terminal)

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.results."""
        return mounted_results(plan["request"]["compose"])

    def preflight(self, submission: Submission) -> list[Finding]:
        """Whether docker, its engine and compose are available."""
        return docker.missing()

    def prepare(self, submission: Submission, show: Show) -> None:
        """Make the mounted folders, and build the image unless it exists."""
        make_run_folders(submission.plan.run, submission.job)
        make_open_folder(submission.plan.run, "ready")
        if submission.plan.image.reference is None:
            self.have_image(submission, show)

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """Build the image unless the engine has it; it is named by the hash of its recipe."""
        from rsctl.images.ensure import ensure_image

        if submission.recipe is not None:
            ensure_image(submission.recipe, submission.job, show)
        return submission.plan.image.tag


def _foreign_findings(job: Job) -> list[Finding]:
    """The features that need `rsctl-launch` in the container."""
    network = compose_options(job).network
    if job.run.launcher == "none" and (network.bandwidth or network.delay):
        return [
            error(
                "unsupported",
                "rsctl-launch shapes the network, and launcher none does not use it",
                "use launcher once, or remove targets.compose.network",
                "targets.compose.network",
            )
        ]
    return []


def _source_findings(job: Job) -> list[Finding]:
    """Clouds bring source by their buckets."""
    if job.image.uri and job.image.source:
        message = (
            "target compose cannot deliver image.source into an image that is used without changes"
        )
        remedy = f"build an image on it instead: image.base: {job.image.uri}"
        return [error("unsupported", message, remedy, "image.source")]
    return []


TARGET = ComposeTarget()
