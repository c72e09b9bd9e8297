"""A request's fields as arguments of an estimator of the SageMaker SDK version 2. Pure.

Values that are objects of the SDK are `SdkCall`s. Source: version 2 of the SDK, estimator.py,
session.py (`_get_train_request`), job.py, instance_group.py and debugger/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsctl.targets.managed.sdk_calls import SdkCall, inexpressible

CLASS = "PyTorch"
_FIELDS = {
    "RoleArn": "role",
    "Environment": "environment",
    "AlgorithmSpecification.TrainingImage": "image_uri",
    "AlgorithmSpecification.TrainingInputMode": "input_mode",
    "AlgorithmSpecification.MetricDefinitions": "metric_definitions",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries": "enable_sagemaker_metrics",
    "AlgorithmSpecification.ContainerEntrypoint": "container_entry_point",
    "AlgorithmSpecification.ContainerArguments": "container_arguments",
    "OutputDataConfig.S3OutputPath": "output_path",
    "OutputDataConfig.KmsKeyId": "output_kms_key",
    "CheckpointConfig.S3Uri": "checkpoint_s3_uri",
    "CheckpointConfig.LocalPath": "checkpoint_local_path",
    "ResourceConfig.InstanceType": "instance_type",
    "ResourceConfig.InstanceCount": "instance_count",
    "ResourceConfig.VolumeSizeInGB": "volume_size",
    "ResourceConfig.VolumeKmsKeyId": "volume_kms_key",
    "ResourceConfig.KeepAlivePeriodInSeconds": "keep_alive_period_in_seconds",
    "ResourceConfig.TrainingPlanArn": "training_plan",
    "ResourceConfig.InstancePlacementConfig": "instance_placement_config",
    "StoppingCondition.MaxRuntimeInSeconds": "max_run",
    "StoppingCondition.MaxWaitTimeInSeconds": "max_wait",
    "EnableManagedSpotTraining": "use_spot_instances",
    "RetryStrategy.MaximumRetryAttempts": "max_retry_attempts",
    "VpcConfig.Subnets": "subnets",
    "VpcConfig.SecurityGroupIds": "security_group_ids",
    "EnableNetworkIsolation": "enable_network_isolation",
    "EnableInterContainerTrafficEncryption": "encrypt_inter_container_traffic",
    "RemoteDebugConfig.EnableRemoteDebug": "enable_remote_debug",
    "InfraCheckConfig.EnableInfraCheck": "enable_infra_check",
    "SessionChainingConfig.EnableSessionTagChaining": "enable_session_tag_chaining",
    "Tags": "tags",
}
"""The unchanged value of an argument."""

_IMAGE = "AlgorithmSpecification.TrainingImageConfig"
_GROUPS = "ResourceConfig.InstanceGroups"
_COMPRESSION = "OutputDataConfig.CompressionType"
_RULES = {"DebugRuleConfigurations": "Rule", "ProfilerRuleConfigurations": "ProfilerRule"}
_OBJECTS = ("TensorBoardOutputConfig", "ProfilerConfig", "DebugHookConfig", *_RULES)
_ELSEWHERE = ("TrainingJobName", "InputDataConfig", "HyperParameters", "ExperimentConfig")
"""The arguments of `fit`, and the hyperparameters."""

_GROUP = {
    "InstanceGroupName": "instance_group_name",
    "InstanceType": "instance_type",
    "InstanceCount": "instance_count",
}
_HOOK = {
    "S3OutputPath": "s3_output_path",
    "LocalPath": "container_local_output_path",
    "HookParameters": "hook_parameters",
}
_COLLECTION = {"CollectionName": "name", "CollectionParameters": "parameters"}
_PROFILER = {
    "S3OutputPath": "s3_output_path",
    "ProfilingIntervalInMilliseconds": "system_monitor_interval_millis",
    "DisableProfiler": "disable_profiler",
}
_RULE = {
    "RuleConfigurationName": "name",
    "RuleEvaluatorImage": "image_uri",
    "InstanceType": "instance_type",
    "LocalPath": "container_local_output_path",
    "S3OutputPath": "s3_output_path",
    "VolumeSizeInGB": "volume_size_in_gb",
    "RuleParameters": "rule_parameters",
}


def estimator_arguments(body: dict[str, Any]) -> dict[str, Any]:
    """All arguments except for the program, its hyperparameters, and `fit`.

    Defaults that the SDK adds for absent arguments are turned off. Raises RsctlError for fields
    without an argument.
    """
    fields = dict(_flat(body))
    arguments: dict[str, Any] = {"debugger_hook_config": False}
    unsaid = []
    for field, value in fields.items():
        if field in _FIELDS:
            arguments[_FIELDS[field]] = value
        elif (found := _object(field, value)) is not None:
            arguments |= found
        else:
            unsaid.append(field)
    if rules := list(_rules(body)):
        arguments["rules"] = rules
    if unsaid:
        raise inexpressible(CLASS, unsaid)
    if "profiler_config" not in arguments:
        arguments["disable_profiler"] = True
    return arguments


def _flat(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields by their paths; an estimator has an argument for each."""
    for name, value in body.items():
        if name in _ELSEWHERE:
            continue
        if isinstance(value, dict) and name not in _FIELDS and name not in _OBJECTS:
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value


def _object(field: str, value: Any) -> dict[str, Any] | None:
    """The arguments of a field that takes an object of the SDK; None if no argument says it all."""
    if field in _RULES:
        return None if any(each.keys() - _RULE.keys() for each in value) else {}
    if field == _COMPRESSION:
        return {"disable_output_compression": True} if value == "NONE" else {}
    if field == _GROUPS:
        return {
            "instance_groups": [SdkCall("InstanceGroup", _named(_GROUP, each)) for each in value]
        }
    if field == _IMAGE:
        return _image(value)
    if field == "TensorBoardOutputConfig":
        return {"tensorboard_output_config": SdkCall(field, _named(_HOOK, value))}
    if field == "DebugHookConfig":
        collections = [
            SdkCall("CollectionConfig", _named(_COLLECTION, each))
            for each in value.get("CollectionConfigurations", [])
        ]
        own = {"collection_configs": collections} if collections else {}
        return {
            "debugger_hook_config": SdkCall("DebuggerHookConfig", {**_named(_HOOK, value), **own})
        }
    return _profiler(value) if field == "ProfilerConfig" else None


def _image(value: dict[str, Any]) -> dict[str, Any]:
    found = {"training_repository_access_mode": value["TrainingRepositoryAccessMode"]}
    own = value.get("TrainingRepositoryAuthConfig") or {}
    if arn := own.get("TrainingRepositoryCredentialsProviderArn"):
        found["training_repository_credentials_provider_arn"] = arn
    return found


def _profiler(value: dict[str, Any]) -> dict[str, Any]:
    if value == {"DisableProfiler": True}:
        return {}
    own = {"disable_profiler": False, **_named(_PROFILER, value)}
    if parameters := value.get("ProfilingParameters"):
        own["framework_profile_params"] = SdkCall("FrameworkProfile", {"parameters": parameters})
    return {"profiler_config": SdkCall("ProfilerConfig", own)}


def _rules(body: dict[str, Any]) -> Iterator[SdkCall]:
    for field, name in _RULES.items():
        for rule in body.get(field, []):
            arguments = {argument: rule.get(key) for key, argument in _RULE.items()}
            arguments["rule_parameters"] = arguments["rule_parameters"] or {}
            more: dict[str, Any] = {"collections_to_save": []} if name == "Rule" else {}
            yield SdkCall(name, {**arguments, **more})


def _named(names: dict[str, str], value: dict[str, Any]) -> dict[str, Any]:
    return {names[key]: item for key, item in value.items() if key in names}
