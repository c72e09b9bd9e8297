"""Names, limits, data and schedules that Vertex AI would refuse.

A finding each, with its remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .rendering import findings_of, mismatches, vertex, workers

ACCOUNT = {"service_account": "me@p.iam.gserviceaccount.com"}
ECR = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
A100S = workers(2, "a100-40gb:8")

CASES: dict[str, tuple[Any, list[str]]] = {
    "nothing is said": (
        {"targets": {"vertex": {"project": None, "region": None}}, "outputs": None},
        [
            (
                "error targets.vertex.project: target vertex needs a project -> set it to your "
                "Google Cloud project's ID"
            ),
            "error targets.vertex.region: needs a region -> us-central1",
            (
                "error outputs: the results of the job have no location: they are lost when its "
                "machines are deleted -> set outputs: gs://BUCKET/FOLDER, or "
                "targets.vertex.staging"
            ),
        ],
    ),
    "all is wrong at once": (
        merged(
            workers(2, "l4:3"),
            {
                "image": {"uri": None, "base": "b"},
                "limits": {"queue": "1h"},
                "targets": {"vertex": {"region": "mars-1", "labels": {"A": "b"}}},
            },
        ),
        [
            (
                "error targets.vertex.region: 'mars-1' is not a region of Google Cloud -> use a "
                "region such as us-central1"
            ),
            (
                "error targets.vertex.labels.A: 'A' is not valid in a label -> use at most 63 "
                "of a-z, 0-9, '_' and '-'"
            ),
            "error workers.accelerator: no machine type has 3 of l4 -> 1, 2, 4, 8",
            (
                "warning limits.queue: Vertex AI limits the wait for capacity only with flex "
                "start: rsctl cancels a job that waits longer, but only while a command watches "
                "it (submit, watch, logs -f, status --watch) -> do not detach, or set "
                "targets.vertex.capacity: flex-start"
            ),
            "error image.repository: needs a repository",
        ],
    ),
    "a region misspelt": (
        vertex(region="us-centrl1"),
        ["warning targets.vertex.region: 'us-centrl1' -> did you mean us-central1?"],
    ),
    "a region that is new, or none": (
        vertex(region="asia-hills17"),
        ["warning targets.vertex.region: 'asia-hills17' -> check its spelling"],
    ),
    "a secret": (
        {"run": {"env": {"HF_TOKEN": "${TOKEN}", "LR": "1"}}},
        [
            "warning run.env.HF_TOKEN: anyone with permission to describe the job can read "
            "HF_TOKEN -> Secret Manager"
        ],
    ),
    "a zone": (
        vertex(region="us-central1-a"),
        [
            (
                "error targets.vertex.region: 'us-central1-a' is not a region of Google Cloud "
                "-> its region is us-central1"
            )
        ],
    ),
    "a reservation by its short name": (
        {
            **vertex(reservation=["mine", "projects/p-1/zones/us-central1-a/reservations/mine"]),
            "workers": {"accelerator": "l4"},
        },
        [
            "error targets.vertex.reservation[0]: 'mine' is not a reservation's full name -> "
            "write projects/PROJECT/zones/ZONE/reservations/NAME"
        ],
    ),
    "a project that would change the path of the URL": (
        vertex(project="p/../x"),
        [
            (
                "error targets.vertex.project: 'p/../x' is not a valid name -> write a project "
                "ID, such as my-project"
            )
        ],
    ),
    "an image in a private registry of AWS": (
        {
            "image": {"uri": f"{ECR}/train:2.6.0-gpu-py312"},
            "workers": {"count": 2},
            "roles": {
                "ps": {"image": f"{ECR}/redis:7", "command": ["redis-server"]},
                "evaluator": {"image": "redis:7", "command": ["redis-server"]},
            },
        },
        [
            (
                f"error image.uri: Vertex AI cannot pull {ECR}/train:2.6.0-gpu-py312"
                " from a private registry of Amazon ECR -> copy the image to "
                "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME"
            ),
            f"error roles.ps.image: {ECR}/redis:7 ... Amazon ECR -> copy",
        ],
    ),
    "an image that is pushed to a private registry of AWS": (
        {"image": {"uri": None, "base": "b", "repository": {"vertex": f"{ECR}/train"}}},
        [f"error image.repository.vertex: {ECR}/train ... Amazon ECR -> copy"],
    ),
    "images in public registries": (
        {
            "image": {"uri": "public.ecr.aws/deep-learning-containers/pytorch-training:2"},
            "workers": {"count": 2},
            "roles": {"ps": {"image": "docker.io/me/ps:1", "command": ["ps"]}},
        },
        [],
    ),
    "a repository that cannot be, and more": (
        {
            "image": {"uri": None, "base": "b", "repository": "https://host/x"},
            "workers": {"machine": "none-such"},
        },
        [
            (
                "error workers.machine: 'none-such' is not a known machine type of Vertex AI as "
                "of 2026-11-23 -> for a newer one, set the nearest known type here and "
                "machineType in targets.vertex.overlay"
            ),
            "error image.repository: https://host/x",
        ],
    ),
    "smddp": (
        {"comm": {"backend": "smddp"}},
        ["error comm.backend: no SageMaker library -> auto"],
    ),
    "NCCL without GPUs": (
        merged(workers(2), {"comm": {"backend": "nccl"}}),
        ["error comm.backend: needs GPUs"],
    ),
    "comm without our launcher": (
        {"run": {"launcher": "none"}, "comm": {"bucket_mb": 64}},
        ["error comm: needs rsctl-launch -> torchrun"],
    ),
    "no image": (
        {"image": {"uri": None}},
        ["error image: needs an image -> image.base"],
    ),
    "data that is elsewhere": (
        {"inputs": {"a": "s3://bucket/x", "b": "."}, "outputs": "./out"},
        [
            (
                "error inputs.a: target vertex cannot reach s3://bucket/x; it supports gs:// -> "
                "for this target: --set inputs.a=gs://BUCKET/PATH"
            ),
            "error inputs.b: cannot reach",
            "error outputs: cannot reach",
        ],
    ),
    "a disk that is too small": (
        {"workers": {"disk": "50GB"}},
        ["error workers.disk: from 100 to 64000 GB, not 50 -> 100GB"],
    ),
    "mounts that are none": (
        vertex(
            nfs={"a/b": {"server": "s", "path": "share"}},
            lustre={"..": {"ip": "i", "volume": "v", "filesystem": "f"}},
        ),
        [
            (
                "error targets.vertex.nfs.a/b: 'a/b' must be a single folder below /mnt/nfs -> "
                "write a name without '/'"
            ),
            (
                "error targets.vertex.lustre...: '..' must be a single folder below /mnt/lustre "
                "-> write a name without '/'"
            ),
            (
                "error targets.vertex.nfs.a/b.path: 'share' is not an absolute path -> start it "
                "with '/'"
            ),
        ],
    ),
    "many variables": (
        {"run": {"env": {f"V{i}": "x" for i in range(97)}}},
        [
            (
                "error run.env: a container has at most 100 variables, but these are 101: 97 "
                "from run.env and 4 from rsctl -> move some of them to a file in the image"
            )
        ],
    ),
    "a variable of the platform's": (
        {"run": {"env": {"CLUSTER_SPEC": "{}"}}},
        [
            (
                "error run.env.CLUSTER_SPEC: Vertex AI sets CLUSTER_SPEC itself, to identify a "
                "replica -> use another name"
            )
        ],
    ),
    "spot without checkpoints": (
        merged(A100S, {"limits": {"spot": True}}),
        [
            (
                "warning limits.spot: Vertex AI restarts a job when its spot machines are "
                "preempted, up to 6 times, regardless of limits.retries, and it starts from the "
                "beginning each time -> set checkpoints, and let the script resume from them"
            )
        ],
    ),
    "spot and not spot": (
        {"limits": {"spot": True, "retries": 1}, **vertex(capacity="standard")},
        [
            (
                "error targets.vertex.capacity: limits.spot requests spot machines, but "
                "capacity requests standard -> keep one of the two"
            )
        ],
    ),
    "flex start without GPUs": (
        vertex(capacity="flex-start"),
        ["error targets.vertex.capacity: l4, a100-40gb -> standard"],
    ),
    "flex start with old GPUs": (
        merged(workers(2, "v100:8"), vertex(capacity="flex-start")),
        [
            (
                "error targets.vertex.capacity: flex start supports only these GPUs: l4, "
                "a100-40gb, a100-80gb, h100, h200, b200 -> set capacity: standard"
            )
        ],
    ),
    "flex start for longer than a week": (
        merged(A100S, {"limits": {"timeout": "8d"}, **vertex(capacity="flex-start")}),
        [
            (
                "error limits.timeout: a job with flex start can run for at most 7d, not 8d -> "
                "set limits.timeout: 7d"
            )
        ],
    ),
    "a shell on a node that is kept": (
        {"limits": {"keep": "1h"}},
        [
            (
                "warning limits.keep: Vertex AI opens a shell on a kept node only if the job "
                "allows it from its start -> set targets.vertex.web_access: true"
            )
        ],
    ),
    "a shell that the job allows": (
        {"limits": {"keep": "1h"}, **vertex(web_access=True)},
        [],
    ),
    "a label without a key": (
        vertex(labels={"": "x"}),
        ["error targets.vertex.labels.: '' is not valid in a label -> first a letter or digit"],
    ),
    "a label's key that starts with a hyphen": (
        vertex(labels={"-a": "x", "1a": "-x"}),
        ["error targets.vertex.labels.-a: '-a' is not valid in a label -> first a letter or digit"],
    ),
    "more labels than fit beside rsctl's": (
        vertex(labels={f"l{number}": "" for number in range(62)}),
        ["error targets.vertex.labels: at most 61 labels of your own, but these are 62 -> remove"],
    ),
    "labels": (
        vertex(labels={"rsctl-run": "x", "ok_1-a": "x" * 63, "b": "x" * 64, "c": "Über"}),
        [
            (
                "error targets.vertex.labels.rsctl-run: rsctl sets rsctl-run itself -> use "
                "another key"
            ),
            (
                "error targets.vertex.labels.b: "
                "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' is not valid in "
                "a label -> use at most 63 of a-z, 0-9, '_' and '-'"
            ),
            (
                "error targets.vertex.labels.c: 'Über' (in it 'Ü' is U+00DC) is not valid in a "
                "label -> use at most 63 of a-z, 0-9, '_' and '-'"
            ),
        ],
    ),
    "TensorBoard without a service account": (
        vertex(tensorboard="7"),
        [
            (
                "error targets.vertex.tensorboard: TensorBoard needs your own service account, "
                "which writes to it -> set targets.vertex.service_account"
            )
        ],
    ),
    "TensorBoard elsewhere": (
        vertex(tensorboard="projects/p/locations/us-east1/tensorboards/7", **ACCOUNT),
        [
            (
                "warning targets.vertex.tensorboard: it is in us-east1, but the job is in "
                "us-central1 -> use one in us-central1: {region} in its name stands for it"
            )
        ],
    ),
    "an experiment with a TensorBoard": (
        vertex(tensorboard="7", experiment="e", **ACCOUNT),
        [
            (
                "error targets.vertex.tensorboard: experiment and tensorboard cannot be "
                "combined -> keep one; an experiment uses the TensorBoard that backs it"
            )
        ],
    ),
    "an experiment without a service account": (
        vertex(experiment="e"),
        [
            (
                "warning targets.vertex.experiment: an experiment needs your own service "
                "account, which writes to it -> set targets.vertex.service_account"
            )
        ],
    ),
    "a run of no experiment": (
        vertex(experiment_run="r"),
        [
            (
                "error targets.vertex.experiment_run: a run must belong to an experiment -> set "
                "targets.vertex.experiment"
            )
        ],
    ),
    "a network by its project's id": (
        vertex(network="projects/my-project/global/networks/vpc"),
        [
            (
                "error targets.vertex.network: 'projects/my-project/global/networks/vpc' is not "
                "a valid name -> write projects/NUMBER/global/networks/NAME, with the project's "
                "number instead of its ID"
            )
        ],
    ),
    "ranges of no network": (
        vertex(reserved_ip_ranges=["r"]),
        [
            (
                "error targets.vertex.reserved_ip_ranges: the ranges must belong to a network "
                "-> set targets.vertex.network"
            )
        ],
    ),
    "a domain without its dot": (
        vertex(psc={"network_attachment": "a", "dns": {"x.y": {"project": "p", "network": "n"}}}),
        ["error targets.vertex.psc.dns: does not end with a dot -> x.y."],
    ),
    "other names": (
        vertex(
            service_account="me",
            encryption_key="key",
            persistent_resource="No",
            staging="gs://Bucket/a b",
            reservation=["mine"],
        )
        | workers(1, "l4"),
        [
            "error targets.vertex.service_account: 'me'",
            "error targets.vertex.staging: 'gs://Bucket/a b' -> gs://BUCKET/FOLDER",
            "error targets.vertex.persistent_resource: 'No'",
            "error targets.vertex.encryption_key: 'key' -> cryptoKeys",
            "error targets.vertex.reservation[0]: 'mine' -> projects/",
        ],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=list(CASES))
def test_a_rule(tmp_path: Path, changes: Any, expected: list[str]) -> None:
    found = [f for f in findings_of(tmp_path, changes) if f.severity != "note"]
    assert mismatches(found, expected) == []
    assert all(f.remedy for f in found)


def test_a_job_without_a_limit_is_shown_the_default(tmp_path: Path) -> None:
    assert (
        mismatches(
            findings_of(tmp_path, {}),
            ["note limits: Vertex AI ends the job after 7 days, its default -> set limits.timeout"],
        )
        == []
    )
    assert findings_of(tmp_path, {"limits": {"timeout": "2h"}}) == []
