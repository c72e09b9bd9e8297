"""A communication hook of DDP that the spec names: MODULE:FUNCTION, from the image."""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from rsctl.transport.pytorch.hook import CommHook
from rsctl.transport.pytorch.report import report_error
from rsctl.transport.pytorch.settings import BindingError

KEY = "comm.hook"


def named_hook(name: str, group: dist.ProcessGroup) -> CommHook:
    """The hook with this group for its state, as PyTorch's own hooks have it.

    Raises BindingError if it cannot be imported or is not a function.
    """
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        message = f"{name} cannot be imported: {type(error).__name__}: {error}"
        remedy = "Name a function of a module in the image, as MODULE:FUNCTION."
        raise BindingError(KEY, message, remedy) from error
    if not callable(found):
        message = f"{name} is a {type(found).__name__}, not a function"
        raise BindingError(KEY, message, "Name a function that takes a state and a bucket.")

    def reduce(state: object, bucket: GradBucket) -> Any:
        future = found(state, bucket)
        if not isinstance(future, torch._C.Future):
            message = f"{name} returns a {type(future).__name__}, not a future"
            remedy = "Return the future of an asynchronous collective: work.get_future()."
            raise report_error(BindingError(KEY, message, remedy))
        return future

    return CommHook(group, reduce)
