"""Applies the spec to DistributedDataParallel: bucket size and communication hook."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import BuiltinCommHookType
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import powersgd, recording
from rsctl.transport.pytorch.hook import CommHook, dispatch
from rsctl.transport.pytorch.hook_selection import select_hook
from rsctl.transport.pytorch.report import print_once
from rsctl.transport.pytorch.settings import REDUCER_BUCKET_MB, BindingError, CommSettings

_DEFAULT_BUCKET_MB = 25
_GRADIENTS = "gradients of DistributedDataParallel"
_hooks: weakref.WeakKeyDictionary[DistributedDataParallel, CommHook] = weakref.WeakKeyDictionary()
_real: dict[str, Callable[..., Any]] = {}
wrapped_models = 0
"""How many models have had the spec applied."""


def wrap_constructor(real: Callable[..., Any], comm: CommSettings) -> Callable[..., Any]:
    """A `DistributedDataParallel.__init__` that applies the spec."""
    signature = inspect.signature(real)

    def __init__(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        call = signature.bind(self, *args, **kwargs)
        buckets = _set_bucket_size(call.arguments, signature, comm)
        real(*call.args, **call.kwargs)
        if comm.local is not None:
            _take_local_steps(self)
            return
        _register_hook(self, comm, buckets)

    return __init__


def wrap_register_comm_hook(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `register_comm_hook` that lets the script's own hook replace ours."""
    _real["register_comm_hook"] = real

    def register_comm_hook(
        self: DistributedDataParallel, state: object, hook: Callable[..., Any]
    ) -> None:
        _refuse_hook(hook)
        ours = _hooks.pop(self, None)
        ordered = powersgd.orders(state, hook)
        if ours is None:
            real(self, state, ordered)
            return
        self._check_comm_hook(hook)  # type: ignore[no-untyped-call]
        ours.replace(state, ordered)
        self._comm_hooks.append((hook, state))
        _report_script_hook(self, _name(hook), ours.buckets)

    return register_comm_hook


def wrap_join_hook(real: Callable[..., Any], comm: CommSettings) -> Callable[..., Any]:
    """A `join_hook` that refuses averages over ranks that still have batches: hooks count all."""

    def join_hook(self: DistributedDataParallel, **kwargs: Any) -> Any:
        name = "comm.hook" if comm.hook is not None else "comm.compression"
        if comm.hook is None and comm.compression == "none":
            name = "reducers"
        is_asked = name != "reducers" or comm.reducers or comm.backend == "rsctl"
        if is_asked and self in _hooks and not kwargs.get("divide_by_initial_world_size", True):
            message = "join(divide_by_initial_world_size=False) divides gradients by the number of "
            message += f"ranks that still have batches, and with {name} all ranks count"
            remedy = f"Leave the argument out, or remove {name}."
            raise BindingError(name, message, remedy)
        return real(self, **kwargs)

    return join_hook


def wrap_register_builtin_comm_hook(real: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the hooks that are built into DDP in C++."""
    equivalents = {
        BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
        BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
    }

    def _register_builtin_comm_hook(self: DistributedDataParallel, kind: Any) -> None:
        _refuse_hook(equivalents[kind])
        ours = _hooks.pop(self, None)
        if ours is None:
            real(self, kind)
            return
        ours.replace(self.process_group, equivalents[kind])
        _report_script_hook(self, _name(equivalents[kind]), ours.buckets)

    return _register_builtin_comm_hook


def _take_local_steps(model: DistributedDataParallel) -> None:
    """Have a model exchange its parameters now and then, and no gradients."""
    global wrapped_models
    from rsctl.transport.pytorch import local_steps

    training = local_steps.current()
    assert training is not None  # noqa: S101
    training.add(model)
    local_steps.follow_data()
    wrapped_models += 1


def _refuse_hook(hook: Callable[..., Any]) -> None:
    """Raise BindingError for a hook of the script where no gradients are exchanged."""
    local = sys.modules.get("rsctl.transport.pytorch.local_steps")
    if local is not None and local.current() is not None:
        message = f"the script registers a hook for its gradients ({_name(hook)}), which do not "
        message += "travel"
        remedy = "Remove comm.local_steps, or have the script register no hook."
        raise BindingError("comm.local_steps", message, remedy)


def _set_bucket_size(
    arguments: dict[str, Any], signature: inspect.Signature, comm: CommSettings
) -> str:
    """Change the arguments of the constructor as the spec asks; returns the size as text."""
    default = signature.parameters["bucket_cap_mb"].default
    own = arguments.get("bucket_cap_mb", default)
    listed = arguments.get("bucket_cap_mb_list")
    is_own = bool(listed) or own not in (default, None)
    recording.note_bucket_size(own if is_own and not listed else None)
    if comm.bucket_mb is not None:
        arguments.pop("bucket_cap_mb_list", None)
        arguments["bucket_cap_mb"] = comm.bucket_mb
        replaced = f" instead of the script's {listed or own}" if is_own else ""
        return f"{comm.bucket_mb} MB{replaced}"
    if listed:
        return f"{listed} MB, as set by the script"
    if is_own:
        return f"{own} MB, as set by the script"
    if comm.reducers:
        arguments["bucket_cap_mb"] = REDUCER_BUCKET_MB
        return f"{REDUCER_BUCKET_MB} MB"
    return f"{default or _DEFAULT_BUCKET_MB} MB"


def _register_hook(model: DistributedDataParallel, comm: CommSettings, buckets: str) -> None:
    """Register the spec's hook unless the script's configuration of DDP has brought one."""
    global wrapped_models
    wrapped_models += 1
    if model._comm_hooks:  # DDP registers one of its own for mixed precision
        _report_script_hook(model, _name(model._comm_hooks[0][0]), buckets)
        return
    selected = select_hook(model, comm)
    if selected.hook is not None:
        if getattr(model, "_use_python_reducer", False):
            message = "torch.compile reduces this model's gradients, and does not support hooks"
            raise BindingError(
                "comm", message, 'Set torch._dynamo.config.optimize_ddp to "ddp_optimizer".'
            )
        _real["register_comm_hook"](model, selected.hook, dispatch)
        # DDP pickles and copies its list together with the model; ours must not go with it.
        model._comm_hooks.clear()
        _hooks[model] = selected.hook
    phrases = [f"buckets of {buckets}", f"compression {selected.compression}"]
    line = f"{_GRADIENTS}: {', '.join([*selected.description, *phrases])}"
    if selected.hook is None:
        print_once(line)
    else:
        selected.hook.buckets, selected.hook.announcement = buckets, line


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", type(hook).__name__)


def _report_script_hook(model: DistributedDataParallel, name: str, buckets: str) -> None:
    if dist.get_backend(model.process_group) == "rsctl":
        effect = "its all-reduces use the reducers; comm.compression does not apply"
    else:
        effect = "of comm, backend and bucket_mb apply; compression and reducers do not"
    used = "the hook that this script has registered is used"
    print_once(f"{_GRADIENTS}: {used} ({name}), buckets of {buckets}; {effect}")
