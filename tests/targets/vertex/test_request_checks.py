"""What the service refuses in a request, or NCCL needs on its machines: a finding each.

The same holds for what an overlay makes of a request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .rendering import findings_of, mismatches, render, vertex, workers

H200 = workers(2, "h200:8")
NFS = vertex(nfs={"data": {"server": "10.0.0.2", "path": "/share"}})
NETWORK = "projects/123/global/networks/vpc"
PEERED = vertex(network=NETWORK)
RESERVED = "projects/p-1/zones/us-central1-a/reservations/mine"
SCRIPT = "/usr/local/gib/scripts/set_nccl_env.sh"
ABOUT_RDMA = f"note workers.machine: RDMA of 3200 Gbit/s ... {SCRIPT}: rsctl-launch sets them"
CPU_CHIEF = {"chief": {"machine": "n2-standard-8", "accelerator": "none"}}


def overlaid(*patch: dict[str, Any]) -> Any:
    return vertex(overlay=list(patch))


def both(*changes: Any) -> Any:
    whole: dict[str, Any] = {}
    for change in changes:
        whole = merged(whole, change)
    return whole


REFUSED = {
    "pd-ssd on H200": (
        both(H200, vertex(boot_disk="pd-ssd")),
        [
            "error targets.vertex.boot_disk: a3-ultragpu-8g supports only the boot disk "
            "hyperdisk-balanced, not pd-ssd -> {chief: hyperdisk-balanced, workers: "
            "hyperdisk-balanced}",
        ],
    ),
    "pd-standard on B200 by overlay": (
        both(
            workers(1, "b200:8"),
            overlaid(
                {
                    "op": "add",
                    "path": "/jobSpec/workerPoolSpecs/0/diskSpec",
                    "value": {"bootDiskType": "pd-standard"},
                }
            ),
        ),
        [
            (
                "error targets.vertex.boot_disk: a4-highgpu-8g supports only the boot disk "
                "hyperdisk-balanced, not pd-standard -> remove it, which selects "
                "hyperdisk-balanced, or set one for each pool: boot_disk: {chief: "
                "hyperdisk-balanced}"
            )
        ],
    ),
    "a disk of a role that does not exist": (
        both(H200, vertex(boot_disk={"worker": "pd-ssd"})),
        ["error targets.vertex.boot_disk.worker: no role 'worker' -> chief, workers, reducers"],
    ),
    "a reservation with flex start": (
        both(workers(1, "l4"), vertex(reservation="any", capacity="flex-start")),
        [
            (
                "error targets.vertex.reservation: flex start does not use machines of a "
                "reservation -> remove it, or set targets.vertex.capacity: standard"
            )
        ],
    ),
    "a reservation with spot machines": (
        both(workers(1, "l4"), vertex(reservation="any", capacity="spot")),
        [
            (
                "error targets.vertex.reservation: spot machines do not use machines of a "
                "reservation -> remove it, or set targets.vertex.capacity: standard"
            )
        ],
    ),
    "a reservation on a persistent resource": (
        both(workers(1, "l4"), vertex(reservation=[RESERVED], persistent_resource="mine")),
        ["error targets.vertex.reservation: that resource's machines -> persistent_resource"],
    ),
    "NFS without a network": (
        NFS,
        [
            (
                "error targets.vertex.nfs: an NFS server is in your network, and the job is not "
                "connected to a network -> set targets.vertex.network, or targets.vertex.psc"
            )
        ],
    ),
    "a peered network for H200": (
        both(H200, PEERED),
        ["error targets.vertex.network: does not peer a3-ultragpu-8g -> targets.vertex.psc"],
    ),
    "a peered network for B200 by overlay": (
        both(
            workers(1, "b200:8"),
            overlaid({"op": "add", "path": "/jobSpec/network", "value": NETWORK}),
        ),
        ["error targets.vertex.network: does not peer a4-highgpu-8g -> targets.vertex.psc"],
    ),
    "a peered network for a3-megagpu-8g": (
        both(workers(1, "h100:8", "a3-megagpu-8g"), PEERED),
        ["error targets.vertex.network: does not peer a3-megagpu-8g -> targets.vertex.psc"],
    ),
    "arguments without an end": (
        {"run": {"args": ["x" * 60_000, "y" * 40_000]}},
        ["error run.args: have 1000 ... must have fewer than 100000 -> put them in a file"],
    ),
    "two nodes of TPUs": (
        workers(2, "v6e:4"),
        ["error workers.count: one worker pool with one replica -> tpu_topology"],
    ),
    "TPUs and reducers": (
        both(workers(2, "v6e:4"), {"reducers": {"count": "auto"}}),
        ["error workers.count: one worker pool with one replica -> tpu_topology"],
    ),
    "TPUs and a role": (
        both(workers(1, "v6e:4"), {"roles": {"ps": {}}}),
        ["error workers.count: one worker pool with one replica -> tpu_topology"],
    ),
    "more TPUs than a host has": (
        workers(1, "v5e:16"),
        ["error workers.accelerator: no machine type has 16 of v5e -> 1, 4, 8 ... tpu_topology"],
    ),
    "TPUs by overlay beside another pool": (
        both(
            workers(2),
            overlaid(
                {
                    "op": "replace",
                    "path": "/jobSpec/workerPoolSpecs/0/machineSpec",
                    "value": {"machineType": "ct5p-hightpu-4t", "tpuTopology": "2x2x1"},
                }
            ),
        ),
        ["error workers.count: one worker pool with one replica -> tpu_topology"],
    ),
    "a slice that the machine cannot be part of": (
        both(workers(1, "v5e:8"), vertex(tpu_topology="4x4")),
        ["error targets.vertex.tpu_topology: ct5lp-hightpu-8t has no topology '4x4' -> 2x4"],
    ),
    "a slice without TPUs": (
        vertex(tpu_topology="4x4"),
        ["error targets.vertex.tpu_topology: n1-standard-4 has no TPUs -> v5e:4"],
    ),
    "spot TPUs": (
        both(workers(1, "v5e:4"), {"limits": {"spot": True}, "checkpoints": "gs://bucket/c"}),
        ["error limits.spot: TPUs are not available as spot machines -> spot: false"],
    ),
    "TPUs with the capacity spot": (
        both(workers(1, "v5e:4"), vertex(capacity="spot")),
        ["error targets.vertex.capacity: TPUs are not available as spot machines -> standard"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(changes: Any, expected: list[str], tmp_path: Path) -> None:
    found = findings_of(tmp_path, changes)
    assert mismatches([finding for finding in found if finding.is_error], expected) == []


def test_a_reservation_that_several_pools_have_is_refused_once(tmp_path: Path) -> None:
    both_pools = both(workers(3, "l4"), vertex(reservation="any", capacity="flex-start"))
    found = findings_of(tmp_path, both_pools)
    assert [one.path for one in found if one.is_error] == ["targets.vertex.reservation"]


ACCEPTED = {
    "no reservation with flex start": both(
        workers(1, "l4"), vertex(reservation="none", capacity="flex-start")
    ),
    "NFS with a network": both(NFS, PEERED),
    "a network for H100": both(workers(1, "h100:8", "a3-highgpu-8g"), PEERED),
    "a network attachment for H200": both(H200, vertex(psc={"network_attachment": "mine"})),
    "long arguments": {"run": {"args": ["x" * 99_000]}},
    "NFS with Private Service Connect": both(NFS, vertex(psc={"network_attachment": "mine"})),
    "NFS with a network by overlay": both(
        NFS,
        overlaid(
            {
                "op": "add",
                "path": "/jobSpec/network",
                "value": "projects/123/global/networks/vpc",
            }
        ),
    ),
    "a chief without GPUs beside workers of eight, whose ranks are not ours": both(
        H200, CPU_CHIEF, {"run": {"launcher": "none"}, "reducers": {"count": 2}}
    ),
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_accepted(changes: Any, tmp_path: Path) -> None:
    assert [f for f in findings_of(tmp_path, changes) if f.is_error] == []


REPLACED = "Vertex AI replaces $(NAME) ... and $$ by $ -> write $$ for each $"
TEXTS = {
    "an apostrophe": (
        {"run": {"env": {"GREETING": "it's"}}},
        ["warning run.env.GREETING: an apostrophe such as in GREETING -> remove the apostrophe"],
    ),
    "an apostrophe of the chief": (
        both(workers(2), {"chief": {"env": {"GREETING": "it's"}}}),
        ["warning chief.env.GREETING: an apostrophe such as in GREETING -> remove the apostrophe"],
    ),
    "an apostrophe after a backslash, and other dollars": (
        {"run": {"env": {"A": "it\\'s $HOME $(date)"}, "args": ["$(hostname)", "$x"]}},
        [],
    ),
    "references": (
        {
            "run": {
                "env": {"A": "$(AIP_MODEL_DIR)", "B": "pa$$word", "C": "$(A)"},
                "args": ["--x=$(RSCTL_RUN)"],
            }
        },
        [f"note {key}: {REPLACED}" for key in ("run.env.A", "run.env.B", "run.env.C", "run.args")],
    ),
    "a secret, whose value is not in the request": (
        {"run": {"env": {"DB_PASSWORD": "it's pa$$word"}}},
        [
            "warning run.env.DB_PASSWORD: an apostrophe such as in DB_PASSWORD -> remove",
            f"note run.env.DB_PASSWORD: {REPLACED}",
        ],
    ),
    "a reference in a command": (
        {"run": {"command": ["sh", "-c", "echo $$"], "launcher": "once"}},
        [f"note run.command: {REPLACED}"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), TEXTS.values(), ids=TEXTS)
def test_texts_that_vertex_ai_changes_or_refuses(
    changes: Any, expected: list[str], tmp_path: Path
) -> None:
    found = findings_of(tmp_path, changes)
    about = [f for f in found if f.code in ("env", "expansion")]
    assert mismatches(about, expected) == []


def test_ranks_of_ours_must_be_equally_many_beside_reducers(tmp_path: Path) -> None:
    found = findings_of(tmp_path, both(workers(2, "l4:4"), CPU_CHIEF, {"reducers": {"count": 2}}))
    assert any(f.is_error and "the same number" in f.message for f in found)


NETWORKS = {
    "RDMA": (H200, [ABOUT_RDMA]),
    "RDMA by overlay": (
        both(
            workers(2, "h100:8"),
            overlaid(
                *(
                    {
                        "op": "replace",
                        "path": f"/jobSpec/workerPoolSpecs/{number}/machineSpec",
                        "value": {
                            "machineType": "a4-highgpu-8g",
                            "acceleratorType": "NVIDIA_B200",
                            "acceleratorCount": 8,
                        },
                    }
                    for number in (0, 1)
                )
            ),
        ),
        [ABOUT_RDMA],
    ),
    "RDMA without rsctl-launch": (
        both(H200, {"run": {"launcher": "none"}}),
        [f"warning run.command: launcher none does not use rsctl-launch -> source {SCRIPT}"],
    ),
    "one node": (workers(1, "h200:8"), []),
    "H100": (
        workers(2, "h100:8"),
        [
            (
                "warning image: a3-highgpu-8g exchanges gradients with GPUDirect-TCPX only if "
                "Google's plugin for NCCL is in the image; without it NCCL uses TCP, at a "
                "fraction of the rate -> install the plugin from "
                "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev in "
                "the image; NCCL_DEBUG=INFO shows which plugin NCCL has loaded"
            )
        ],
    ),
    "H100 Mega": (
        workers(2, "h100:8", "a3-megagpu-8g"),
        [
            (
                "warning image: a3-megagpu-8g exchanges gradients with GPUDirect-TCPXO only if "
                "Google's plugin for NCCL is in the image; without it NCCL uses TCP, at a "
                "fraction of the rate -> install the plugin from "
                "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpxo-dev "
                "in the image; NCCL_DEBUG=INFO shows which plugin NCCL has loaded"
            )
        ],
    ),
    "machines with TCP alone": (workers(2, "a100-40gb:8"), []),
}


def test_machines_that_are_billed_after_the_job(tmp_path: Path) -> None:
    """Google, "Overview of persistent resources": they are billed whether jobs run or not."""
    (found,) = [
        finding
        for finding in findings_of(tmp_path, vertex(persistent_resource="pool-1"))
        if finding.path == "targets.vertex.persistent_resource"
    ]
    assert (found.severity, found.message, found.remedy) == (
        "note",
        "its machines are billed until it is deleted, with and without jobs: neither the cost of "
        "the plan nor limits.cost includes that; type and disks of the machines must be the same "
        "as here",
        "delete it after use: `gcloud ai persistent-resources delete pool-1 --region=us-central1`",
    )


@pytest.mark.parametrize(("changes", "expected"), NETWORKS.values(), ids=NETWORKS)
def test_what_nccl_needs(changes: Any, expected: list[str], tmp_path: Path) -> None:
    found = [f for f in findings_of(tmp_path, changes) if f.code.startswith("nccl-")]
    assert mismatches(found, expected) == []


def test_each_role_has_its_own_boot_disk(tmp_path: Path) -> None:
    disks = {"chief": "pd-ssd", "workers": "hyperdisk-balanced", "reducers": "pd-standard"}
    changes = both(
        H200, CPU_CHIEF, {"reducers": {"count": 2, "disk": "200GB"}}, vertex(boot_disk=disks)
    )
    changes = both(changes, {"run": {"launcher": "none"}})
    pools = render(tmp_path, changes)["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    assert [pool["diskSpec"] for pool in pools] == [
        {"bootDiskType": "pd-ssd"},
        {"bootDiskType": "hyperdisk-balanced"},
        {"bootDiskType": "pd-standard", "bootDiskSizeGb": 200},
    ]


@pytest.mark.parametrize(
    ("accelerator", "topology", "machine"),
    [
        ("v5e:4", None, {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "2x2"}),
        ("v5e:4", "4x4", {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "4x4"}),
        ("v6e:8", None, {"machineType": "ct6e-standard-8t", "tpuTopology": "2x4"}),
        ("tpu7x:4", None, {"machineType": "tpu7x-standard-4t", "tpuTopology": "2x2x1"}),
    ],
)
def test_tpus_are_a_machine_and_a_slice(
    accelerator: str, topology: str | None, machine: dict[str, str], tmp_path: Path
) -> None:
    options = vertex(tpu_topology=topology) if topology else {}
    changes = both(workers(1, accelerator), {"run": {"launcher": "none"}}, options)
    plan = render(tmp_path, changes)
    [pool] = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    assert (pool["machineSpec"], pool["replicaCount"]) == (machine, "1")
    [shown] = plan["pools"]
    assert (shown["accelerator"], plan["world_size"]) == (accelerator, 1)


@pytest.mark.parametrize(
    ("queue", "wait"), [(None, None), ("0", "0s"), ("0s", "0s"), ("2h", "7200s")]
)
def test_flex_start_waits_as_long_as_the_job_says(
    queue: str | None, wait: str | None, tmp_path: Path
) -> None:
    limits = {} if queue is None else {"limits": {"queue": 0 if queue == "0" else queue}}
    changes = both(workers(1, "l4"), vertex(capacity="flex-start"), limits)
    scheduling = render(tmp_path, changes)["request"]["body"]["jobSpec"]["scheduling"]
    assert scheduling.get("maxWaitDuration") == wait
    notes = [f for f in findings_of(tmp_path, changes) if f.path == "limits.queue"]
    assert (
        mismatches(
            notes,
            ["note limits.queue: a day -> set limits.queue; 0 means"] if queue is None else [],
        )
        == []
    )
