"""Checks of the resources in AWS that a job names: file systems, keys, training plans. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding, error, warning
from rsctl.targets.sagemaker.machines import ResolvedPools
from rsctl.targets.sagemaker.options import SageMakerOptions, sagemaker_options

_OPTIONS = "targets.sagemaker"
_PLANNED = (
    *("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.4xlarge", "ml.p5.48xlarge"),
    *("ml.p5e.48xlarge", "ml.p5en.48xlarge", "ml.p6-b200.48xlarge", "ml.p6-b300.48xlarge"),
    *("ml.p6e-gb200.36xlarge", "ml.trn1.32xlarge", "ml.trn2.48xlarge"),
)
"""ReservedCapacityInstanceType of botocore 1.44.5."""

_ULTRA_SERVER = "ml.p6e-"


def resource_findings(resolved: ResolvedPools) -> Iterator[Finding]:
    """The mistakes in resources that SageMaker finds, at the latest on the job's machines."""
    options = sagemaker_options(resolved.job)
    names = list(dict.fromkeys(machine.name for _, machine, _ in resolved.groups))
    yield from _lustre(options)
    yield from _elsewhere(options)
    planned = names if options.training_plan and len(names) == 1 else []
    for name in (name for name in planned if name not in _PLANNED):
        message = f"AWS has no training plans for {name}, only for {', '.join(_PLANNED)}"
        remedy = "remove it, or use a machine type that the plan has"
        yield warning("training-plan", message, remedy, f"{_OPTIONS}.training_plan")
    if options.placement is not None:
        yield from _placement(options, names)


def _lustre(options: SageMakerOptions) -> Iterator[Finding]:
    """A Lustre file system has no root without its mount name.

    Sources: aws/amazon-sagemaker-examples#2183, aws/sagemaker-python-sdk#4257.
    """
    for name, system in options.file_systems.items():
        if system.type == "FSxLustre" and not system.path.strip("/"):
            message = "the path in FSx for Lustre must start with the file system's mount name"
            remedy = (
                "write /MOUNTNAME or a folder in it; `aws fsx describe-file-systems "
                f"--file-system-ids {system.id}` shows LustreConfiguration.MountName"
            )
            yield error("inputs", message, remedy, f"{_OPTIONS}.file_systems.{name}.path")


def _elsewhere(options: SageMakerOptions) -> Iterator[Finding]:
    """Find resources whose ARN has another region than the job."""
    own = options.first_region
    for key in ("training_plan", "volume_kms_key", "output_kms_key"):
        region = re.match(r"arn:[^:]*:[^:]*:([a-z0-9-]+):", getattr(options, key) or "")
        if own and region and region[1] != own:
            message = f"it is in {region[1]}, but the job is in {own}"
            remedy = f"use one in {own}: {{region}} in its name stands for it"
            yield warning("region", message, remedy, f"{_OPTIONS}.{key}")


def _placement(options: SageMakerOptions, machines: list[str]) -> Iterator[Finding]:
    """InstancePlacementConfig and PlacementSpecification in the API's reference."""
    path = f"{_OPTIONS}.placement"
    for name in (name for name in machines if not name.startswith(_ULTRA_SERVER)):
        message = f"{name} is not in an UltraServer, and placement applies to UltraServers only"
        yield error("machine", message, "remove it", path)
    servers = options.placement.ultra_servers if options.placement else {}
    for server in (server for server, count in servers.items() if count < 1):
        message = "an UltraServer of a job has at least one of its machines"
        key = f"{path}.ultra_servers.{server}"
        yield error("machine", message, "set it to 1 or more, or remove it", key)
