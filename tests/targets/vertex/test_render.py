"""Target vertex: whole plans, as `rsctl plan -o json` prints them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import RsctlError
from tests.kit.rendering import RUN

from .rendering import GOOGLE_REDUCERS, IMAGE, URI, render

URL = (
    "https://us-central1-aiplatform.googleapis.com/v1/projects/my-project/locations/us-central1"
    "/customJobs"
)
LABELS = {"rsctl-run": RUN, "rsctl-job": "job"}
ENV = {
    "RSCTL_OUTPUT_DIR": "/gcs/bucket/runs",
    "RSCTL_CHECKPOINT_DIR": "/gcs/bucket/runs/checkpoints",
    "RSCTL_RUN": RUN,
    "RSCTL_TARGET": "vertex",
}
AWAITED = {"RSCTL_AWAITED_ROLES": "worker", "RSCTL_TOKEN": None}
"""In jobs of several workers, for which the chief's node waits."""

TAIL = {
    "scheduling": {"disableRetries": True},
    "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/runs"},
}


def variables(env: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in env.items()]


def worker(count: int, machine: dict[str, Any], ranks: int) -> dict[str, Any]:
    launch = ["--launcher", "torchrun", "--processes", str(ranks), "--", "python", "train.py"]
    return {
        "machineSpec": machine,
        "replicaCount": str(count),
        "containerSpec": {
            "imageUri": URI,
            "command": ["rsctl-launch"],
            "args": launch,
            "env": variables({**AWAITED, **ENV}),
        },
    }


def google_reducers(count: int) -> dict[str, Any]:
    return {
        "machineSpec": {"machineType": "n1-highcpu-16"},
        "replicaCount": str(count),
        "containerSpec": {"imageUri": GOOGLE_REDUCERS},
    }


def test_the_documentations_first_example(tmp_path: Path) -> None:
    """5 nodes of 100 Gbit/s each need 16 reducers of 32."""
    plan = render(
        tmp_path,
        {
            "workers": {"count": 5, "machine": "n1-highmem-96", "accelerator": "v100:8"},
            "reducers": {"count": "auto"},
        },
    )
    machine = {
        "machineType": "n1-highmem-96",
        "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8,
    }
    pools = [worker(1, machine, 8), worker(4, machine, 8), google_reducers(16)]
    findings, cost = plan.pop("findings"), plan.pop("cost")
    assert cost["per_hour"] == pytest.approx(5 * 29.35 + 16 * 0.652, rel=0.01)
    assert plan == {
        "run": RUN,
        "target": "vertex",
        "image": {"tag": URI, "transport": "reduction-server"},
        "pools": [
            {
                "role": "worker",
                "count": 5,
                "machine": "n1-highmem-96",
                "accelerator": "v100:8",
                "gbps": 100.0,
            },
            {
                "role": "reducer",
                "count": 16,
                "machine": "n1-highcpu-16",
                "accelerator": None,
                "gbps": 32.0,
            },
        ],
        "world_size": 40,
        "env": {**AWAITED, **ENV},
        "request": {
            "method": "POST",
            "url": URL,
            "body": {
                "displayName": RUN,
                "labels": LABELS,
                "jobSpec": {"workerPoolSpecs": pools, **TAIL},
            },
        },
    }
    assert "16 reducers: 5 workers x 100 Gbit/s / 32 Gbit/s each" in [
        finding["message"] for finding in findings
    ]


def test_the_documentations_second_example(tmp_path: Path) -> None:
    """8 nodes of 100 Gbit/s each need 25 reducers of 32."""
    changes = {
        "workers": {"count": 8, "accelerator": "a100-40gb:16"},
        "reducers": {"count": "auto"},
    }
    machine = {
        "machineType": "a2-megagpu-16g",
        "acceleratorType": "NVIDIA_TESLA_A100",
        "acceleratorCount": 16,
    }
    plan = render(tmp_path, changes)
    assert plan["request"]["body"]["jobSpec"] == {
        "workerPoolSpecs": [worker(1, machine, 16), worker(7, machine, 16), google_reducers(25)],
        **TAIL,
    }
    assert plan["world_size"] == 128


def test_cpu_nodes_with_our_reducers_in_an_image_that_is_built(tmp_path: Path) -> None:
    """One container for all roles, its tag in the plan, its secrets left out."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    image = {"uri": None, "base": "python:3.11", "source": "src", "repository": IMAGE}
    changes = {
        "image": image,
        "run": {
            "command": None,
            "script": "train.py",
            "env": {"LR": "1", "HF_TOKEN": "${TOKEN}"},
        },
        "workers": {"count": 2, "machine": "n1-standard-16", "disk": "150GB"},
        "reducers": {"count": "auto"},
        "limits": {"timeout": "2h", "retries": 1},
    }
    plan = render(tmp_path, changes)
    tag = plan["image"]["tag"]
    assert tag.startswith(f"{IMAGE}:")
    assert plan["image"]["transport"] == "rsctl"
    env = {
        "LR": "1",
        "HF_TOKEN": None,
        "RSCTL_ON_REDUCER_LOSS": "fail",
        **AWAITED,
        **ENV,
        "RSCTL_REDUCER_KIND": "rsctl",
    }
    assert plan["env"] == env
    container = {
        "imageUri": tag,
        "args": ["--launcher", "torchrun", "--processes", "1", "--python", "--", "train.py"],
        "env": variables(env),
    }
    worker_pool = {
        "machineSpec": {"machineType": "n1-standard-16"},
        "replicaCount": "1",
        "containerSpec": container,
        "diskSpec": {"bootDiskSizeGb": 150},
    }
    reducers = {
        "machineSpec": {"machineType": "n1-highcpu-16"},
        "replicaCount": "2",
        "containerSpec": container,
    }
    assert plan["request"]["body"]["jobSpec"] == {
        "workerPoolSpecs": [worker_pool, worker_pool, reducers],
        "scheduling": {"timeout": "7200s", "restartJobOnWorkerRestart": True},
        "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/runs"},
    }


def test_reducers_have_disks_and_variables_of_their_own(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 2},
        "run": {"env": {"OMP_NUM_THREADS": "1", "A": "b"}},
        "reducers": {"count": 1, "disk": "150GB", "env": {"OMP_NUM_THREADS": "8"}},
        "image": {"transport": "none"},
        "comm": {"backend": "rsctl"},
    }
    body = render(tmp_path, changes)["request"]["body"]
    chief, _, reducers = body["jobSpec"]["workerPoolSpecs"]
    own = [v for v in chief["containerSpec"]["env"] if v["name"] != "OMP_NUM_THREADS"]
    assert {"name": "OMP_NUM_THREADS", "value": "1"} in chief["containerSpec"]["env"]
    assert reducers == {
        "machineSpec": {"machineType": "n1-highcpu-16"},
        "replicaCount": "1",
        "containerSpec": {
            **chief["containerSpec"],
            "env": [*own, {"name": "OMP_NUM_THREADS", "value": "8"}],
        },
        "diskSpec": {"bootDiskSizeGb": 150},
    }


def test_googles_reducers_have_disks_and_variables_too(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 2, "accelerator": "a100-40gb:8"},
        "reducers": {"count": 4, "disk": "100GB", "env": {"NCCL_DEBUG": "INFO"}},
    }
    plan = render(tmp_path, changes)
    assert plan["request"]["body"]["jobSpec"]["workerPoolSpecs"][2] == {
        "machineSpec": {"machineType": "n1-highcpu-16"},
        "replicaCount": "4",
        "containerSpec": {
            "imageUri": GOOGLE_REDUCERS,
            "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        },
        "diskSpec": {"bootDiskSizeGb": 100},
    }
    assert "reducers.env" in [finding["path"] for finding in plan["findings"]]


@pytest.mark.parametrize(
    ("limits", "restart", "scheduling"),
    [
        ({}, None, {"disableRetries": True}),
        ({"restarts": "never"}, None, {"disableRetries": True}),
        ({"restarts": 2}, None, {"restartJobOnWorkerRestart": True}),
        ({"restarts": 2}, "worker", {}),
        ({"restarts": "platform"}, None, {}),
        ({"restarts": "platform"}, "job", {"restartJobOnWorkerRestart": True}),
    ],
)
def test_who_restarts_what(
    tmp_path: Path, limits: dict[str, Any], restart: str | None, scheduling: dict[str, Any]
) -> None:
    changes = {"limits": {"timeout": "1h", **limits}, "targets": {"vertex": {"restart": restart}}}
    spec = render(tmp_path, changes)["request"]["body"]["jobSpec"]
    assert spec["scheduling"] == {"timeout": "3600s", **scheduling}


def test_nothing_of_ours_in_a_foreign_container(tmp_path: Path) -> None:
    changes = {
        "run": {"launcher": "none", "command": None},
        "outputs": None,
        "workers": {"count": 2},
    }
    plan = render(tmp_path, changes)
    env = {"RSCTL_RUN": RUN, "RSCTL_TARGET": "vertex"}
    assert plan["request"]["body"]["jobSpec"]["workerPoolSpecs"] == [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": "1",
            "containerSpec": {"imageUri": URI, "env": variables(env)},
        }
    ] * 2  # fmt: skip
    assert "baseOutputDirectory" not in plan["request"]["body"]["jobSpec"]


def test_a_foreign_container_with_its_own_plugin_can_have_googles_reducers(tmp_path: Path) -> None:
    changes = {
        "run": {"launcher": "none", "command": ["python", "t.py"], "args": ["a"]},
        "workers": {"count": 2, "accelerator": "l4:8"},
        "reducers": {"count": "auto"},
    }
    plan = render(tmp_path, changes)
    chief, _, reducers = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    assert chief["containerSpec"] == {
        "imageUri": URI,
        "command": ["python", "t.py"],
        "args": ["a"],
        "env": variables(ENV),
    }
    assert reducers == google_reducers(7)
    assert plan["image"] == {"tag": URI, "transport": "reduction-server"}


def test_mounts_and_networks_in_full(tmp_path: Path) -> None:
    options = {
        "network": "projects/123/global/networks/vpc",
        "reserved_ip_ranges": ["range-1"],
        "nfs": {"data": {"server": "10.0.0.2", "path": "/share"}},
        "lustre": {"fast": {"ip": "10.0.0.3", "volume": "v-1", "filesystem": "fs"}},
    }
    changes = {"workers": {"count": 2}, "reducers": {"count": 1}, "targets": {"vertex": options}}
    spec = render(tmp_path, changes)["request"]["body"]["jobSpec"]
    mounts = {
        "nfsMounts": [{"server": "10.0.0.2", "path": "/share", "mountPoint": "data"}],
        "lustreMounts": [
            {
                "instanceIp": "10.0.0.3",
                "volumeHandle": "v-1",
                "filesystem": "fs",
                "mountPoint": "fast",
            }
        ],
    }
    chief, others, reducers = spec["workerPoolSpecs"]
    assert {name: chief[name] for name in mounts} == mounts
    assert {name: others[name] for name in mounts} == mounts
    assert not mounts.keys() & reducers.keys()
    assert spec["network"] == "projects/123/global/networks/vpc"
    assert spec["reservedIpRanges"] == ["range-1"]


@pytest.mark.parametrize(
    "overlay",
    [
        {"jobSpec": {"models": ["m"], "scheduling": None}},
        [
            {"op": "add", "path": "/jobSpec/models", "value": ["m"]},
            {"op": "remove", "path": "/jobSpec/scheduling"},
        ],
    ],
    ids=["merge patch", "json patch"],
)
def test_the_rest_is_had_by_an_overlay(tmp_path: Path, overlay: Any) -> None:
    plain = render(tmp_path, {})["request"]["body"]
    patched = render(tmp_path, {"targets": {"vertex": {"overlay": overlay}}})["request"]["body"]
    del plain["jobSpec"]["scheduling"]
    plain["jobSpec"]["models"] = ["m"]
    assert patched == plain


def test_a_secret_of_an_overlay_is_not_among_the_variables(tmp_path: Path) -> None:
    """It is part of the request, and `validate` warns about it."""
    path = "/jobSpec/workerPoolSpecs/0/containerSpec/env/-"
    entry = {"op": "add", "path": path, "value": {"name": "PASSWORD", "value": "s1"}}
    plan = render(tmp_path, {"targets": {"vertex": {"overlay": [entry]}}})
    assert plan["env"]["PASSWORD"] is None


def test_an_overlay_may_not_lose_the_run(tmp_path: Path) -> None:
    with pytest.raises(RsctlError) as refused:
        render(tmp_path, {"targets": {"vertex": {"overlay": {"labels": {"rsctl-run": "x"}}}}})
    assert [(f.code, f.path) for f in refused.value.findings if f.is_error] == [
        ("overlay", "targets.vertex.overlay")
    ]


def test_planning_imports_no_cloud_library(tmp_path: Path) -> None:
    """Not the SDK, not google-auth, not boto3, not what patches are made with."""
    render(tmp_path, {"workers": {"count": 2, "accelerator": "l4:8"}, "reducers": {"count": 1}})
    script = (
        "import sys\nbefore = set(sys.modules)\nfrom rsctl.cli.app import run\n"
        "code = run(['plan', 'job.yaml', '-t', 'vertex'])\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "heavy = {'google', 'boto3', 'botocore', 'requests', 'jsonpatch', 'torch', 'urllib3'}\n"
        "print(code, sorted(heavy & names))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
