"""Target `sagemaker`: a training job of SageMaker, with a group of reducers if it has any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.images.findings import image_findings
from rsctl.images.package import Package, is_packaged, make_package, package_findings, package_notes
from rsctl.images.python_package import (
    make_python_package,
    python_package_findings,
    python_package_notes,
    python_package_uri,
)
from rsctl.job.job import Job
from rsctl.job.secret_names import public_variables
from rsctl.targets.base import ImagePlan, Plan, Pool, Shell, Submission
from rsctl.targets.chief import chief_findings, chief_job
from rsctl.targets.inputs import planned
from rsctl.targets.launch_command import ranks_in
from rsctl.targets.managed.architecture import architecture_findings
from rsctl.targets.managed.endpoints import shared_service
from rsctl.targets.managed.overlay import apply_overlay
from rsctl.targets.managed.placeholders import ImagePlaceholder, Variable, make_submission
from rsctl.targets.managed.service import JobService
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.planned_image import PlannedImage, plan_image
from rsctl.targets.sagemaker.account import account_findings
from rsctl.targets.sagemaker.channels import CHIEF
from rsctl.targets.sagemaker.checks import job_findings
from rsctl.targets.sagemaker.comm_checks import comm_findings
from rsctl.targets.sagemaker.cost_limit import limited_by_cost
from rsctl.targets.sagemaker.estimator_contract import estimator_findings
from rsctl.targets.sagemaker.info import INFO
from rsctl.targets.sagemaker.input_modes import input_plans
from rsctl.targets.sagemaker.long_arguments import decode_arguments
from rsctl.targets.sagemaker.machines import ResolvedPools, resolve_pools
from rsctl.targets.sagemaker.options import sagemaker_options
from rsctl.targets.sagemaker.overlay_checks import patch_findings
from rsctl.targets.sagemaker.pools import pools_of
from rsctl.targets.sagemaker.request import render_body
from rsctl.targets.sagemaker.request_checks import body_findings
from rsctl.targets.sagemaker.spec_keys import OVERLAY
from rsctl.targets.sagemaker.toolkit import toolkit_ranks
from rsctl.targets.variables import TOKEN, user_env
from rsctl.transport.tls_identity import IDENTITY_VARIABLE

if TYPE_CHECKING:
    from rsctl.runs.records import RunRecord

_LONGEST_NAME = 63


class SageMakerTarget(ManagedTarget):
    """Amazon SageMaker."""

    info = INFO

    def render(self, job: Job, run: str) -> Submission:
        """The call of CreateTrainingJob. Raises RsctlError with all errors of the job."""
        resolved = _resolve(job)
        findings = _resolution_findings(resolved)
        artifacts = _Artifacts() if _has_error(findings) else _plan_artifacts(resolved)
        findings += artifacts.findings

        uri = python_package_uri(job, self.info.name, artifacts.python_package)
        image_tag = artifacts.image.plan.tag or "none"
        rendered = render_body(resolved, run, image_tag, artifacts.package, uri)
        body = apply_overlay(rendered.body, sagemaker_options(job).overlay, OVERLAY)
        findings += rendered.findings
        wrong = body_findings(rendered.body, body, job, _secret_values(job))
        findings += [finding for finding in wrong if not _follows(finding, findings)]
        _refuse_errors(findings)

        pools = pools_of(body)
        ranks = _ranks(body, resolved.job, pools)
        findings += patch_findings(rendered.body, body, resolved, pools, ranks)
        _refuse_errors(findings)

        of_chief = {name: str(value) for name, value in resolved.job.chief.env.items()}
        plan = Plan(
            run=run,
            target=self.info.name,
            image=replace(artifacts.image.plan, tag=_image_in(body)),
            pools=pools,
            world_size=sum(pool.count * each for pool, each in zip(pools, ranks, strict=False)),
            env=public_variables({**body.get("Environment", {}), **of_chief}),
            request={
                "operation": "CreateTrainingJob",
                "region": sagemaker_options(job).first_region,
                "body": body,
            },
            findings=findings,
            inputs=planned(input_plans(resolved.job)),
        )
        images = [
            ImagePlaceholder(("body", "AlgorithmSpecification", "TrainingImage"), _image_in(body))
        ]
        package = artifacts.package or artifacts.python_package
        return make_submission(
            plan, resolved.job, artifacts.image, package, images, _variables_in(body)
        )

    def preflight(self, submission: Submission) -> list[Finding]:
        """Whether there are credentials; the first call shows their permissions."""
        from rsctl.clients.aws import Aws

        try:
            region = sagemaker_options(submission.job).first_region
            Aws(Endpoints.of_environment(), region).credentials()
        except RsctlError as problem:
            return list(problem.findings)
        return []

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.results."""
        from rsctl.targets.sagemaker.results import results_of  # which a plan does not need

        return results_of(plan.get("request", {}).get("body", {}))

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.pages."""
        from rsctl.targets.sagemaker.pages import pages_of  # which a plan does not need

        return pages_of(url)

    def shell(self, run: RunRecord, replica: str) -> Shell:
        """See ShellTarget."""
        from rsctl.targets.sagemaker.shell import shell_of  # which a plan does not need

        return shell_of(run, replica)

    def numbered_request(self, request: dict[str, Any], number: int) -> dict[str, Any]:
        """See ManagedTarget: a job's name is unique in its region forever."""
        body, suffix = request["body"], f"-{number}"
        name = body["TrainingJobName"][: _LONGEST_NAME - len(suffix)].rstrip("-")
        return {**request, "body": {**body, "TrainingJobName": f"{name}{suffix}"}}

    def service(self, endpoints: Endpoints) -> JobService:
        """SageMaker's job service."""
        from rsctl.targets.sagemaker.client import SageMakerService

        return shared_service(SageMakerService, endpoints)


class _Artifacts(NamedTuple):
    """The artifacts of a job: its image, its files as a package, or its own Python package."""

    image: PlannedImage = PlannedImage(ImagePlan(tag=None, transport="none"))
    package: Package | None = None
    python_package: Package | None = None
    findings: list[Finding] = []


def _resolve(job: Job) -> ResolvedPools:
    """The job's machines; with a cost limit the time limit follows from their price."""
    resolved = resolve_pools(job)
    if job.limits.cost is None:
        return resolved
    return resolve_pools(limited_by_cost(job, resolved))


def _resolution_findings(resolved: ResolvedPools) -> list[Finding]:
    """The findings about a job that are known before its files are read."""
    return [
        *image_findings(resolved.job, INFO.name),
        *package_findings(resolved.job, INFO.name),
        *python_package_findings(resolved.job, INFO.name),
        *estimator_findings(resolved.job),
        *account_findings(resolved.job),
        *resolved.findings,
        *_architecture(resolved),
        *comm_findings(resolved),
        *job_findings(resolved),
    ]


def _plan_artifacts(resolved: ResolvedPools) -> _Artifacts:
    """Plan the image and the packages, from the job's files."""
    job = resolved.job
    image = plan_image(job, INFO.name, "rsctl" if resolved.reducers else "none")
    package = make_package(job) if is_packaged(job) else None
    left_out = package_notes(package) if package else ()
    python_package = make_python_package(job)
    notes = [*image.findings, *left_out, *python_package_notes(python_package)]
    return _Artifacts(image, package, python_package, notes)


def _has_error(findings: list[Finding]) -> bool:
    return any(finding.is_error for finding in findings)


def _refuse_errors(findings: list[Finding]) -> None:
    if _has_error(findings):
        raise RsctlError(ExitCode.USAGE, *findings)


def _architecture(resolved: ResolvedPools) -> list[Finding]:
    """The platforms that the workers' image cannot have, on the chief's machine and on the
    others'.
    """
    job, reducer = resolved.job, resolved.reducer
    found = list(architecture_findings(job, resolved.worker, reducer, INFO.platform))
    if resolved.chief:
        own = list(architecture_findings(chief_job(job), resolved.chief, reducer, INFO.platform))
        found += chief_findings(job, own, found)
    return found


def _follows(finding: Finding, earlier: list[Finding]) -> bool:
    """Whether a known error explains why a field of the request is wrong or missing."""
    path = finding.path or ""
    known = [each.path for each in earlier if each.is_error and each.path]
    return any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in known)


def _ranks(body: dict[str, Any], job: Job, pools: list[Pool]) -> list[int]:
    """The ranks on each node of the pools of workers, the first ones."""
    if job.run.package is not None:
        return [toolkit_ranks(job, body, pool) for pool in pools if pool.role == "worker"]
    workers = ranks_in(decode_arguments(body)) or job.workers.ranks
    chief = ranks_in(decode_arguments(body, CHIEF)) or chief_job(job).workers.ranks
    return [chief, workers] if sum(pool.role == "worker" for pool in pools) > 1 else [workers]


def _image_in(body: dict[str, Any]) -> str | None:
    """None if the patch names an algorithm of AWS's marketplace instead of an image."""
    algorithm: dict[str, Any] = body.get("AlgorithmSpecification", {})
    return algorithm.get("TrainingImage")


def _variables_in(body: dict[str, Any]) -> Iterator[Variable]:
    for name, value in body.get("Environment", {}).items():
        yield Variable(("body", "Environment", name), name, value)


def _secret_values(job: Job) -> dict[str, str]:
    """The values of secrets, to see whether SageMaker takes them; and a token's length."""
    values = {name: str(job.run.env[name]) for name, v in user_env(job).items() if v is None}
    return {TOKEN: "0" * 64, IDENTITY_VARIABLE: "0" * 512, **values}


TARGET = SageMakerTarget()
