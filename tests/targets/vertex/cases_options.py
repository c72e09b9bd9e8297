"""Jobs that differ in what they run and in what Vertex AI is to know of them."""

from __future__ import annotations

from tests.kit.rendering import RUN

from .case_parts import (
    A2_2,
    ACCOUNT,
    ENV,
    KEY,
    L4,
    NETWORK,
    SPEC_A2_2,
    TENSORBOARD,
    Case,
    gpus,
    launch,
    limits,
    vertex,
    workers,
)

RUN_CASES = [
    Case(
        "arguments as a mapping",
        {"run": {"args": {"epochs": 3, "lr": 2e-05, "fast": True, "slow": False}}},
        {"args": launch(1, "python", "train.py", "--epochs", "3", "--lr", "2e-05", "--fast")},
    ),
    Case(
        "once a node",
        SPEC_A2_2 | {"run": {"launcher": "once"}},
        A2_2 | {"args": launch(8, launcher="once")},
    ),
    Case(
        "ranks by number",
        workers(2, "l4:4", processes=2),
        gpus(L4, 4, "g2-standard-48", 2, args=launch(2)),
    ),
    Case(
        "variables, one of them a secret",
        {"run": {"env": {"NCCL_DEBUG": "INFO", "API_TOKEN": "${TOKEN}"}}},
        {"environment_variables": {"NCCL_DEBUG": "INFO", "API_TOKEN": "hidden", **ENV}},
    ),
    Case(
        "gradients compressed in large buckets",
        workers(2) | {"comm": {"bucket_mb": 64, "compression": "bf16", "backend": "gloo"}},
        {
            "replica_count": 2,
            "environment_variables": {
                "RSCTL_COMM_BACKEND": "gloo",
                "RSCTL_COMM_BUCKET_MB": "64",
                "RSCTL_COMM_COMPRESSION": "bf16",
                **ENV,
            },
        },
    ),
    Case(
        "data",
        {"inputs": {"train": "gs://data/mnli/", "test": "gs://data"}, "checkpoints": "gs://ck/pt"},
        {
            "environment_variables": {
                "RSCTL_INPUT_TRAIN": "/gcs/data/mnli",
                "RSCTL_INPUT_TEST": "/gcs/data",
                **ENV,
                "RSCTL_CHECKPOINT_DIR": "/gcs/ck/pt",
            }
        },
    ),
    Case(
        "data that is copied, and shards",
        {
            "inputs": {
                "a": {
                    "uri": {"vertex": "gs://data/mnli/", "sagemaker": "s3://other"},
                    "mode": "copy",
                },
                "b": {"uri": "gs://data/t-{0..7}.tar", "mode": "copy"},
                "c": "gs://data/t-{0..7}.tar",
                "d": {"uri": "gs://data/t-{0..7}.tar", "mode": "stream"},
            },
        },
        {
            "environment_variables": {
                "RSCTL_INPUT_A": "/var/tmp/rsctl/inputs/a/mnli",
                "RSCTL_INPUT_B": "/var/tmp/rsctl/inputs/b/t-{0..7}.tar",
                "RSCTL_INPUT_C": "/gcs/data/t-{0..7}.tar",
                "RSCTL_INPUT_D": "gs://data/t-{0..7}.tar",
                **ENV,
            },
            "args": [
                *launch(1)[:-3],
                *("--copy", "a=/gcs/data/mnli", "--copy", "b=/gcs/data/t-{0..7}.tar"),
                *("--shards", "b", "--shards", "c", "--shards", "d", "--", "python", "train.py"),
            ],
        },
    ),
    Case(
        "outputs in the staging folder",
        {"outputs": None} | vertex(staging="gs://stage/here/"),
        {
            "base_output_dir": f"gs://stage/here/{RUN}/outputs",
            "environment_variables": ENV
            | {
                "RSCTL_OUTPUT_DIR": f"/gcs/stage/here/{RUN}/outputs",
                "RSCTL_CHECKPOINT_DIR": f"/gcs/stage/here/{RUN}/outputs/checkpoints",
            },
        },
    ),
    Case(
        "a larger disk",
        workers(2, disk="200GB"),
        {"replica_count": 2, "boot_disk_size_gb": 200},
    ),
    Case(
        "another kind of disk",
        workers(disk="1TiB") | vertex(boot_disk="pd-standard"),
        {"boot_disk_size_gb": 1100, "boot_disk_type": "pd-standard"},
    ),
]

OPTIONS = [
    Case("a time limit", limits(timeout="2h"), {"timeout": 7200}),
    Case(
        "retries",
        limits(retries=3, timeout="1h30m"),
        {"disable_retries": False, "restart_job_on_worker_restart": True, "timeout": 5400},
    ),
    Case(
        "spot",
        SPEC_A2_2 | limits(spot=True, retries=1),
        A2_2
        | {
            "disable_retries": False,
            "restart_job_on_worker_restart": True,
            "scheduling_strategy": "SPOT",
        },
    ),
    Case(
        "flex start",
        SPEC_A2_2 | limits(queue="30m") | vertex(capacity="flex-start"),
        A2_2 | {"scheduling_strategy": "FLEX_START", "max_wait_duration": 1800},
    ),
    Case("standard capacity", vertex(capacity="standard"), {"scheduling_strategy": "STANDARD"}),
    Case(
        "any reservation",
        SPEC_A2_2 | vertex(reservation="any"),
        A2_2 | {"reservation_affinity_type": "ANY_RESERVATION"},
    ),
    Case(
        "no reservation",
        SPEC_A2_2 | vertex(reservation="none"),
        A2_2 | {"reservation_affinity_type": "NO_RESERVATION"},
    ),
    Case(
        "a service account, a network, TensorBoard",
        vertex(service_account=ACCOUNT, network=NETWORK, tensorboard="77"),
        {"service_account": ACCOUNT, "network": NETWORK, "tensorboard": TENSORBOARD},
    ),
    Case(
        "shells, a dashboard, a persistent resource",
        vertex(web_access=True, dashboard_access=True, persistent_resource="pool-1"),
        {
            "enable_web_access": True,
            "enable_dashboard_access": True,
            "persistent_resource_id": "pool-1",
        },
    ),
    Case(
        "labels and a key",
        vertex(labels={"team": "nlp"}, encryption_key=KEY),
        custom={"labels": {"team": "nlp"}, "encryption_spec_key_name": KEY},
    ),
    Case(
        "an experiment and a run of it",
        vertex(service_account=ACCOUNT, experiment="exp", experiment_run="first"),
        {"service_account": ACCOUNT},
        {"experiment": "exp", "experiment_run": "first"},
    ),
    Case(
        "Private Service Connect",
        vertex(
            psc={
                "network_attachment": "attached",
                "dns": {"internal.": {"project": "p1", "network": "vpc"}},
            }
        ),
        custom={
            "psc_interface_config": {
                "network_attachment": "attached",
                "dns_peering_configs": [
                    {"domain": "internal.", "target_project": "p1", "target_network": "vpc"}
                ],
            }
        },
    ),
    Case(
        "what the SDK has no word for",
        vertex(
            network=NETWORK,
            reserved_ip_ranges=["range-1"],
            nfs={"data": {"server": "10.0.0.2", "path": "/share"}},
            lustre={"fast": {"ip": "10.0.0.3", "volume": "v-1", "filesystem": "fs"}},
        ),
        {"network": NETWORK},
        lacks=("reservedIpRanges", "nfsMounts", "lustreMounts"),
    ),
]
