"""Jobs of Google's samples, which start their images themselves: nothing of rsctl is in there.

Source: GoogleCloudPlatform/vertex-ai-samples@cc0d791ef, each in the file that its title names, and
GoogleCloudPlatform/ai-platform-samples@09f667e. Vertex AI restarts their workers by its own rule,
which is `limits.restarts: platform`. rsctl's own variables are in their containers, too.
"""

from __future__ import annotations

from typing import Any

from tests.kit.rendering import merged

from .case_parts import ACCOUNT, H100, T4, TENSORBOARD, V100, Case, google, vertex
from .rendering import URI

_IMAGE = {"container_uri": URI}
_LOGS = {"tensorboard": TENSORBOARD, "service_account": ACCOUNT}


def _spec(run: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"run": {"command": None, "launcher": "none", **run}}
    spec["limits"] = {"restarts": "platform"}
    for each in more:
        spec = merged(spec, each)
    return spec


def _sdk(args: list[str], machine: str, count: int = 1, **more: Any) -> dict[str, Any]:
    own = {"machine_type": machine, "replica_count": count, "disable_retries": False}
    return {**own, "args": args, **more}


def _on(machine: str, count: int = 1, accelerator: str | None = None, **more: Any) -> Any:
    gpus = {} if accelerator is None else {"accelerator": accelerator}
    return {"workers": {"machine": machine, "count": count, **gpus, **more}}


_GLOO = ["--backend", "gloo", "--no-cuda", "--batch-size", "128", "--epochs", "25"]
_DASK = ["--dataset-source", "gs://vtx-datasets-public/cover_type_4Mrows.csv",
         "--num-gpu-per-worker", "4", "--threads-per-worker", "4"]  # fmt: skip
_NEMO = ["--train_data_gcs=gs://data", "megatron_gpt_pretraining.py", "--config-path=conf/",
         "+exp_manager.create_tensorboard_logger=true", "trainer.num_nodes=2",
         "model.data.data_prefix=[1.0,/data/hfbpe_gpt_training_data_text_document]"]  # fmt: skip
_FORECAST = ["--num_samples=2", "--horizon_hrs=72", "--forecast_init_time=2025-11-20T00:00:00Z"]

SAMPLES = [
    Case(
        "multi_node_ddp_gloo_vertex_training_with_custom_container",
        _spec(
            {"args": _GLOO},
            _on("n1-standard-4", 4),
            vertex(tensorboard="77", service_account=ACCOUNT),
        ),
        _sdk(_GLOO, "n1-standard-4", 4, **_LOGS),
        container=_IMAGE,
    ),
    Case(
        "get_started_with_distributed_training_xgboost",
        _spec(
            {"command": ["python3", "trainer/task.py"], "args": _DASK},
            _on("n1-standard-4", 1, "t4:4"),
        ),
        _sdk(_DASK, "n1-standard-4", accelerator_type=T4, accelerator_count=4),
        container={**_IMAGE, "command": ["python3", "trainer/task.py"]},
    ),
    Case(
        "xgboost_data_parallel_training_on_cpu_using_dask",
        _spec({}, _on("n1-standard-4", 2), vertex(dashboard_access=True, web_access=True)),
        _sdk([], "n1-standard-4", 2, enable_dashboard_access=True, enable_web_access=True),
        container=_IMAGE,
    ),
    Case(
        "a3mega/llama-3-8b-nemo-pretraining/scripts/launch.py",
        _spec(
            {"command": ["python3", "vdt/run.py"], "args": _NEMO},
            _on("a3-megagpu-8g", 2, "h100:8", disk="1000GB"),
            vertex(web_access=True, capacity="flex-start", restart="job"),
        ),
        _sdk(
            _NEMO,
            "a3-megagpu-8g",
            2,
            accelerator_type="NVIDIA_H100_MEGA_80GB",
            accelerator_count=8,
            enable_web_access=True,
            boot_disk_size_gb=1000,
            restart_job_on_worker_restart=True,
            scheduling_strategy="FLEX_START",
        ),
        container={**_IMAGE, "command": ["python3", "vdt/run.py"]},
    ),
    Case(
        "weathernext_2_dws",
        _spec(
            {"args": _FORECAST},
            _on("a3-highgpu-1g", 2, "h100:1"),
            vertex(capacity="flex-start"),
        ),
        _sdk(
            _FORECAST,
            "a3-highgpu-1g",
            2,
            accelerator_type=H100,
            accelerator_count=1,
            scheduling_strategy="FLEX_START",
        ),
        container=_IMAGE,
    ),
    Case(
        "00_persistent_resource_getting_started_sdk",
        _spec(
            {},
            _on("n1-standard-4"),
            {"limits": {"restarts": "never", "timeout": "1h"}},
            vertex(persistent_resource="pool-1", labels={"presistent_resource_job": "true"}),
        ),
        _sdk([], "n1-standard-4", persistent_resource_id="pool-1", timeout=3600)
        | {"disable_retries": True},
        {"labels": {"presistent_resource_job": "true"}},
        container=_IMAGE,
    ),
    Case(
        "training/horovod/scripts/train-vertex.sh",
        _spec(
            {},
            _on("n1-highmem-96", 2, "v100:8"),
            {"reducers": {"count": 6, "machine": "n1-highcpu-16"}},
        ),
        _sdk([], "n1-highmem-96", 2, accelerator_type=V100, accelerator_count=8, **google(6)),
        container=_IMAGE,
    ),
    Case(
        "get_started_with_vertex_distributed_training",
        _spec(
            {
                "package": "gs://bucket/trainer_boston.tar.gz",
                "module": "trainer.task",
                "args": ["--epochs=5", "--batch_size=16", "--distribute=multiworker"],
            },
            _on("n1-standard-4", 4, "t4:1"),
        ),
        _sdk(
            ["--epochs=5", "--batch_size=16", "--distribute=multiworker"],
            "n1-standard-4",
            4,
            accelerator_type=T4,
            accelerator_count=1,
            environment_variables={},
        ),
        package={
            "python_package_gcs_uri": "gs://bucket/trainer_boston.tar.gz",
            "python_module_name": "trainer.task",
            "container_uri": URI,
        },
    ),
]
