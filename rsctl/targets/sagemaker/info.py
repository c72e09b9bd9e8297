"""Target `sagemaker`, as data."""

from __future__ import annotations

from rsctl.images.registry.hosts import ECR, ECR_PUBLIC
from rsctl.target_info import (
    AutomaticTransport,
    CatalogInfo,
    EmulatorInfo,
    Quota,
    RegistryInfo,
    RemoteBuild,
    TargetInfo,
    TrackerInfo,
    Unsupported,
)

_ACCOUNT = "123456789012"
"""The account of rehearsals."""

INFO = TargetInfo(
    name="sagemaker",
    title="SageMaker",
    target="rsctl.targets.sagemaker.target:TARGET",
    options="rsctl.targets.sagemaker.options:SageMakerOptions",
    is_managed=True,
    has_placements=True,
    regional=dict.fromkeys(
        (
            *("subnets", "security_groups", "file_systems", "training_plan", "placement"),
            *("mlflow", "registry_credentials"),
        ),
        "set one region, or several machine types in it",
    ),
    tries_machines={
        "instance_preferences": "keep one of the two: SageMaker tries instance_preferences "
        "itself, in one job and only if there is no capacity; rsctl tries the list of machines "
        "one job after the other, also if a quota is too small"
    },
    catalog=CatalogInfo(
        machines="rsctl.targets.sagemaker:machines.yaml",
        prices="rsctl.targets.sagemaker:prices.yaml",
        price_list="rsctl.targets.sagemaker.prices:sagemaker_prices",
    ),
    billing="rsctl.targets.sagemaker.billing:billing_of",
    has_spot_prices=False,
    # AWS publishes no rates of CreateTrainingJob and DescribeTrainingJob; boto3 retries throttled
    # calls. rsctl chose these rates to avoid throttling.
    quota=Quota(60, 120.0),
    schemes=frozenset({"s3"}),
    input_modes=frozenset({"mount", "copy", "stream", "shards"}),
    refused={
        "chief.disk": Unsupported(
            "SageMaker gives all machines of a job volumes of the same size", "set workers.disk"
        ),
        "reducers.disk": Unsupported(
            "SageMaker gives all machines of a job volumes of the same size", "set workers.disk"
        ),
        "reducers.env": Unsupported(
            "SageMaker gives all machines of a job the same variables", "set run.env"
        ),
    },
    honoured=frozenset({"chief", "roles", "profile"}),
    reuses_machines=frozenset({"keep_alive"}),
    platform="linux/amd64",
    transports=frozenset({"none", "rsctl", "efa"}),
    transport_with_accelerators=AutomaticTransport(
        "efa", "nodes with GPUs on SageMaker; on machines without EFA, NCCL uses sockets"
    ),
    staging_scheme="s3",
    remote_build=RemoteBuild(
        "rsctl.targets.sagemaker.builder:CodeBuild",
        {
            ("region",): "where it is built, such as us-east-1",
            ("staging",): "a folder in your bucket, such as s3://bucket/staging",
            ("build_role", "role"): "the ARN of an IAM role that CodeBuild may take",
        },
        ("linux/amd64", "linux/arm64"),
    ),
    registry=RegistryInfo(
        f"{ECR}|{ECR_PUBLIC}",
        "rsctl.targets.sagemaker.registry:CLIENT",
    ),
    tracker=TrackerInfo(
        value="rsctl.targets.sagemaker.tracking:Experiment",
        check="rsctl.targets.sagemaker.tracking:experiment_findings",
    ),
    argument_keys=frozenset({"ContainerArguments", "HyperParameters"}),
    installs_requirements="SageMaker's own images install it with run.package in place of "
    "image.source",
    aliases=frozenset({"aws", "amazon", "aws_sagemaker"}),
    log_in_check="rsctl.targets.sagemaker.doctor:signed_in",
    job_checks=(
        "rsctl.targets.sagemaker.doctor:aws_checks",
        "rsctl.targets.doctor.registry:registry_checks",
    ),
    sdk_code="rsctl.targets.sagemaker.sdk:code",
    sdk_package="sagemaker",
    emulator=EmulatorInfo(
        emulator="rsctl.targets.sagemaker.emulator:SageMakerEmulator",
        options=("region",),
        defaults={
            "region": "us-east-1",
            "role": f"arn:aws:iam::{_ACCOUNT}:role/rehearsal",
            "staging": "s3://rsctl-rehearsal/staging",
        },
        repository=_ACCOUNT + ".dkr.ecr.{region}.amazonaws.com/{name}",
        process_checks="rsctl.targets.sagemaker.rehearsal_checks:process_findings",
    ),
)
