"""Jobs for SageMaker, and, for those without reducers, the same in the words of sagemaker-core.

`sdk` are arguments of `TrainingJob.create`, over what all jobs have; None where there are reducers,
for which the SDK is not asked.
"""

from __future__ import annotations

from .case_parts import FSX, VPC, Case, create, launch, on, reducers, starts, workers
from .cases_data import DATA
from .cases_limits import LIMITS
from .cases_run import RUN_CASES
from .rendering import sagemaker

MACHINES = [
    Case("one CPU machine", {}, create()),
    Case("four CPU machines", workers(4), on("ml.m5.xlarge", 4, 30)),
    Case(
        "a CPU machine by name", workers(machine="ml.c8i.96xlarge"), on("ml.c8i.96xlarge", 1, 30)
    ),
    Case("a volume", workers(disk="200GB"), on("ml.m5.xlarge", 1, 200)),
    Case("a volume in GiB", workers(disk="100GiB"), on("ml.m5.xlarge", 1, 108)),
    Case("one T4", workers(1, "t4"), {**on("ml.g4dn.xlarge")}),
    Case("four T4", workers(1, "t4:4"), {**on("ml.g4dn.12xlarge"), **starts(launch(ranks=4))}),
    Case("an L4 on each of two", workers(2, "l4"), on("ml.g6.xlarge", 2)),
    Case("eight V100", workers(2, "v100:8"), {**on("ml.p3.16xlarge", 2, 30),
                                             **starts(launch(ranks=8))}),
    Case("A100", workers(4, "a100-40gb:8"), {**on("ml.p4d.24xlarge", 4),
                                            **starts(launch(ranks=8))}),
    Case("H100", workers(16, "h100:8"), {**on("ml.p5.48xlarge", 16), **starts(launch(ranks=8))}),
    Case("B300", workers(2, "b300:8"), {**on("ml.p6-b300.48xlarge", 2),
                                       **starts(launch(ranks=8))}),
    Case(
        "a GPU machine by name, for SageMaker only",
        workers(2, "a10g:4", machine={"sagemaker": "ml.g5.24xlarge", "vertex": "x"}),
        {**on("ml.g5.24xlarge", 2), **starts(launch(ranks=4))},
    ),
    Case(
        "two ranks a GPU machine", workers(1, "a10g:4", processes=2),
        {**on("ml.g5.12xlarge"), **starts(launch(ranks=2))},
    ),
    Case(
        "a GPU machine with reducers at 0", {**workers(2, "a10g"), "reducers": {"count": 0}},
        on("ml.g5.xlarge", 2),
    ),
    Case(
        "auto on machines with EFA is none",
        {**workers(4, "h100:8"), "reducers": {"count": "auto"}},
        {**on("ml.p5.48xlarge", 4), **starts(launch(ranks=8))},
    ),
]  # fmt: skip

WITH_REDUCERS = [
    Case("reducers by bandwidth", reducers(), None),
    Case("as many reducers as are asked for", reducers(2), None),
    Case("reducers of CPU workers", reducers(2, gpus=None), None),
    Case("reducers for fast workers", reducers(gpus="a10g:8"), None),
    Case("reducers on a machine by name",
         {**reducers(2), "reducers": {"count": 2, "machine": {"sagemaker": "ml.c5n.18xlarge"}}},
         None),
    Case("reducers that may be lost",
         reducers(comm={"on_reducer_loss": "fallback", "backend": "rsctl"}), None),
    Case("reducers, channels and checkpoints",
         reducers(inputs={"a": "s3://bucket/a/", "b": "s3://bucket/b/"},
                  checkpoints="s3://bucket/ckpt"), None),
    Case("reducers beside a file system",
         reducers(inputs={"a": "s3://bucket/a/"},
                  **sagemaker(file_systems={"data": FSX}, **VPC)), None),
    Case("reducers in a VPC, for spot",
         reducers(limits={"spot": True, "queue": "1h"}, **sagemaker(**VPC)), None),
    Case("a secret", {"run": {"env": {"TOKEN": "${TOKEN}"}}, **reducers(1, 2)}, None),
]  # fmt: skip

CASES = [*MACHINES, *RUN_CASES, *DATA, *LIMITS, *WITH_REDUCERS]
