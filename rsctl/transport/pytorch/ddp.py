"""What the spec asks of DistributedDataParallel: bucket size, and how gradients travel."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from torch._C._distributed_c10d import BuiltinCommHookType
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch import choice
from rsctl.transport.pytorch.hook import Carrier, dispatch
from rsctl.transport.pytorch.report import say
from rsctl.transport.pytorch.settings import REDUCER_BUCKET_MB, BindingError, Wishes

_DEFAULT_BUCKET_MB = 25
_carriers: weakref.WeakKeyDictionary[DistributedDataParallel, Carrier] = weakref.WeakKeyDictionary()
_real: dict[str, Callable[..., Any]] = {}
dressed = 0
"""How many models have had the spec applied."""


def constructor(real: Callable[..., Any], wishes: Wishes) -> Callable[..., Any]:
    """A `DistributedDataParallel.__init__` that applies the spec."""
    signature = inspect.signature(real)

    def __init__(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        call = signature.bind(self, *args, **kwargs)
        buckets = _set_bucket_size(call.arguments, signature, wishes)
        real(*call.args, **call.kwargs)
        _dress(self, wishes, buckets)

    return __init__


def registrar(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `register_comm_hook` that lets the script's own hook take the place of ours."""
    _real["register_comm_hook"] = real

    def register_comm_hook(
        self: DistributedDataParallel, state: object, hook: Callable[..., Any]
    ) -> None:
        carrier = _carriers.pop(self, None)
        if carrier is None:
            real(self, state, hook)
            return
        self._check_comm_hook(hook)  # type: ignore[no-untyped-call]
        carrier.replace(state, hook)
        self._comm_hooks.append((hook, state))
        _say_own(_name(hook))

    return register_comm_hook


def builtin_registrar(real: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the hooks that are built into DDP in C++."""
    equivalents = {
        BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
        BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
    }

    def _register_builtin_comm_hook(self: DistributedDataParallel, kind: Any) -> None:
        carrier = _carriers.pop(self, None)
        if carrier is None:
            real(self, kind)
            return
        carrier.replace(self.process_group, equivalents[kind])
        _say_own(_name(equivalents[kind]))

    return _register_builtin_comm_hook


def _set_bucket_size(
    arguments: dict[str, Any], signature: inspect.Signature, wishes: Wishes
) -> str:
    """Change the arguments of the constructor as the spec asks; returns the size, in words."""
    default = signature.parameters["bucket_cap_mb"].default
    own = arguments.get("bucket_cap_mb", default)
    listed = arguments.get("bucket_cap_mb_list")
    is_own = bool(listed) or own not in (default, None)
    if wishes.bucket_mb is not None:
        arguments.pop("bucket_cap_mb_list", None)
        arguments["bucket_cap_mb"] = wishes.bucket_mb
        replaced = f" in place of the script's {listed or own}" if is_own else ""
        return f"{wishes.bucket_mb} MB{replaced}"
    if listed:
        return f"{listed} MB, as the script asks"
    if is_own:
        return f"{own} MB, as the script asks"
    if wishes.reducers:
        arguments["bucket_cap_mb"] = REDUCER_BUCKET_MB
        return f"{REDUCER_BUCKET_MB} MB"
    return f"{default or _DEFAULT_BUCKET_MB} MB"


def _dress(model: DistributedDataParallel, wishes: Wishes, buckets: str) -> None:
    """Register the spec's hook unless the script's configuration of DDP has brought one."""
    global dressed
    dressed += 1
    if model._comm_hooks:  # DDP registers one of its own for mixed precision
        say(f"gradients of DistributedDataParallel: buckets of {buckets}")
        _say_own(_name(model._comm_hooks[0][0]))
        return
    chosen = choice.carrier(model, wishes)
    if chosen.carrier is not None:
        if getattr(model, "_use_python_reducer", False):
            message = "this model's gradients are reduced by torch.compile, which takes no hooks"
            raise BindingError(
                "comm", message, 'Set torch._dynamo.config.optimize_ddp to "ddp_optimizer".'
            )
        _real["register_comm_hook"](model, chosen.carrier, dispatch)
        # DDP pickles and copies its list together with the model; ours must not go with it.
        model._comm_hooks.clear()
        _carriers[model] = chosen.carrier
    compression = f"compression {chosen.compression}"
    say(
        "gradients of DistributedDataParallel: "
        f"{', '.join([*chosen.words, f'buckets of {buckets}', compression])}"
    )


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", type(hook).__name__)


def _say_own(name: str) -> None:
    say(
        "gradients of DistributedDataParallel: the hook that this script has registered is used "
        f"({name}); of comm, backend and bucket_mb apply, compression and reducers do not"
    )
