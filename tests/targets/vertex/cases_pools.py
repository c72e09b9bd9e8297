"""Forty jobs that differ in machines and reducers."""

from __future__ import annotations

from .case_parts import (
    A2_2,
    A100,
    A100_80,
    ENV_RDMA,
    H100,
    L4,
    POOL,
    RESERVATION,
    SPEC_A2_2,
    T4,
    V100,
    Case,
    google,
    gpus,
    own,
    vertex,
    workers,
)
from .rendering import GOOGLE_REDUCERS

MACHINES = [
    Case("one CPU node", {}),
    Case("two CPU nodes", workers(2), {"replica_count": 2}),
    Case("forty CPU nodes", workers(40), {"replica_count": 40}),
    Case(
        "a machine by its name",
        workers(2, machine="c2-standard-30"),
        {"replica_count": 2, "machine_type": "c2-standard-30"},
    ),
    Case(
        "a machine for this target",
        workers(machine={"vertex": "n2-standard-16", "sagemaker": "ml.m5.large"}),
        {"machine_type": "n2-standard-16"},
    ),
    Case("one T4", workers(1, "t4"), gpus(T4, 1, "n1-standard-4")),
    Case("four T4", workers(1, "t4:4"), gpus(T4, 4, "n1-standard-16")),
    Case(
        "T4 on a chosen machine",
        workers(3, "t4:2", machine="n1-highmem-32"),
        gpus(T4, 2, "n1-highmem-32", 3),
    ),
    Case("one P4", workers(1, "p4:1"), gpus("NVIDIA_TESLA_P4", 1, "n1-standard-4")),
    Case("one V100", workers(1, "v100:1"), gpus(V100, 1, "n1-standard-4")),
    Case("eight V100", workers(2, "v100:8"), gpus(V100, 8, "n1-standard-32", 2)),
    Case("one L4", workers(1, "l4:1"), gpus(L4, 1, "g2-standard-4")),
    Case("two L4", workers(4, "l4:2"), gpus(L4, 2, "g2-standard-24", 4)),
    Case(
        "a large machine with one L4",
        workers(1, "l4:1", machine="g2-standard-32"),
        gpus(L4, 1, "g2-standard-32"),
    ),
    Case("eight L4", workers(1, "l4:8"), gpus(L4, 8, "g2-standard-96")),
    Case("one A100", workers(1, "a100-40gb"), gpus(A100, 1, "a2-highgpu-1g")),
    Case("eight A100", SPEC_A2_2, A2_2),
    Case("sixteen A100", workers(1, "a100-40gb:16"), gpus(A100, 16, "a2-megagpu-16g")),
    Case("A100 of 80 GB", workers(2, "a100-80gb:4"), gpus(A100_80, 4, "a2-ultragpu-4g", 2)),
    Case("one H100", workers(1, "h100:1"), gpus(H100, 1, "a3-highgpu-1g")),
    Case("eight H100", workers(4, "h100:8"), gpus(H100, 8, "a3-highgpu-8g", 4)),
    Case(
        "H100 Mega",
        workers(4, "h100:8", machine="a3-megagpu-8g"),
        gpus("NVIDIA_H100_MEGA_80GB", 8, "a3-megagpu-8g", 4),
    ),
    Case(
        "H200, whose nodes need Google's script for NCCL",
        workers(2, "h200:8"),
        gpus("NVIDIA_H200_141GB", 8, "a3-ultragpu-8g", 2, environment_variables=ENV_RDMA),
    ),
    Case("one node of H200", workers(1, "h200:8"), gpus("NVIDIA_H200_141GB", 8, "a3-ultragpu-8g")),
    Case(
        "B200",
        workers(2, "b200:8"),
        gpus("NVIDIA_B200", 8, "a4-highgpu-8g", 2, environment_variables=ENV_RDMA),
    ),
    Case(
        "GB200, by reservation only",
        workers(2, "gb200:4") | vertex(reservation=[RESERVATION]),
        gpus(
            "NVIDIA_GB200",
            4,
            "a4x-highgpu-4g",
            2,
            reservation_affinity_type="SPECIFIC_RESERVATION",
            reservation_affinity_key="compute.googleapis.com/reservation-name",
            reservation_affinity_values=[RESERVATION],
            environment_variables=ENV_RDMA,
        ),
    ),
    Case(
        "RTX PRO 6000",
        workers(2, "rtx-pro-6000:2"),
        gpus("NVIDIA_RTX_PRO_6000", 2, "g4-standard-96", 2),
    ),
]

REDUCERS = [
    Case(
        "the documentation's first example",
        workers(5, "v100:8", machine="n1-highmem-96") | POOL,
        gpus(V100, 8, "n1-highmem-96", 5) | google(16),
    ),
    Case(
        "the documentation's second example",
        workers(8, "a100-40gb:16") | POOL,
        gpus(A100, 16, "a2-megagpu-16g", 8) | google(25),
    ),
    Case(
        "a number of reducers",
        SPEC_A2_2 | {"reducers": {"count": 3}},
        A2_2 | google(3),
    ),
    Case("a single reducer", SPEC_A2_2 | {"reducers": {"count": 1}}, A2_2 | google(1)),
    Case(
        "another reducer machine",
        SPEC_A2_2 | {"reducers": {"count": "auto", "machine": "n2-highcpu-32"}},
        A2_2 | google(7, machine="n2-highcpu-32"),
    ),
    Case(
        "reducers in Europe",
        workers(2, "a100-40gb:8") | POOL | vertex(region="europe-west4"),
        A2_2 | google(7, GOOGLE_REDUCERS.replace("us-", "europe-", 1)),
    ),
    Case(
        "reducers in Asia",
        workers(2, "a100-40gb:8") | POOL | vertex(region="asia-southeast1"),
        A2_2 | google(7, GOOGLE_REDUCERS.replace("us-", "asia-", 1)),
    ),
    Case(
        "reducers in the Middle East",
        workers(2, "a100-40gb:8") | POOL | vertex(region="me-west1"),
        A2_2 | google(7, GOOGLE_REDUCERS.replace("us-", "europe-", 1)),
    ),
    Case(
        "reducers for L4",
        workers(4, "l4:4") | POOL,
        gpus(L4, 4, "g2-standard-48", 4) | google(7),
    ),
    Case(
        "our reducers for CPU nodes",
        workers(4) | POOL,
        {"replica_count": 4} | own(2),
    ),
    Case(
        "our reducers for GPUs",
        SPEC_A2_2 | POOL | {"comm": {"backend": "rsctl", "on_reducer_loss": "fallback"}},
        A2_2 | own(7, loss="fallback", RSCTL_COMM_BACKEND="rsctl"),
    ),
    Case(
        "our reducers on a machine of choice",
        workers(2, machine="n1-standard-16")
        | {"reducers": {"count": 2, "machine": "n2-highcpu-16"}},
        {"replica_count": 2, "machine_type": "n1-standard-16"} | own(2, "n2-highcpu-16"),
    ),
    Case(
        "reducers on the workers' own machines' bandwidth by number",
        workers(2, "h100:8") | {"reducers": {"count": 4}},
        gpus(H100, 8, "a3-highgpu-8g", 2) | google(4),
    ),
    Case(
        "reservations are the workers' affair",
        SPEC_A2_2 | POOL | vertex(reservation=[RESERVATION]),
        A2_2
        | google(7)
        | {
            "reservation_affinity_type": "SPECIFIC_RESERVATION",
            "reservation_affinity_key": "compute.googleapis.com/reservation-name",
            "reservation_affinity_values": [RESERVATION],
        },
    ),
]
