"""Target `compose`: every replica a container on this machine, on a network of its own."""

from __future__ import annotations

from rsctl.findings import ExitCode, Finding, RsctlError, error, note
from rsctl.spec.job import Job
from rsctl.targets.base import Capabilities, ImagePlan, Plan, Pool, Say
from rsctl.targets.local import docker, replicas
from rsctl.targets.local.composefile import common_env, compose_file
from rsctl.targets.local.run import LocalRun, make_open_folder, make_run_folders


class ComposeTarget(LocalRun):
    """docker compose on this machine."""

    name = "compose"
    supports = Capabilities(
        refused=replicas.REFUSED, unused=replicas.UNUSED, schemes=frozenset({"file"})
    )

    def render(self, job: Job, run: str) -> Plan:
        """The compose file."""
        options = job.targets.compose
        gpus = self.host.gpus if options.gpus == "auto" else options.gpus
        cpus = options.cpus * job.workers.count if options.cpus else self.host.cpus
        share = replicas.share_out(job, gpus, cpus)
        findings = [
            *_image_findings(job),
            *replicas.share_findings(job, share),
            *replicas.reducer_findings(job),
            *_foreign_findings(job),
        ]
        if any(finding.is_error for finding in findings):
            return self._plan(job, run, share, "", findings)
        reference, left_out = _image_reference(job)
        return self._plan(job, run, share, reference, findings + left_out)

    def _plan(
        self, job: Job, run: str, share: replicas.Share, image: str, findings: list[Finding]
    ) -> Plan:
        bandwidth = job.targets.compose.network.bandwidth
        pool = Pool(
            role="worker",
            count=job.workers.count,
            accelerator=share.accelerator,
            gbps=bandwidth / 1e9 if bandwidth else None,
        )
        return Plan(
            run=run,
            target=self.name,
            image=ImagePlan(tag=image, transport="none"),
            pools=[pool],
            world_size=job.workers.count * share.processes,
            env=common_env(job, share),
            request={"compose": compose_file(job, run, image, share, self.host.may_lock_memory)},
            findings=findings,
        )

    def preflight(self, job: Job) -> list[Finding]:
        """Whether docker, its engine and compose are there."""
        return docker.missing()

    def provide(self, plan: Plan, job: Job, say: Say) -> None:
        """Make the folders that are mounted, and build the image unless it is there."""
        from rsctl.image.builder import build, is_built
        from rsctl.image.recipe import make_recipe

        make_run_folders(plan.run, job)
        make_open_folder(plan.run, "ready")
        if job.image.uri:
            return
        recipe = make_recipe(job)
        if not is_built(recipe):
            say(f"building {recipe.reference}")
            build(recipe, say)


def _image_findings(job: Job) -> list[Finding]:
    if not job.image.uri and not job.image.base:
        remedy = "give image.base to build on, or image.uri to use as it is"
        return [error("image", "target compose needs an image", remedy, "image")]
    if job.image.transport not in ("auto", "none"):
        return [
            error(
                "unsupported",
                "this version does not install a transport into the image",
                "set image.transport: none",
                "image.transport",
            )
        ]
    return []


def _foreign_findings(job: Job) -> list[Finding]:
    """What needs `rsctl-launch` in the container."""
    network = job.targets.compose.network
    if job.run.launcher == "none" and (network.bandwidth or network.delay):
        return [
            error(
                "unsupported",
                "the network is shaped by rsctl-launch, which launcher none leaves out",
                "use launcher once, or remove targets.compose.network",
                "targets.compose.network",
            )
        ]
    return []


def _image_reference(job: Job) -> tuple[str, list[Finding]]:
    if job.image.uri:
        return job.image.uri, []
    from rsctl.image.recipe import make_recipe

    try:
        recipe = make_recipe(job)
    except OSError as problem:
        message = f"cannot read {problem.filename}: {problem.strerror}"
        raise RsctlError(ExitCode.USAGE, error("file", message, None, "image.source")) from None
    left_out = recipe.context.left_out
    if not left_out:
        return recipe.reference, []
    shown = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if left_out[5:] else "")
    return recipe.reference, [note("left-out", f"not in the image: {shown}", None, "image.source")]


TARGET = ComposeTarget()
