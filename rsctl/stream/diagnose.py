"""Why a job failed, from what its replicas printed: the first failure, its lines, known causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rsctl.findings import Finding, note
from rsctl.stream.metrics import STRUCTURED

_TRACEBACK = "Traceback (most recent call last)"
_MAX_LINES = 30
_PLAIN_LINES = 10


class _Cause(NamedTuple):
    code: str
    pattern: re.Pattern[str]
    message: str
    remedy: str


def _cause(code: str, pattern: str, message: str, remedy: str) -> _Cause:
    return _Cause(code, re.compile(pattern), message, remedy)


_CAUSES = (
    _cause(
        "gpu-memory",
        r"CUDA out of memory|torch\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
        "the GPU ran out of memory",
        "use a smaller batch, gradient checkpointing or bf16, or a larger accelerator",
    ),
    _cause(
        "shared-memory",
        r"insufficient shared memory|bus error|Bus error",
        "the shared memory of the container is full",
        "use fewer data loader workers or raise the container's memory",
    ),
    _cause(
        "memory",
        r"\bMemoryError\b|Cannot allocate memory|DefaultCPUAllocator: can't allocate memory",
        "the node ran out of memory",
        "use a smaller batch or fewer data loader workers, or raise the memory limit",
    ),
    _cause(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout|NCCL timeout|ncclSystemError",
        "a collective operation of NCCL did not end in time",
        "look for a rank that is slow or stuck; NCCL_DEBUG=INFO in run.env tells more",
    ),
    _cause(
        "plugin",
        r"NET/Plugin ?: (No plugin found|Could not find)|Failed to initialize any NET plugin",
        "the NCCL network plugin was not loaded",
        "check image.transport",
    ),
    _cause(
        "module",
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        "a Python module is missing",
        "add it to image.python; on target process install it where rsctl runs",
    ),
    _cause(
        "disk",
        r"No space left on device|Disk quota exceeded",
        "a disk is full",
        "free space, or raise workers.disk",
    ),
    _cause(
        "port",
        r"EADDRINUSE|address already in use",
        "a port is already in use",
        "let torchrun choose MASTER_PORT; do not set one in the script",
    ),
    _cause(
        "entrypoint",
        r'exec: "rsctl-launch": executable file not found',
        "the image does not have rsctl-launch",
        "build it with image.base, or set run.launcher: none",
    ),
    _cause(
        "image",
        r"pull access denied|manifest unknown|No such image|manifest for \S+ not found",
        "the image was not found",
        "check image.uri, and that you are logged in to its registry",
    ),
    _cause(
        "peer",
        r"Connection closed by peer|Connection reset by peer|Broken pipe",
        "a peer went away in the middle of a collective operation",
        "its own log says why",
    ),
)


def failure_lines(lines: Iterable[str]) -> list[str]:
    """The end of a failed replica's log: its last traceback, else its last lines.

    `lines` end where the failure was noticed, so that what a launcher says of it is not in them.
    """
    kept = [line for line in lines if not line.startswith(STRUCTURED)]
    starts = [i for i, line in enumerate(kept) if _TRACEBACK in line]
    if not starts:
        return kept[-_PLAIN_LINES:]
    block = kept[_first_of_chain(kept, starts) :]
    return block if len(block) <= _MAX_LINES else [block[0], "...", *block[-_MAX_LINES:]]


def _first_of_chain(lines: list[str], starts: list[int]) -> int:
    """The last traceback, with those that it says it came from."""
    chosen = starts[-1]
    for start in reversed(starts[:-1]):
        between = "\n".join(lines[start:chosen])
        if not re.search(r"above exception was|During handling of the above", between):
            break
        chosen = start
    return chosen


def known_causes(lines: Iterable[str], exit_code: int, signal: str | None) -> list[Finding]:
    """Known causes of a failure, the most telling first, each with a remedy."""
    text = "\n".join(lines)
    found = []
    for cause in _CAUSES:
        match = cause.pattern.search(text)
        if match:
            named = f": {match[1]}" if match.groups() else ""
            found.append(note(cause.code, cause.message + named, cause.remedy))
    if not found and (signal == "SIGKILL" or exit_code == 137):
        found.append(
            note(
                "killed",
                "it was killed from outside, perhaps because the machine ran out of memory",
                "look at the node's memory in `rsctl metrics`; use a smaller batch",
            )
        )
    if not found and signal == "SIGSEGV":
        found.append(note("crash", "native code crashed", "set PYTHONFAULTHANDLER=1 in run.env"))
    return found
