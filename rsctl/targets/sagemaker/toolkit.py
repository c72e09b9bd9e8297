"""The ranks that AWS's images start for a package, by the rules of the sagemaker-training toolkit.
Pure.

Its runners start `sagemaker_mpi_num_of_processes_per_host` processes on each node, torchrun's too,
and without that one for each GPU, otherwise one for each NeuronCore, otherwise one. Only the
toolkits of PyTorch's images read `sagemaker_torch_distributed_enabled`; the toolkits of other
frameworks start the program once on each node.

Sources: aws/sagemaker-training-toolkit@3383937, runner.py and environment.py;
aws/sagemaker-pytorch-training-toolkit, training.py; aws/sagemaker-tensorflow-training-toolkit,
training.py, which knows parameter servers, MultiWorkerMirroredStrategy and MPI;
aws/sagemaker-scikit-learn-container and aws/sagemaker-xgboost-container, training.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rsctl.findings import Finding, warning
from rsctl.job.job import Job
from rsctl.job.units import Accelerator
from rsctl.targets.base import Pool

_PROCESSES = "sagemaker_mpi_num_of_processes_per_host"
_WITHOUT_A_SHELL = ("scikit-learn", "xgboost")
_OTHERS = ("tensorflow", "mxnet", "chainer", "scikit-learn", "xgboost")


def uses_shell(image: str) -> bool:
    """Whether an image's toolkit starts the script by a shell, according to the image's name."""
    return not any(name in image.rpartition("/")[2] for name in _WITHOUT_A_SHELL)


def starts_smddp(job: Job) -> bool:
    """Whether AWS's library for data parallelism starts a package's program, by its own mpirun."""
    run = job.run
    return run.package is not None and run.launcher == "mpi" and job.comm.backend == "smddp"


def counts_devices(job: Job) -> bool:
    """Whether the image's toolkit starts a rank for each device that it finds on a node."""
    if job.run.package is None:
        return False
    return job.run.launcher == "torchrun" or starts_smddp(job)


def toolkit_ranks(job: Job, body: Mapping[str, Any], workers: Pool) -> int:
    """The ranks that a request with a package starts on each node of a pool."""
    if job.run.launcher == "none":
        return job.workers.ranks
    if job.run.launcher == "torchrun" and _has_other_framework(job):
        return 1
    if given := _number(body.get("HyperParameters", {}).get(_PROCESSES)):
        return given
    return Accelerator(workers.accelerator).ranks_per_node if workers.accelerator else 1


def framework_findings(job: Job) -> Iterator[Finding]:
    """A warning if the launcher is torchrun and the image has no PyTorch, according to its name."""
    if job.run.launcher != "torchrun" or not _has_other_framework(job):
        return
    image = job.image.uri or job.image.base
    message = f"torchrun requires PyTorch, but {image} has another framework according to its name"
    launcher = "once"
    if job.run.package is not None:
        message += ": its toolkit starts the program once on each node"
        launcher = "none"
    remedy = f"set run.launcher: {launcher}, or mpi for Horovod"
    yield warning("workers", message, remedy, "run.launcher")


def _has_other_framework(job: Job) -> bool:
    name = (job.image.uri or job.image.base or "").rpartition("/")[2].lower()
    return "torch" not in name and any(other in name for other in _OTHERS)


def _number(text: object) -> int:
    """A hyperparameter that is a whole number above 0, otherwise 0."""
    try:
        value = json.loads(str(text)) if text is not None else 0
        return max(0, int(value))
    except (TypeError, ValueError):
        return 0
