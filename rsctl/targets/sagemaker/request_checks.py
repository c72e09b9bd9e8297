"""Checks of a request's body by AWS's model and documentation, as findings about the spec. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.targets.sagemaker.api_model import Problem, problems
from rsctl.targets.sagemaker.request import RUN_TAG
from rsctl.targets.sagemaker.rules import rule_problems
from rsctl.targets.sagemaker.spec_keys import OVERLAY, spec_key_of


def body_findings(
    before: dict[str, Any], body: dict[str, Any], job: Job, secrets: Mapping[str, str]
) -> list[Finding]:
    """The mistakes in a body; `before` is the body without the overlay.

    `secrets` are the values that it omits, which count toward limits. Mistakes from the overlay are
    reported about the overlay, all others about the key that sets the field.
    """
    rendered = set(_all_problems(_with_secrets(before, secrets)))
    found = list(_identity(before, body))
    for problem in _all_problems(_with_secrets(body, secrets)):
        if problem not in rendered:
            found.append(_overlay_finding(problem))
        elif problem.path[-1:] != ("InstanceGroupNames",):  # too many groups are a problem already
            found.append(_finding(problem, before, job))
    return found


def _with_secrets(body: dict[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    env = body.get("Environment")
    if not isinstance(env, dict):
        return body
    whole = {k: secrets[k] if v is None and k in secrets else v for k, v in env.items()}
    return {**body, "Environment": whole}


def _all_problems(body: dict[str, Any]) -> Iterator[Problem]:
    """The rules rely on the checks of the model."""
    wrong = list(problems(body))
    yield from wrong
    if all(problem.kind in ("size", "range", "pattern", "enum") for problem in wrong):
        yield from rule_problems(body)


def _finding(problem: Problem, body: dict[str, Any], job: Job) -> Finding:
    key = spec_key_of(problem.path, body, job)
    message = f"SageMaker's {_field(problem)}: {problem.text}"
    return error("sagemaker", message, problem.remedy or key.remedy, key.path)


def _overlay_finding(problem: Problem) -> Finding:
    message = f"with this patch, {_field(problem)}: {problem.text}"
    if problem.kind == "enum":  # the service may know more values than its model of today
        remedy = "correct it, unless the field is newer than this version of rsctl"
        return warning("overlay", message, remedy, OVERLAY)
    return error("overlay", message, "correct the patch", OVERLAY)


def _field(problem: Problem) -> str:
    """`Tags[0].Key`."""
    steps = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.path]
    return "".join(steps).lstrip(".") or "request"


def _identity(before: dict[str, Any], body: dict[str, Any]) -> Iterator[Finding]:
    """rsctl finds a run by its name and its tag."""
    if body.get("TrainingJobName") != before["TrainingJobName"]:
        message = "it changes TrainingJobName, which is the run ID"
        yield error(
            "overlay",
            message,
            "remove that change; the first part of the ID is the job's name",
            OVERLAY,
        )
    if _run_tag(body) != _run_tag(before):
        message = f"it removes or changes the tag {RUN_TAG}, which rsctl uses to find the job"
        remedy = "remove that change; set your own tags in targets.sagemaker.tags"
        yield error("overlay", message, remedy, OVERLAY)


def _run_tag(body: dict[str, Any]) -> list[Any]:
    tags = body.get("Tags")
    listed = tags if isinstance(tags, list) else []
    return [tag for tag in listed if isinstance(tag, dict) and tag.get("Key") == RUN_TAG]
