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
A100S = workers(2, "a100-40gb:8")

CASES: dict[str, tuple[Any, list[str]]] = {
    "nothing is said": (
        {"targets": {"vertex": {"project": None, "region": None}}, "outputs": None},
        [
            "error targets.vertex.project: needs a project -> Google Cloud project's ID",
            "error targets.vertex.region: needs a region -> us-central1",
            "error outputs: the results of the job have no location -> gs://",
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
            "error targets.vertex.region: 'mars-1' is not a region of Google Cloud",
            "error targets.vertex.labels.A: 'A' is not valid in a label -> a-z",
            "error workers.accelerator: no machine type has 3 of l4 -> 1, 2, 4, 8",
            "warning limits.queue: only while a command watches it -> do not detach",
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
            "error targets.vertex.region: 'us-central1-a' is not a region of Google Cloud -> its "
            "region is us-central1"
        ],
    ),
    "a project that would change the path of the URL": (
        vertex(project="p/../x"),
        ["error targets.vertex.project: 'p/../x' is not a valid name -> write a project ID"],
    ),
    "a repository that cannot be, and more": (
        {
            "image": {"uri": None, "base": "b", "repository": "https://host/x"},
            "workers": {"machine": "none-such"},
        },
        [
            "error workers.machine: 'none-such' is not a known machine type of Vertex AI",
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
            "error inputs.a: target vertex cannot reach s3://bucket/x; it supports gs:// -> --set inputs.a=gs://BUCKET/PATH",
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
            "error targets.vertex.nfs.a/b: 'a/b' must be a single folder below /mnt/nfs",
            "error targets.vertex.lustre...: '..' must be a single folder below /mnt/lustre",
            "error targets.vertex.nfs.a/b.path: 'share' is not an absolute path -> '/'",
        ],
    ),
    "many variables": (
        {"run": {"env": {f"V{i}": "x" for i in range(97)}}},
        [
            "error run.env: at most 100 variables, but these are 101: 97 from run.env and 4 from "
            "rsctl"
        ],
    ),
    "a variable of the platform's": (
        {"run": {"env": {"CLUSTER_SPEC": "{}"}}},
        ["error run.env.CLUSTER_SPEC: Vertex AI sets CLUSTER_SPEC itself"],
    ),
    "spot without checkpoints": (
        merged(A100S, {"limits": {"spot": True}}),
        [
            "warning limits.spot: up to 6 times ... starts from the beginning each time -> set "
            "checkpoints"
        ],
    ),
    "spot and not spot": (
        {"limits": {"spot": True, "retries": 1}, **vertex(capacity="standard")},
        [
            "error targets.vertex.capacity: limits.spot requests spot machines, but capacity "
            "requests standard"
        ],
    ),
    "flex start without GPUs": (
        vertex(capacity="flex-start"),
        ["error targets.vertex.capacity: l4, a100-40gb -> standard"],
    ),
    "flex start with old GPUs": (
        merged(workers(2, "v100:8"), vertex(capacity="flex-start")),
        ["error targets.vertex.capacity: flex start supports only these GPUs: l4, a100-40gb"],
    ),
    "flex start for longer than a week": (
        merged(A100S, {"limits": {"timeout": "8d"}, **vertex(capacity="flex-start")}),
        ["error limits.timeout: can run for at most 7d, not 8d -> 7d"],
    ),
    "labels": (
        vertex(labels={"rsctl-run": "x", "ok_1-a": "x" * 64, "b": "x" * 65, "c": "Über"}),
        [
            "error targets.vertex.labels.rsctl-run: rsctl sets rsctl-run itself",
            "error targets.vertex.labels.b: is not valid in a label -> at most 64",
            "error targets.vertex.labels.c: is not valid in a label -> a-z",
        ],
    ),
    "TensorBoard without a service account": (
        vertex(tensorboard="7"),
        [
            "error targets.vertex.tensorboard: TensorBoard needs your own service account -> "
            "service_account"
        ],
    ),
    "TensorBoard elsewhere": (
        vertex(tensorboard="projects/p/locations/us-east1/tensorboards/7", **ACCOUNT),
        ["warning targets.vertex.tensorboard: it is in us-east1, but the job is in us-central1"],
    ),
    "an experiment with a TensorBoard": (
        vertex(tensorboard="7", experiment="e", **ACCOUNT),
        ["error targets.vertex.tensorboard: experiment and tensorboard cannot be combined"],
    ),
    "an experiment without a service account": (
        vertex(experiment="e"),
        [
            "warning targets.vertex.experiment: an experiment needs your own service account -> "
            "service_account"
        ],
    ),
    "a run of no experiment": (
        vertex(experiment_run="r"),
        ["error targets.vertex.experiment_run: a run must belong to an experiment"],
    ),
    "a network by its project's id": (
        vertex(network="projects/my-project/global/networks/vpc"),
        [
            "error targets.vertex.network: is not a valid name -> the project's number instead of "
            "its ID"
        ],
    ),
    "ranges of no network": (
        vertex(reserved_ip_ranges=["r"]),
        ["error targets.vertex.reserved_ip_ranges: the ranges must belong to a network"],
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
