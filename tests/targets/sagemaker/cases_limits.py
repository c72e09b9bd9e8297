"""Jobs with limits, and with what only SageMaker has."""

from __future__ import annotations

from .case_parts import (
    CHECKPOINTS,
    KEY,
    MLFLOW,
    PLAN,
    SDK_VPC,
    VPC,
    Case,
    create,
    launch,
    on,
    starts,
    workers,
)
from .rendering import sagemaker

LIMITS = [
    Case("a time limit", {"limits": {"timeout": "2h"}},
         create(stopping_condition={"max_runtime_in_seconds": 7200})),
    Case("a wait for GPUs", {**workers(1, "t4"), "limits": {"queue": "30m", "timeout": "1h"}},
         {**on("ml.g4dn.xlarge"), "stopping_condition": {"max_runtime_in_seconds": 3600,
                                                         "max_pending_time_in_seconds": 1800}}),
    Case(
        "spot with checkpoints",
        {"checkpoints": "s3://bucket/ckpt", "limits": {"spot": True, "timeout": "2h",
                                                       "queue": "30m"}},
        create(
            enable_managed_spot_training=True,
            checkpoint_config={"s3_uri": "s3://bucket/ckpt"},
            environment=CHECKPOINTS,
            stopping_condition={"max_runtime_in_seconds": 7200, "max_wait_time_in_seconds": 9000},
        ),
    ),
    Case("spot without limits", {"limits": {"spot": True}},
         create(enable_managed_spot_training=True,
                stopping_condition={"max_wait_time_in_seconds": 172_800})),
    Case("retries", {"limits": {"retries": 30}},
         create(retry_strategy={"maximum_retry_attempts": 30})),
    Case("restarts", {"limits": {"restarts": 2}},
         create(retry_strategy={"maximum_retry_attempts": 2})),
    Case("no restarts", {"limits": {"restarts": "never"}}, create()),
    Case("restarts as SageMaker has them", {"limits": {"restarts": "platform"}}, create()),
    Case(
        "checkpoints in a folder of the script's",
        {"checkpoints": "s3://bucket/ckpt", **sagemaker(checkpoint_path="/workspace/ckpt")},
        create(
            checkpoint_config={"s3_uri": "s3://bucket/ckpt", "local_path": "/workspace/ckpt"},
            environment={"RSCTL_CHECKPOINT_DIR": "/workspace/ckpt"},
        ),
    ),
    Case(
        "other machines where there is no capacity",
        sagemaker(instance_preferences=["ml.m5.2xlarge"]),
        create(
            resource_config={
                "instance_type": None,
                "instance_count": 1,
                "instance_preferences": [
                    {"instance_type": "ml.m5.xlarge"}, {"instance_type": "ml.m5.2xlarge"}
                ],
                "volume_size_in_gb": 30,
            }
        ),
    ),
    Case("no profiler", sagemaker(profiler=False),
         create(profiler_config={"disable_profiler": True})),
    Case("machines kept warm", sagemaker(keep_alive="30m"),
         on("ml.m5.xlarge", 1, 30, keep_alive_period_in_seconds=1800)),
    Case("machines not kept warm", sagemaker(keep_alive="0s"), create()),
    Case("a VPC, encryption and isolation",
         sagemaker(encrypt_traffic=True, network_isolation=True, **VPC),
         create(vpc_config=SDK_VPC, enable_network_isolation=True,
                enable_inter_container_traffic_encryption=True)),
    Case("an encrypted volume", sagemaker(volume_kms_key=KEY),
         on("ml.m5.xlarge", 1, 30, volume_kms_key_id=KEY)),
    Case("a training plan", {**workers(2, "h200:8"), **sagemaker(training_plan=PLAN)},
         {**on("ml.p5e.48xlarge", 2, training_plan_arn=PLAN), **starts(launch(ranks=8))}),
    Case(
        "UltraServers",
        {**workers(2, "gb200:4", machine="ml.p6e-gb200.36xlarge"),
         **sagemaker(placement={"multiple_jobs": True, "ultra_servers": {"us-1": 2}})},
        {**on("ml.p6e-gb200.36xlarge", 2, instance_placement_config={
            "enable_multiple_jobs": True,
            "placement_specifications": [{"ultra_server_id": "us-1", "instance_count": 2}],
        }), **starts(launch(ranks=4))},
    ),
    Case("checks and debugging",
         sagemaker(infra_check=True, remote_debug=True, session_tags=True),
         create(infra_check_config={"enable_infra_check": True},
                remote_debug_config={"enable_remote_debug": True},
                session_chaining_config={"enable_session_tag_chaining": True})),
    Case(
        "experiments and MLflow",
        sagemaker(experiment={"experiment": "e", "trial": "t", "component": "c", "run": "r"},
                  mlflow={"server": MLFLOW, "experiment": "e", "run": "r"}),
        create(
            experiment_config={"experiment_name": "e", "trial_name": "t",
                               "trial_component_display_name": "c", "run_name": "r"},
            mlflow_config={"mlflow_resource_arn": MLFLOW, "mlflow_experiment_name": "e",
                           "mlflow_run_name": "r"},
        ),
    ),
    Case("tags", sagemaker(tags={"team": "Ätna 1", "cost:center": "a/b=c+d@e"}),
         create(tags=[{"key": "team", "value": "Ätna 1"},
                      {"key": "cost:center", "value": "a/b=c+d@e"}])),
    Case("a patch",
         sagemaker(overlay={"ProfilerConfig": {"DisableProfiler": True}, "RetryStrategy": None,
                            "AlgorithmSpecification": {
                                "EnableSageMakerMetricsTimeSeries": True}}),
         create(profiler_config={"disable_profiler": True},
                algorithm_specification={"enable_sage_maker_metrics_time_series": True})),
]  # fmt: skip
