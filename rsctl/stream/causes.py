"""Known causes of failed jobs: a table of texts in logs, what they mean, and the remedy."""

from __future__ import annotations

import re

from rsctl.known_errors import (
    NO_IMAGE,
    NO_MEMORY,
    NO_SPACE,
    PULL_DENIED,
    WRONG_ARCHITECTURE,
    KnownError,
)
from rsctl.runtime import stderr_tail

LOST_PEER = "peer"
"""The code of the cause that is an effect: another replica had failed before."""

LESS_MEMORY = "use a smaller batch or fewer data loader workers"
"""What helps a node without memory; how it gets more of it depends on its target."""


def _cause(code: str, pattern: str, summary: str, remedy: str) -> KnownError:
    return KnownError(code, remedy, pattern=re.compile(pattern), summary=summary)


CAUSES = (
    _cause(
        "gpu-memory",
        r"CUDA out of memory|torch\.OutOfMemoryError|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"
        r"|CUDA error: out of memory",
        "the GPU ran out of memory",
        "use a smaller batch, gradient checkpointing or bf16, or a larger accelerator",
    ),
    _cause(
        "gpu-start",
        r"CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED",
        "cuBLAS or cuDNN could not start, most often because the GPU's memory is full",
        "use a smaller batch; if that does not help, check that CUDA, cuDNN and torch in the image "
        "go together",
    ),
    _cause(
        "gpu-hardware",
        r"uncorrectable ECC error|GPU has fallen off the bus",
        "a GPU failed, not the script",
        "submit again; with limits.retries and checkpoints a job goes on by itself",
    ),
    _cause(
        "gpu-binary",
        r"no kernel image is available for execution on th(?:e|is) device",
        "torch, or an extension of it, was not built for this GPU",
        "take an image.base whose torch and CUDA know the GPU, or another workers.accelerator",
    ),
    _cause(
        "driver",
        r"NVIDIA driver on your system is too old|Driver/library version mismatch",
        "CUDA in the image and the driver of the machine do not go together",
        "take an image.base with an older CUDA",
    ),
    _cause(
        "shared-memory",
        r"insufficient shared memory|[Bb]us error|creating shared memory segment",
        "the shared memory of the container is full",
        "use fewer data loader workers or raise the container's memory",
    ),
    _cause(
        "memory",
        rf"{NO_MEMORY}|DataLoader worker \(.*\) is killed by signal: Killed",
        "the node ran out of memory",
        f"{LESS_MEMORY}, or raise the memory limit",
    ),
    _cause(
        "timeout",
        r"Watchdog caught collective operation timeout|NCCL timeout|Timed out waiting \d+ms for",
        "a collective operation did not end in time",
        "look for a rank that is slow, stuck or gone; all must do the same operations in the "
        "same order",
    ),
    _cause(
        "rendezvous",
        r"DistStoreError|Timed out after \d+ seconds waiting for clients"
        r"|client socket has timed out after \d+",
        "not all ranks came together at the start",
        "see the logs of the replicas that are missing",
    ),
    _cause(
        "mismatch",
        r"Detected mismatch between collectives on ranks",
        "ranks did different collective operations",
        "let all ranks take the same way through the script; branches on the rank may only do what "
        "needs no other rank",
    ),
    _cause(
        "unused-parameters",
        r"Expected to have finished reduction in the prior iteration",
        "parameters of the model were not part of the loss",
        "use all of them, or DistributedDataParallel(..., find_unused_parameters=True)",
    ),
    _cause(
        "nccl",
        r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclInvalidUsage"
        r"|NCCL error in: .*(?:unhandled \w+ error|internal error|invalid usage)",
        "NCCL failed",
        "set NCCL_DEBUG=INFO in run.env to see more",
    ),
    _cause(
        "no-gpu",
        r"Found no NVIDIA driver|Torch not compiled with CUDA|No CUDA GPUs are available"
        r"|no GPUs found!",
        "the script wants a GPU and finds none",
        "ask for one by workers.accelerator, or let the script run without",
    ),
    _cause(
        "plugin",
        r"NET/Plugin ?: (No plugin found|Could not find)|Failed to initialize any NET plugin",
        "the NCCL network plugin was not loaded: {names}",
        "check image.transport",
    ),
    _cause(
        "module",
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        "a Python module is missing: {names}",
        "add it to image.python; on target process install it where rsctl runs",
    ),
    _cause(
        "library",
        r"(lib[\w.+-]{1,80}): cannot open shared object file",
        "a system library is missing: {names}",
        "add its package to image.apt",
    ),
    _cause(
        "script",
        r"can't open file '([^'\n]{1,200})': \[Errno 2\]",
        "the script is not there: {names}",
        "name it relative to image.source, and see that .dockerignore does not leave it out",
    ),
    _cause(
        "architecture",
        WRONG_ARCHITECTURE,
        "the image is for another kind of processor than the machine's",
        "build it for the machine's: amd64, or arm64 for Grace and Graviton",
    ),
    _cause(
        "storage-denied",
        r"does not have (storage\.objects\.\w+) access"
        r"|\(AccessDenied\) when calling the (?:Get|Put|Head|List|Delete)Object",
        "the job's account may not do this in the bucket: {names}",
        "give it that permission: to the job's service account on Google Cloud, to the role on AWS",
    ),
    _cause(
        "disk",
        NO_SPACE,
        "a disk is full",
        "free space, or raise workers.disk",
    ),
    _cause(
        "port",
        r"EADDRINUSE|[Aa]ddress already in use",
        "a port is already in use",
        "let torchrun choose MASTER_PORT; do not set one in the script",
    ),
    _cause(
        "entrypoint",
        r'exec: "rsctl-launch": executable file not found',
        "the image does not have rsctl-launch",
        "build it with image.base; on a cloud, image.source brings it along; or set "
        "run.launcher: none; if run.env sets PATH, /usr/local/bin has to be in it",
    ),
    _cause(
        "python",
        r'exec: "python3": executable file not found',
        "the image does not have python3, which unpacks image.source",
        "take an image with Python 3.10 or newer on its PATH, or build on it with image.base",
    ),
    _cause(
        "command",
        r'exec: "(?!rsctl-launch"|python3")([^"\n]{1,200})": executable file not found',
        "the image does not have the command that is to run: {names}",
        "correct run.command; on SageMaker an image without one is started as `train`",
    ),
    _cause(
        "package",
        r"rsctl cannot start the source: |package\.tar\.gz is not what was submitted",
        "image.source could not be had from the staging bucket",
        "let the job's account read the bucket; if the package there is damaged, delete it, and "
        "submit again",
    ),
    _cause(
        "image",
        rf"{PULL_DENIED}|{NO_IMAGE}",
        "the image was not found",
        "check image.uri, and that you are logged in to its registry",
    ),
    _cause(
        LOST_PEER,
        rf"{stderr_tail.LOST_PEER}"
        r"|TransportError: reducer \d+ (?:\([^)]*\) )?(?:ended the run|was lost)",
        "a peer went away in the middle of a collective operation",
        "its own log says why",
    ),
)
"""In the order in which they are shown, the most specific first."""
