"""Training jobs of AWS's samples, as job files and in the words of version 2 of the SDK.

Source: aws/amazon-sagemaker-examples@2d519b52c, each in the notebook that its title names. Names of
buckets, file systems and images are made up; estimators would send profiler and debugger rules that
nobody asked for, so all of them say here what two of the notebooks say: that there are none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ROLE = "arn:aws:iam::123456789012:role/train"
CODE = "s3://code/sourcedir.tar.gz"
_AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
_FSX = "fs-0123456789abcdef0"
_VPC = {"subnets": ["subnet-1"], "security_group_ids": ["sg-1"]}
COMMON = {
    "name": "t",
    "outputs": "s3://bucket/out",
    "targets": {
        "sagemaker": {
            "region": "us-east-1", "role": ROLE, "input_mode": "File", "profiler": False
        }
    },
}  # fmt: skip
"""What all of the job files have too."""


class Sample(NamedTuple):
    """A job twice: the keys of a job file, and the arguments of an estimator's class.

    `inputs` are those of `fit`. The job file's other keys are in `COMMON`.
    """

    title: str
    job: str
    estimator: str
    arguments: dict[str, Any]
    inputs: dict[str, Any] | None = None


def file_system(path: str, access: str = "ro") -> dict[str, str]:
    """The arguments of a FileSystemInput."""
    return {
        "file_system_id": _FSX,
        "file_system_type": "FSxLustre",
        "directory_path": path,
        "file_system_access_mode": access,
    }


SAMPLES = [
    Sample(
        "sm-distributed_data_parallelism_pytorch",
        f"""
run:
  package: {CODE}
  script: train_pytorch_smdataparallel_mnist.py
  launcher: mpi
  env: {{SAGEMAKER_REQUIREMENTS: requirements.txt}}
image: {{uri: {_AWS}/pytorch-training:1.11.0-gpu-py38}}
workers: {{machine: ml.p3.16xlarge, accelerator: "v100:8", disk: 30GB}}
comm: {{backend: smddp}}
limits: {{timeout: 1d}}
targets: {{sagemaker: {{tensorboard: s3://bucket/tensorboard, metrics_time_series: true}}}}
""",
        "sagemaker.pytorch.PyTorch",
        {
            "entry_point": "train_pytorch_smdataparallel_mnist.py",
            "image_uri": f"{_AWS}/pytorch-training:1.11.0-gpu-py38",
            "framework_version": "1.11.0",
            "py_version": "py38",
            "instance_count": 1,
            "environment": {"SAGEMAKER_REQUIREMENTS": "requirements.txt"},
            "instance_type": "ml.p3.16xlarge",
            "distribution": {"smdistributed": {"dataparallel": {"enabled": True}}},
            "tensorboard_output_config": "s3://bucket/tensorboard",
        },
    ),
    Sample(
        "mpi_demo",
        f"""
run: {{package: {CODE}, script: mpi_demo.py, launcher: mpi}}
image: {{uri: {_AWS}/tensorflow-training:2.3.0-cpu-py37}}
workers: {{count: 3, machine: ml.c5.2xlarge, processes: 2}}
limits: {{timeout: 1d}}
targets: {{sagemaker: {{metrics_time_series: true}}}}
""",
        "sagemaker.tensorflow.TensorFlow",
        {
            "entry_point": "mpi_demo.py",
            "image_uri": f"{_AWS}/tensorflow-training:2.3.0-cpu-py37",
            "framework_version": "2.3.0",
            "distribution": {"mpi": {"enabled": True, "processes_per_host": 2}},
            "py_version": "py37",
            "instance_count": 3,
            "instance_type": "ml.c5.2xlarge",
            "model_dir": False,
        },
    ),
    Sample(
        "mask-rcnn-scriptmode-fsx",
        f"""
run:
  package: {CODE}
  script: train.py
  launcher: mpi
  args: {{mode_fpn: "True", mode_mask: "True", eval_period: 1, batch_norm: FreezeBN}}
image: {{uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/mask-rcnn-tensorflow:tf1.15}}
workers: {{count: 2, machine: ml.p3.16xlarge, accelerator: "v100:8", disk: 100GB}}
metrics:
  maskrcnn_loss/accuracy: {{regex: '.*maskrcnn_loss/accuracy:\\s*(\\S+).*'}}
  mAP(bbox)/IoU=0.5:0.95: {{regex: '.*mAP\\(bbox\\)/IoU=0\\.5:0\\.95:\\s*(\\S+).*'}}
limits: {{timeout: 400000s}}
targets:
  sagemaker:
    subnets: [subnet-1]
    security_groups: [sg-1]
    file_systems:
      train: {{id: {_FSX}, type: FSxLustre, path: /m/mask-rcnn/sagemaker/input/train}}
      log: {{id: {_FSX}, type: FSxLustre, path: /m/mask-rcnn/sagemaker/output, access: rw}}
    hyperparameters:
      sagemaker_mpi_custom_mpi_options: >-
        "--verbose --output-filename /opt/ml/model/logs -x TF_DEVICE_MIN_SYS_MEMORY_IN_MB=2560"
""",
        "sagemaker.tensorflow.TensorFlow",
        {
            "entry_point": "train.py",
            "image_uri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/mask-rcnn-tensorflow:tf1.15",
            "py_version": "py3",
            "instance_count": 2,
            "instance_type": "ml.p3.16xlarge",
            "distribution": {
                "mpi": {
                    "enabled": True,
                    "processes_per_host": 8,
                    "custom_mpi_options": "--verbose --output-filename /opt/ml/model/logs "
                    "-x TF_DEVICE_MIN_SYS_MEMORY_IN_MB=2560",
                }
            },
            "volume_size": 100,
            "max_run": 400000,
            "hyperparameters": {
                "mode_fpn": "True",
                "mode_mask": "True",
                "eval_period": 1,
                "batch_norm": "FreezeBN",
            },
            "metric_definitions": [
                {
                    "Name": "maskrcnn_loss/accuracy",
                    "Regex": ".*maskrcnn_loss/accuracy:\\s*(\\S+).*",
                },
                {
                    "Name": "mAP(bbox)/IoU=0.5:0.95",
                    "Regex": ".*mAP\\(bbox\\)/IoU=0\\.5:0\\.95:\\s*(\\S+).*",
                },
            ],
            "model_dir": False,
            **_VPC,
        },
        {
            "train": file_system("/m/mask-rcnn/sagemaker/input/train"),
            "log": file_system("/m/mask-rcnn/sagemaker/output", "rw"),
        },
    ),
    Sample(
        "sm-fsdp-tp_train_gpt-neox",
        f"""
run:
  package: {CODE}
  script: train.py
  launcher: torchrun
  args: {{bf16: 1, lr: 0.0001, beta2: 0.95, sharding_strategy: hybrid_shard, min_lr: 1e-05}}
image: {{uri: {_AWS}/smdistributed-modelparallel:2.4.1-gpu-py311-cu121}}
workers: {{count: 2, machine: ml.p4d.24xlarge, accelerator: "a100-40gb:8", disk: 400GB}}
limits: {{timeout: 1d}}
targets:
  sagemaker:
    subnets: [subnet-1]
    security_groups: [sg-1]
    metrics_time_series: true
    file_systems: {{train: {{id: {_FSX}, type: FSxLustre, path: /fsx}}}}
    hyperparameters:
      mp_parameters: '{{"hybrid_shard_degree": 4, "tensor_parallel_degree": 2}}'
      sagemaker_distributed_dataparallel_enabled: "false"
""",
        "sagemaker.pytorch.PyTorch",
        {
            "entry_point": "train.py",
            "hyperparameters": {
                "bf16": 1,
                "lr": 0.0001,
                "beta2": 0.95,
                "sharding_strategy": "hybrid_shard",
                "min_lr": 1e-05,
            },
            "instance_type": "ml.p4d.24xlarge",
            "volume_size": 400,
            "instance_count": 2,
            "distribution": {
                "torch_distributed": {"enabled": True},
                "smdistributed": {
                    "modelparallel": {
                        "enabled": True,
                        "parameters": {"hybrid_shard_degree": 4, "tensor_parallel_degree": 2},
                    }
                },
            },
            "py_version": "py311",
            "framework_version": "2.4.1",
            "image_uri": f"{_AWS}/smdistributed-modelparallel:2.4.1-gpu-py311-cu121",
            "max_run": 86400,
            **_VPC,
        },
        {"train": file_system("/fsx")},
    ),
    Sample(
        "smddp_fsdp_example",
        f"""
run:
  package: {CODE}
  script: train.py
  launcher: torchrun
  args: {{model_id: tiiuae/falcon-7b, epochs: 1, fsdp: '"full_shard auto_wrap"'}}
image: {{uri: {_AWS}/pytorch-training:2.0.1-gpu-py310}}
workers: {{count: 2, machine: ml.p4d.24xlarge, accelerator: "a100-40gb:8", disk: 30GB}}
inputs: {{train: s3://bucket/train}}
limits: {{timeout: 30m}}
targets:
  sagemaker:
    metrics_time_series: true
    output_compression: NONE
    keep_alive: 10m
    hyperparameters: {{gradient_checkpointing: "true", bf16: "true"}}
""",
        "sagemaker.pytorch.PyTorch",
        {
            "entry_point": "train.py",
            "max_run": 1800,
            "image_uri": f"{_AWS}/pytorch-training:2.0.1-gpu-py310",
            "framework_version": "2.0.1",
            "py_version": "py310",
            "instance_count": 2,
            "instance_type": "ml.p4d.24xlarge",
            "disable_output_compression": True,
            "distribution": {"torch_distributed": {"enabled": True}},
            "keep_alive_period_in_seconds": 600,
            "hyperparameters": {
                "model_id": "tiiuae/falcon-7b",
                "gradient_checkpointing": True,
                "bf16": True,
                "epochs": 1,
                "fsdp": '"full_shard auto_wrap"',
            },
        },
        {"train": "s3://bucket/train"},
    ),
    Sample(
        "pytorch_multiple_gpu_single_node/gpt-2",
        f"""
run:
  package: {CODE}
  script: run_clm.py
  launcher: none
  args: {{model_type: gpt2, output_dir: /opt/ml/model}}
image: {{uri: {_AWS}/pytorch-training:1.13.1-gpu-py39}}
workers: {{machine: ml.g5.12xlarge, accelerator: "a10g:4", disk: 100GB}}
metrics: {{train_loss: {{regex: "'loss': ([0-9.]*)"}}}}
limits: {{timeout: 1d}}
targets:
  sagemaker:
    metrics_time_series: true
    hyperparameters:
      do_train: "true"
      do_eval: "false"
      sagemaker_distributed_dataparallel_enabled: "true"
      sagemaker_distributed_dataparallel_custom_mpi_options: '""'
      sagemaker_instance_type: '"ml.g5.12xlarge"'
""",
        "sagemaker.pytorch.PyTorch",
        {
            "entry_point": "run_clm.py",
            "instance_type": "ml.g5.12xlarge",
            "instance_count": 1,
            "py_version": "py39",
            "framework_version": "1.13.1",
            "image_uri": f"{_AWS}/pytorch-training:1.13.1-gpu-py39",
            "volume_size": 100,
            "metric_definitions": [{"Name": "train_loss", "Regex": "'loss': ([0-9.]*)"}],
            "hyperparameters": {
                "model_type": "gpt2",
                "do_train": True,
                "do_eval": False,
                "output_dir": "/opt/ml/model",
            },
            "distribution": {"pytorchddp": {"enabled": True}},
        },
    ),
    Sample(
        "sm-mlflow_training",
        f"""
run:
  package: {CODE}
  script: train.py
  args: {{max_leaf_nodes: 30}}
  env: {{MLFLOW_TRACKING_ARN: "arn:aws:sagemaker:us-east-1:123456789012:mlflow-tracking-server/m"}}
  launcher: none
image: {{uri: {_AWS}/sagemaker-scikit-learn:1.2-1-cpu-py3}}
workers: {{machine: ml.c4.xlarge, disk: 30GB}}
inputs: {{train: s3://bucket/train}}
limits: {{timeout: 1d}}
targets: {{sagemaker: {{keep_alive: 1h}}}}
""",
        "sagemaker.sklearn.SKLearn",
        {
            "entry_point": "train.py",
            "framework_version": "1.2-1",
            "image_uri": f"{_AWS}/sagemaker-scikit-learn:1.2-1-cpu-py3",
            "instance_type": "ml.c4.xlarge",
            "hyperparameters": {"max_leaf_nodes": 30},
            "keep_alive_period_in_seconds": 3600,
            "environment": {
                "MLFLOW_TRACKING_ARN": "arn:aws:sagemaker:us-east-1:123456789012:"
                "mlflow-tracking-server/m"
            },
        },
        {"train": "s3://bucket/train"},
    ),
    Sample(
        "managed_spot_training_tensorflow_estimator",
        f"""
run: {{package: {CODE}, script: iris_dnn_classifier.py, launcher: none}}
image: {{uri: {_AWS}/tensorflow-training:1.15.4-cpu-py3}}
workers: {{machine: ml.c4.xlarge, disk: 30GB}}
inputs: {{training: s3://bucket/DEMO-tensorflow-iris/}}
limits: {{timeout: 1h, spot: true, queue: 1h}}
targets: {{sagemaker: {{metrics_time_series: true}}}}
""",
        "sagemaker.tensorflow.TensorFlow",
        {
            "entry_point": "iris_dnn_classifier.py",
            "framework_version": "1.15.4",
            "image_uri": f"{_AWS}/tensorflow-training:1.15.4-cpu-py3",
            "py_version": "py3",
            "instance_count": 1,
            "instance_type": "ml.c4.xlarge",
            "use_spot_instances": True,
            "max_run": 3600,
            "max_wait": 7200,
            "model_dir": False,
        },
        {"training": "s3://bucket/DEMO-tensorflow-iris/"},
    ),
    Sample(  # its groups are called dnn_group and data_group there
        "sm-heterogeneous_clusters_for_model_training",
        f"""
run:
  package: {CODE}
  script: launcher.py
  launcher: none
  args: {{batch-size: 8192, num-data-workers: 4, iterations: 100, region: us-east-1}}
image: {{uri: {_AWS}/pytorch-training:1.10.0-gpu-py38}}
workers: {{machine: ml.p3.2xlarge, accelerator: "v100:1", disk: 30GB}}
roles: {{data: {{machine: ml.c5.9xlarge, ends: by-itself}}}}
limits: {{timeout: 1d}}
targets: {{sagemaker: {{metrics_time_series: true}}}}
""",
        "sagemaker.pytorch.PyTorch",
        {
            "entry_point": "launcher.py",
            "image_uri": f"{_AWS}/pytorch-training:1.10.0-gpu-py38",
            "framework_version": "1.10.0",
            "py_version": "py38",
            "instance_groups": [("workers", "ml.p3.2xlarge", 1), ("data", "ml.c5.9xlarge", 1)],
            "hyperparameters": {
                "batch-size": 8192,
                "num-data-workers": 4,
                "iterations": 100,
                "region": "us-east-1",
            },
        },
    ),
    Sample(
        "sm-object_detection_birds",
        """
run: {launcher: none}
image: {uri: "811284229777.dkr.ecr.us-east-1.amazonaws.com/object-detection:1"}
workers: {machine: ml.p3.2xlarge, accelerator: "v100:1", disk: 50GB}
inputs: {train: s3://bucket/train, validation: s3://bucket/validation}
limits: {timeout: 100h}
targets:
  sagemaker:
    channels:
      train: {content_type: application/x-recordio}
      validation: {content_type: application/x-recordio}
    hyperparameters: {base_network: resnet-50, learning_rate: "0.001", lr_scheduler_step: "33,67"}
""",
        "sagemaker.estimator.Estimator",
        {
            "image_uri": "811284229777.dkr.ecr.us-east-1.amazonaws.com/object-detection:1",
            "instance_count": 1,
            "instance_type": "ml.p3.2xlarge",
            "volume_size": 50,
            "max_run": 360000,
            "input_mode": "File",
            "hyperparameters": {
                "base_network": "resnet-50",
                "learning_rate": 0.001,
                "lr_scheduler_step": "33,67",
            },
        },
        {
            name: {"s3_data": f"s3://bucket/{name}", "content_type": "application/x-recordio"}
            for name in ("train", "validation")
        },
    ),
]
