"""The collective backend that `init_process_group` starts: the spec's, if it names one."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, MutableMapping
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from rsctl.transport.pytorch.report import print_line
from rsctl.transport.pytorch.settings import BindingError, CommSettings

KEY = "comm.backend"
_SMDDP = "smdistributed.dataparallel.torch.torch_smddp"


def wrap_init_process_group(real: Callable[..., Any], comm: CommSettings) -> Callable[..., Any]:
    """An `init_process_group` that starts the backend of the spec in place of the script's.

    The spec wins over the script: it is the statement about this very run, and what it replaces is
    shown. Without a backend in the spec, the script's own stays.
    """
    signature = inspect.signature(real)

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        separate_attempts(call.arguments)
        if comm.backend is not None:
            asked = call.arguments.get("backend")
            require(comm.backend)
            call.arguments["backend"] = comm.backend
            _report(comm.backend, asked, _drop_foreign(call.arguments, comm.backend, asked))
        elif str(call.arguments.get("backend")).lower() == "rsctl":
            require("rsctl")
        return real(*call.args, **call.kwargs)

    return init_process_group


def require(name: str) -> None:
    """Raise BindingError if this interpreter does not have the backend."""
    if name == "nccl" and not dist.is_nccl_available():
        remedy = "Set comm.backend: gloo, or use an image with a CUDA build of torch."
        raise BindingError(KEY, "this build of torch has no NCCL", remedy)
    if name == "gloo" and not dist.is_gloo_available():
        remedy = "Set comm.backend: auto, or use another build of torch."
        raise BindingError(KEY, "this build of torch has no gloo", remedy)
    if name == "smddp":
        _load_smddp()
    if name == "rsctl" and _is_sent_to_torchcomms():
        message = "torch.distributed sends every backend to torchcomms, which does not have rsctl"
        remedy = "Unset TORCH_DISTRIBUTED_USE_TORCHCOMMS, or set comm.backend: auto."
        raise BindingError(KEY, message, remedy, "torchcomms")


def _is_sent_to_torchcomms() -> bool:
    """Whether torchcomms is enabled and takes backends that it does not have, as in PyTorch 2.13.

    2.14 leaves these to who registered them.
    """
    is_enabled = getattr(dist.distributed_c10d, "_use_torchcomms_enabled", None)
    is_asked = hasattr(dist.distributed_c10d, "_torchcomms_handles_backend")
    return is_enabled is not None and is_enabled() and not is_asked


def register(comm: CommSettings) -> None:
    """Make `rsctl` a backend that a script may name."""
    from rsctl.transport.pytorch.process_group import ReducerGroup, create

    ReducerGroup.comm = comm
    dist.Backend.register_backend("rsctl", create, devices=["cpu", "cuda"])


def separate_attempts(arguments: MutableMapping[str, Any]) -> None:
    """Give this attempt's `init_process_group` a key prefix of its own in torchrun's store.

    torchrun keeps its store over restarts, and PyTorch (seen with 2.13) uses the same keys in each:
    workers find the addresses of those that have ended, and fail or hang. The first attempt is left
    alone, as is a script that brings a store or a rendezvous of its own.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    if arguments.get("store") is not None or arguments.get("init_method") not in (None, "env://"):
        return
    world = int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, world, is_master=False)
    if arguments.get("timeout") is not None:
        store.set_timeout(arguments["timeout"])
    arguments.pop("init_method", None)
    arguments["store"] = PrefixStore(f"rsctl/attempt-{attempt}", store)
    arguments["world_size"], arguments["rank"] = world, int(os.environ["RANK"])


def _load_smddp() -> None:
    """SageMaker's library registers its backend when it is imported."""
    try:
        importlib.import_module(_SMDDP)
    except Exception as error:
        message = f"SageMaker's data parallel library cannot be loaded: {error}"
        remedy = "Use an AWS deep learning container as image.base, or set comm.backend: nccl."
        raise BindingError(KEY, message, remedy) from error


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


def _report(name: str, asked: object, dropped: list[str]) -> None:
    text = f"process group: backend {name}"
    if asked is not None and str(asked).lower() != name:
        text += f" instead of the script's {asked}"
    if dropped:
        text += f", without its {' and '.join(dropped)}"
    print_line(text)
