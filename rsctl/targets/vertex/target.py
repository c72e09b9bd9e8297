"""Target `vertex`: a custom job of Vertex AI, with a reducer pool if it has reducers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.staging import parse_staging
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.package import FILE, Package, is_packaged, make_package, package_notes
from rsctl.images.python_package import (
    make_python_package,
    python_package_notes,
    python_package_uri,
)
from rsctl.job.job import Job
from rsctl.job.secret_names import public_variables
from rsctl.runs.folder import RestartLimit
from rsctl.targets.base import ImagePlan, Plan, Shell, Submission
from rsctl.targets.inputs import planned
from rsctl.targets.managed.endpoints import shared_service
from rsctl.targets.managed.overlay import apply_overlay
from rsctl.targets.managed.placeholders import make_submission
from rsctl.targets.managed.service import JobService
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.planned_image import plan_image
from rsctl.targets.vertex.cost_limit import limited_by_cost
from rsctl.targets.vertex.environment import input_plans
from rsctl.targets.vertex.info import INFO
from rsctl.targets.vertex.names import PLACEMENT_LABEL, RUN_LABEL
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.overlay_checks import (
    OVERLAY,
    images_in,
    patch_findings,
    variables_in,
    world_size,
)
from rsctl.targets.vertex.pool_resolution import resolve_pools
from rsctl.targets.vertex.pools import chief_of, pools_of, variables_of
from rsctl.targets.vertex.request import Entrypoint, custom_job, url_of
from rsctl.targets.vertex.request_checks import request_findings
from rsctl.targets.vertex.scheduling import restart_limit

if TYPE_CHECKING:
    from rsctl.runs.records import RunRecord


class VertexTarget(ManagedTarget):
    """Vertex AI."""

    info = INFO

    def render(self, job: Job, run: str) -> Submission:
        """The CustomJob. Raises RsctlError with all errors of the job."""
        resolved, findings = resolve_pools(job)
        if resolved is not None and job.limits.cost is not None:
            job = limited_by_cost(job, resolved)
            resolved, findings = resolve_pools(job)
        if resolved is None:
            raise RsctlError(ExitCode.USAGE, *findings)
        transport = resolved.reducers.transport if resolved.reducers else "none"
        image = plan_image(job, self.info.name, transport)
        entry, package, notes = _entrypoint(job, image.plan)
        before = custom_job(job, run, resolved, entry)
        body = _patched(before, job, run)
        findings += [
            *image.findings,
            *notes,
            *patch_findings(before, body, resolved.has_own_reducers, resolved.ranks),
            *request_findings(job, body),
        ]
        if any(finding.is_error for finding in findings):
            raise RsctlError(ExitCode.USAGE, *findings)
        chief = chief_of(body)
        plan = Plan(
            run=run,
            target=self.info.name,
            image=replace(image.plan, tag=chief.get("imageUri") or chief.get("executorImageUri")),
            pools=pools_of(body),
            world_size=world_size(body, resolved.ranks),
            env=public_variables(variables_of(chief)),
            request={"method": "POST", "url": url_of(job), "body": body},
            findings=findings,
            inputs=planned(input_plans(job)),
        )
        return make_submission(plan, job, image, package, images_in(body), variables_in(body))

    def preflight(self, submission: Submission) -> list[Finding]:
        """Whether there are credentials; the first call shows their permissions."""
        from rsctl.clients.google import google_credentials

        try:
            google_credentials(Endpoints.of_environment())
        except RsctlError as problem:
            return list(problem.findings)
        return []

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.results."""
        from rsctl.targets.vertex.results import results_of  # which a plan does not need

        return results_of(plan.get("request", {}).get("body", {}))

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.pages."""
        from rsctl.targets.vertex.pages import pages_of  # which a plan does not need

        return pages_of(url, plan.get("request", {}).get("body", {}))

    def shell(self, run: RunRecord, replica: str) -> Shell:
        """See ShellTarget."""
        from rsctl.targets.vertex.shell import shell_of  # which a plan does not need

        return shell_of(run, replica)

    def restart_limit(self, submission: Submission) -> RestartLimit | None:
        """See ManagedTarget: the API has a switch for restarts and no number."""
        return restart_limit(submission.job, submission.plan.request)

    def numbered_request(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        """See ManagedTarget: a label distinguishes the jobs of one run."""
        body = request["body"]
        labels = {**body["labels"], PLACEMENT_LABEL: str(number)}
        return {**request, "body": {**body, "labels": labels}}

    def service(self, endpoints: Endpoints) -> JobService:
        """Vertex AI's job service."""
        from rsctl.targets.vertex.client import VertexService

        return shared_service(VertexService, endpoints)


def _entrypoint(job: Job, image: ImagePlan) -> tuple[Entrypoint, Optional[Package], list[Finding]]:
    """An image built by rsctl starts rsctl-launch itself; another one needs the command."""
    if job.run.package is not None:
        python_package = make_python_package(job)
        uri = python_package_uri(job, INFO.name, python_package)
        left_out = list(python_package_notes(python_package))
        return Entrypoint(str(image.tag), [], uri), python_package, left_out
    if not is_packaged(job):
        return Entrypoint(str(image.tag), ["rsctl-launch"] if job.image.uri else []), None, []
    package, staging = make_package(job), parse_staging(vertex_options(job).staging or "")
    path = f"/gcs/{staging.bucket}/{staging.folder}{package.folder}{FILE}"
    return Entrypoint(str(image.tag), package.command(path)), package, list(package_notes(package))


def _patched(body: dict[str, Any], job: Job, run: str) -> dict[str, Any]:
    patched = apply_overlay(body, vertex_options(job).overlay, OVERLAY)
    if _label(patched) != run:
        message = f"it removes or changes the label {RUN_LABEL}, which rsctl uses to find the job"
        raise RsctlError(ExitCode.USAGE, error("overlay", message, "remove that change", OVERLAY))
    return patched


def _label(body: dict[str, Any]) -> Any:
    labels = body.get("labels")
    return labels.get(RUN_LABEL) if isinstance(labels, dict) else None


TARGET = VertexTarget()
