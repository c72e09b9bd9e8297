"""Which collective backend `init_process_group` starts."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch import attempt
from rsctl.transport.pytorch.report import say
from rsctl.transport.pytorch.settings import BindingError, Wishes

PATH = "comm.backend"
_SMDDP = "smdistributed.dataparallel.torch.torch_smddp"


def initializer(real: Callable[..., Any], wishes: Wishes) -> Callable[..., Any]:
    """An `init_process_group` that starts the backend of the spec in place of the script's.

    The spec wins over the script: it is the statement about this very run, and what it replaces is
    said. Without a backend in the spec, the script's own stays.
    """
    signature = inspect.signature(real)

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        attempt.separate(call.arguments)
        if wishes.backend is not None:
            asked = call.arguments.get("backend")
            require(wishes.backend)
            call.arguments["backend"] = wishes.backend
            _say(wishes.backend, asked, _drop_foreign(call.arguments, wishes.backend, asked))
        return real(*call.args, **call.kwargs)

    return init_process_group


def require(name: str) -> None:
    """Raise BindingError if this interpreter does not have the backend."""
    if name == "nccl" and not dist.is_nccl_available():
        remedy = "Set comm.backend: gloo, or take an image with a CUDA build of torch."
        raise BindingError(PATH, "this build of torch has no NCCL", remedy)
    if name == "gloo" and not dist.is_gloo_available():
        remedy = "Set comm.backend: auto, or take another build of torch."
        raise BindingError(PATH, "this build of torch has no gloo", remedy)
    if name == "smddp":
        _load_smddp()


def register(wishes: Wishes) -> None:
    """Make `rsctl` a backend that a script may name."""
    from rsctl.transport.pytorch.process_group import ReducerGroup, create

    ReducerGroup.wishes = wishes
    dist.Backend.register_backend("rsctl", create, devices=["cpu", "cuda"])


def _load_smddp() -> None:
    """SageMaker's library registers its backend when it is imported."""
    try:
        importlib.import_module(_SMDDP)
    except Exception as error:
        message = f"SageMaker's data parallel library cannot be loaded: {error}"
        remedy = "Take an AWS deep learning container as image.base, or set comm.backend: nccl."
        raise BindingError(PATH, message, remedy) from error


def _drop_foreign(arguments: dict[str, Any], name: str, asked: object) -> list[str]:
    """Take out what only the script's own backend understands; returns the names."""
    if asked is None or str(asked).lower() == name:
        return []
    dropped = [key for key in ("pg_options",) if arguments.get(key) is not None]
    if name == "gloo" and arguments.get("device_id") is not None:
        dropped.append("device_id")
    for key in dropped:
        del arguments[key]
    return dropped


def _say(name: str, asked: object, dropped: list[str]) -> None:
    text = f"process group: backend {name}"
    if asked is not None and str(asked).lower() != name:
        text += f" in place of the script's {asked}"
    if dropped:
        text += f", without its {' and '.join(dropped)}"
    say(text)
