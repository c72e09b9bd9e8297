"""The spec's communication settings, read from the environment that the runtime sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsctl.transport.pytorch.outer import LocalSteps

BACKENDS = ("nccl", "gloo", "rsctl", "smddp")
COMPRESSIONS = ("none", "fp16", "bf16", "int8", "fp8", "powersgd")
REDUCED_ONLY = ("int8", "fp8")
"""The compressions that only reducers can add."""

REDUCER_BUCKET_MB = 64
"""DDP's default bucket size over reducers (MiB)."""

_LARGEST_MB = 4096
_MOST_STEPS = 60


class BindingError(RuntimeError):
    """Something that the spec asks for cannot be done here. Raised in the script, after a finding.

    `key` is the key of the spec, `remedy` what to do about it, `code` that of the finding.
    `reported` is whether the finding has been emitted.
    """

    def __init__(self, key: str, message: str, remedy: str, code: str = "comm-unapplied") -> None:
        super().__init__(f"{key}: {message}. {remedy}")
        self.key = key
        self.message = message
        self.remedy = remedy
        self.code = code
        self.reported = False


@dataclass(frozen=True)
class CommSettings:
    """The `comm:` block and the reducers; None is what the spec leaves to us.

    `bucket_mb` is in MiB, as DDP's `bucket_cap_mb`. `powersgd_start` is the step from which
    PowerSGD compresses, `powersgd_rank` the rank of its approximation. `local` has the settings of
    local steps, None for an exchange in each step. `hook` is MODULE:FUNCTION.
    """

    reducers: int = 0
    backend: str | None = None
    bucket_mb: int | None = None
    compression: str = "none"
    hook: str | None = None
    fallback: bool = False
    powersgd_rank: int = 2
    powersgd_start: int = 100
    local: LocalSteps | None = None


@dataclass(frozen=True)
class MeasureSettings:
    """How many steps of a script are measured, and whether its gradients are exchanged then."""

    steps: int
    communicates: bool = False


def read_measure_settings(environ: Mapping[str, str]) -> MeasureSettings | None:
    """How to measure the script, None for an ordinary run; raises BindingError."""
    steps = read_number(environ, "RSCTL_MEASURE_STEPS", "run.env", 1, _MOST_STEPS)
    if steps is None:
        return None
    communicates = _choice(environ, "RSCTL_MEASURE_COMM", "run.env", ("0", "1"))
    return MeasureSettings(steps, communicates == "1")


def read_settings(environ: Mapping[str, str]) -> CommSettings:
    """Read the environment; raises BindingError for an invalid value."""
    reducers = [name for name in environ.get("RSCTL_REDUCERS", "").split(",") if name.strip()]
    reducer_loss = _choice(
        environ, "RSCTL_ON_REDUCER_LOSS", "comm.on_reducer_loss", ("fail", "fallback")
    )
    return CommSettings(
        reducers=len(reducers),
        backend=_choice(environ, "RSCTL_COMM_BACKEND", "comm.backend", BACKENDS),
        bucket_mb=read_number(environ, "RSCTL_COMM_BUCKET_MB", "comm.bucket_mb", 1, _LARGEST_MB),
        compression=_choice(environ, "RSCTL_COMM_COMPRESSION", "comm.compression", COMPRESSIONS)
        or "none",
        hook=environ.get("RSCTL_COMM_HOOK") or None,
        fallback=reducer_loss == "fallback",
        powersgd_rank=read_number(environ, "RSCTL_POWERSGD_RANK", "run.env", 1, 1024) or 2,
        # Torch allows no compression in the first step together with error feedback.
        powersgd_start=read_number(environ, "RSCTL_POWERSGD_START", "run.env", 2, 10**9) or 100,
    )


def _choice(
    environ: Mapping[str, str], name: str, path: str, allowed: tuple[str, ...]
) -> str | None:
    value = environ.get(name) or None
    if value is not None and value not in allowed:
        raise BindingError(path, f"{name} is {value!r}", f"Use one of {', '.join(allowed)}.")
    return value


def read_number(
    environ: Mapping[str, str], name: str, path: str, least: int, most: int
) -> int | None:
    """A whole number of the environment; None without one. Raises BindingError."""
    text = environ.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
        raise BindingError(path, f"{name} is {text!r}", f"Use a number from {least} to {most}.")
    return int(text)
