"""Reducers that Vertex AI would refuse, or that would be idle, too few, or too many.

A finding each, with its remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .rendering import findings_of, mismatches, vertex, workers


def with_reducers(count: int, accelerator: str | None = None, **more: Any) -> Any:
    return merged({**workers(count, accelerator), "reducers": {"count": "auto"}}, more)


CASES: dict[str, tuple[Any, list[str]]] = {
    "one worker with reducers by number": (
        merged(workers(1, "l4:8"), {"reducers": {"count": 2}}),
        [
            "error reducers.count: at least two workers -> workers.count: 2",
        ],
    ),
    "flex start with reducers": (
        with_reducers(2, "a100-40gb:8", **vertex(capacity="flex-start")),
        ["error reducers.count: the same machine -> reducers.count: 0"],
    ),
    "reducers where RDMA is": (
        with_reducers(2, "h200:8"),
        [
            (
                "error reducers.count: a3-ultragpu-8g has RDMA of 3200 Gbit/s with a separate "
                "plugin for NCCL: reducers are intended for machines without it -> set "
                "reducers.count: 0, or a number to use reducers anyway"
            )
        ],
    ),
    "reducers where RDMA is, all the same": (
        merged(with_reducers(2, "h200:8"), {"reducers": {"count": 9}}),
        [
            (
                "warning reducers.count: a3-ultragpu-8g has RDMA of 3200 Gbit/s with a separate "
                "plugin for NCCL; the combination with reducers is not documented -> set "
                "reducers.count: 0"
            )
        ],
    ),
    "reducers where TCPX is": (
        with_reducers(2, "h100:8"),
        [
            (
                "error reducers.count: a3-highgpu-8g has GPUDirect-TCPX with a separate plugin "
                "for NCCL: reducers are intended for machines without it -> set reducers.count: "
                "0, or a number to use reducers anyway"
            )
        ],
    ),
    "reducers where H100 have no plugin of their own": (with_reducers(2, "h100:4"), []),
    "reducers with GPUs": (
        with_reducers(2, "l4:8", reducers={"machine": "g2-standard-4"}),
        ["error reducers.machine: reducers use no GPU -> n1-highcpu-16"],
    ),
    "narrow reducers": (
        with_reducers(2, "l4:8", reducers={"machine": "e2-highcpu-16"}),
        ["warning reducers.machine: e2-highcpu-16 has 16 Gbit/s -> n1-highcpu-16"],
    ),
    "unknown reducers": (
        with_reducers(2, "l4:8", reducers={"machine": "n1-highcpu-17"}),
        [
            (
                "error reducers.machine: 'n1-highcpu-17' is not a known machine type of Vertex "
                "AI as of 2026-11-23 -> did you mean n1-highcpu-16? for a newer one, set the "
                "nearest known type here and machineType in targets.vertex.overlay"
            )
        ],
    ),
    "reducers on machines of unknown bandwidth": (
        with_reducers(2, workers={"machine": "c2-standard-8"}),
        [
            (
                "error reducers.count: the bandwidth of c2-standard-8 is unknown, so rsctl "
                "cannot size the pool -> set reducers.count to a number"
            )
        ],
    ),
    "Reduction Server by gloo": (
        with_reducers(2, "l4:8", comm={"backend": "gloo"}),
        ["error comm.backend: with gloo its reducers would be idle -> auto"],
    ),
    "Reduction Server that may be lost": (
        with_reducers(
            2,
            "l4",
            image={"uri": None, "base": "b", "repository": "r/x", "transport": "reduction-server"},
            comm={"on_reducer_loss": "fallback"},
        ),
        [
            "error comm.on_reducer_loss: only rsctl's own reducers can be lost without failing the "
            "job -> set comm.on_reducer_loss: fail, or image.transport: rsctl"
        ],
    ),
    "Reduction Server without GPUs": (
        with_reducers(
            2,
            image={"uri": None, "base": "b", "repository": "r/x", "transport": "reduction-server"},
        ),
        [
            (
                "error image.transport: Reduction Server requires workers with GPUs -> set "
                "image.transport: rsctl, which does not need GPUs"
            )
        ],
    ),
    "Reduction Server cannot be done without": (
        with_reducers(2, "l4:8", comm={"on_reducer_loss": "fallback"}),
        ["error comm.on_reducer_loss: only rsctl's own -> fail"],
    ),
    "a switch that turns it off": (
        with_reducers(2, "l4:8", run={"env": {"NCCL_COLLNET_ENABLE": "0"}}),
        [
            (
                "warning run.env.NCCL_COLLNET_ENABLE: NCCL_COLLNET_ENABLE=0 probably disables "
                "Reduction Server -> remove it"
            )
        ],
    ),
    "reducers for a transport that has none": (
        with_reducers(
            2,
            "l4:8",
            image={"uri": None, "base": "b", "repository": "r/x", "transport": "fast-socket"},
        ),
        ["error image.transport: fast-socket does not use reducers -> auto"],
    ),
    "reducers, and nothing of ours, and no GPU": (
        with_reducers(2, run={"launcher": "none"}),
        ["error reducers.count: rsctl-launch -> torchrun"],
    ),
    "backend rsctl without reducers": (
        merged(workers(2), {"comm": {"backend": "rsctl"}}),
        ["error comm.backend: needs reducers"],
    ),
    "two kinds of reducers": (
        with_reducers(
            2,
            "l4:8",
            image={"uri": None, "base": "b", "repository": "r/x", "transport": "reduction-server"},
            comm={"backend": "rsctl"},
        ),
        [
            (
                "error image.transport: comm.backend rsctl uses its own reducers, but the image "
                "has Reduction Server's plugin -> set image.transport: auto"
            )
        ],
    ),
    "spot reducers": (
        with_reducers(2, "l4:8", limits={"spot": True, "retries": 1}),
        [
            (
                "warning limits.spot: the reducers are spot machines too, and the loss of one "
                "stops all workers -> save checkpoints, or set limits.spot: false"
            ),
            (
                "warning limits.spot: Vertex AI restarts a job when its spot machines are "
                "preempted, up to 6 times, regardless of limits.retries, and it starts from the "
                "beginning each time -> set checkpoints, and let the script resume from them"
            ),
        ],
    ),
    "more vCPUs than a project has there": (
        with_reducers(2, "l4:8", **vertex(region="us-east4")),
        ["warning reducers.count: 7 x n1-highcpu-16 have 112 vCPUs ... 20 ... us-east4 -> quota"],
    ),
    "workers and reducers of one quota": (
        with_reducers(16, workers={"machine": "n1-highmem-32"}, **vertex(region="us-east5")),
        ["warning reducers.count: 16 x n1-highmem-32 and 16 x n1-highcpu-16 have 768 ... 450"],
    ),
    "workers of one quota": (
        merged(workers(9, None, "n2-standard-64"), vertex(region="europe-west4")),
        ["warning workers.count: 9 x n2-standard-64 have 576 ... 450 -> n2_cpus"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=list(CASES))
def test_a_rule(tmp_path: Path, changes: Any, expected: list[str]) -> None:
    found = [f for f in findings_of(tmp_path, changes) if f.severity != "note"]
    assert mismatches(found, expected) == []
    assert all(f.remedy for f in found)


NOTES: dict[str, tuple[Any, list[str]]] = {
    "how the pool was sized": (
        with_reducers(5, "v100:8", workers={"machine": "n1-highmem-96"}),
        [
            (
                "note reducers.count: Reduction Server accelerates NCCL's all-reduce, as used "
                "by DDP and between the nodes of hybrid sharding (HSDP); for the reduce-scatter "
                "and all-gather of full sharding (FSDP, ZeRO) no gain is documented"
            ),
            "note comm.bucket_mb: large buckets -> set comm.bucket_mb: 64",
            (
                "note image: the image must contain google-reduction-server, and must not "
                "contain google-fast-socket"
            ),
            "note reducers.count: 16 reducers: 5 workers x 100 Gbit/s / 32 Gbit/s each",
        ],
    ),
    "a bandwidth that is not known for certain": (
        with_reducers(2, "t4:4", comm={"bucket_mb": 64}),
        [
            "note reducers.count: FSDP",
            (
                "note image: the image must contain google-reduction-server, and must not "
                "contain google-fast-socket"
            ),
            "note reducers.count: 2 reducers: 2 workers x 32 Gbit/s / 32 Gbit/s each",
            (
                "note reducers.count: 32 Gbit/s is the bandwidth of n1-standard-16 without "
                "GPUs; its bandwidth with t4:4 is not documented for training, and may be "
                "higher -> set reducers.count if you know the actual bandwidth"
            ),
        ],
    ),
    "fewer than the rule says": (
        with_reducers(8, reducers={"count": 1}),
        ["note reducers.count: 8 workers x 10 Gbit/s / 32 Gbit/s each would be 3 reducers -> auto"],
    ),
    "reducers that may be lost": (
        with_reducers(2, comm={"on_reducer_loss": "fallback"}),
        [
            "note reducers.count: 1 reducer: 2 workers x 10 Gbit/s / 32 Gbit/s each",
            "note comm.on_reducer_loss: the workers continue when the program of a reducer ends "
            "or does not answer; if the container of a reducer fails or its machine is lost, "
            "Vertex AI ends or restarts the job -> set checkpoints and limits.retries",
        ],
    ),
    "no reducers for one": (
        with_reducers(1, "l4"),
        ["note reducers.count: no reducers: ... at least two workers"],
    ),
    "an image that could use reducers": (
        {"image": {"uri": None, "base": "b", "repository": "r/x", "transport": "rsctl"}},
        ["note reducers.count: no reducers, so rsctl in the image is not used"],
    ),
    "a grace that nothing of rsctl gives": (
        {"limits": {"grace": "1m"}, "run": {"launcher": "none"}},
        ["note limits.grace: limits.grace is not used: rsctl-launch is not in the container"],
    ),
    "flex start without a limit of the wait": (
        {**workers(1, "l4"), **vertex(capacity="flex-start")},
        [
            "note limits.queue: by default, flex start waits a day for machines; after that the "
            "job fails -> set limits.queue; 0 means no limit",
            "note workers.count: 1 x g2-standard-4 have 4 vCPUs ... preemptible_cpus -> doctor",
        ],
    ),
    "what a retry is": (
        {"limits": {"retries": 7}},
        [
            (
                "note limits.retries: Vertex AI has no setting for the number of restarts: "
                "rsctl ends the job at restart 8, but only while a command watches it (submit, "
                "watch, logs -f, status --watch). Otherwise Vertex AI's own limits apply: 5 "
                "restarts for a failed worker, here of the whole job, and 3 of the job, together "
                "at most 23 for one worker"
            )
        ],
    ),
    "Vertex AI's own restarts": (
        {"limits": {"restarts": "platform"}},
        [
            (
                "note limits.restarts: Vertex AI's default: a failed worker is restarted up to "
                "5 times, alone, and then the job up to 3 times; rsctl's ranks cannot join a "
                "running job"
            )
        ],
    ),
    "the whole job restarts as often as Vertex AI likes": (
        {"limits": {"restarts": "platform"}, **vertex(restart="job")},
        [
            (
                "note limits.restarts: Vertex AI's default: after a failure of a worker, the "
                "whole job is restarted, up to 5 times for each worker and then up to 3 times "
                "for the job"
            )
        ],
    ),
    "a worker that is restarted alone": (
        {**workers(2), "limits": {"restarts": "platform"}, **vertex(restart="worker")},
        [
            "warning targets.vertex.restart: rsctl's ranks cannot join ... restart: job",
            (
                "note limits.restarts: Vertex AI's default: a failed worker is restarted up to "
                "5 times, alone, and then the job up to 3 times; rsctl's ranks cannot join a "
                "running job"
            ),
        ],
    ),
    "spot with checkpoints": (
        {"limits": {"spot": True}, "checkpoints": "gs://bucket/c"},
        [
            (
                "note limits.spot: Vertex AI restarts a job when its spot machines are "
                "preempted, up to 6 times, regardless of limits.retries"
            ),
            "note workers.count: 1 x n1-standard-4 have 4 vCPUs ... preemptible_cpus -> doctor",
        ],
    ),
    "a persistent resource": (
        with_reducers(2, **vertex(persistent_resource="pool")),
        [
            (
                "note targets.vertex.persistent_resource: the persistent resource must also "
                "have a pool of the reducers' machine type"
            ),
            "note reducers.count: 1 reducer: 2 workers x 10 Gbit/s / 32 Gbit/s each",
            "note targets.vertex.persistent_resource: billed until it is deleted -> delete it",
        ],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), NOTES.values(), ids=list(NOTES))
def test_a_note(tmp_path: Path, changes: Any, expected: list[str]) -> None:
    found = [f for f in findings_of(tmp_path, changes) if f.code != "timeout"]
    assert mismatches(found, expected) == []
