"""Notes when a collective of this rank fails because another rank has closed its connection.

A script may catch that error and continue: then it computes alone. So the error is noted where
PyTorch raises it. A barrier carries no data, and messages between two ranks may end like
this by intention: such errors may be caught.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import torch.distributed as dist

from rsctl.transport.pytorch import exchanges
from rsctl.transport.pytorch.report import emit, number, rank

_LOST = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|ncclRemoteError"
    r"|remote process exited|rank \d+(?: \(\S+\))? (?:was lost|left)"
)
_OTHERS = ("send", "recv", "init_process_group", "destroy_process_group", "new_group", "split")
"""Parts of the names of functions that do not run a collective."""


class _Noted:
    """The state since the script last made a process group; `failure` is the first error after
    which the script must not succeed.
    """

    is_lost = False
    has_left = False
    failure: RuntimeError | None = None


def watch() -> None:
    """Notice failed collectives from now on, at no cost for those that succeed."""
    with suppress(Exception):  # of another version of torch
        _watch_functions()
    with suppress(Exception):
        _watch_gradients()
    with suppress(Exception):
        _watch_works()


def reset() -> None:
    """Forget the error: the script has made a new process group."""
    _Noted.is_lost, _Noted.has_left, _Noted.failure = False, False, None


def fail(error: RuntimeError) -> None:
    """Have the script not end with exit code 0, although it catches this error."""
    _Noted.failure = error


def failure() -> RuntimeError | None:
    """The error after which a script must not end with exit code 0."""
    return _Noted.failure


def report_leaving() -> None:
    """Report that this rank is about to leave the process group of all ranks."""
    if dist.is_initialized() and dist.get_world_size() > 1 and not _Noted.is_lost:
        _Noted.has_left = True
        _emit("left", {})


def report_ending() -> None:
    """Report that the script has ended, for what a rank does afterwards can take seconds."""
    if _Noted.is_lost or getattr(sys, "last_value", None) is not None:
        return
    if _Noted.has_left or (dist.is_initialized() and dist.get_world_size() > 1):
        _emit("ending", {})


def _note(operation: str, error: BaseException | None) -> None:
    """Note this error of an operation, if it is that another rank has gone."""
    text = str(error)
    if _Noted.is_lost or _LOST.search(text) is None or not dist.is_initialized():
        return
    if any(other in operation for other in _OTHERS):
        return
    _Noted.is_lost = True
    if "barrier" not in operation:
        _Noted.failure = RuntimeError(text)
    _emit("lost", {"op": operation})


def _emit(kind: str, fields: dict[str, object]) -> None:
    time = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    who = {"rank": rank(), "local_rank": number("LOCAL_RANK")}
    emit(kind, {**who, "time": time, "replica": os.environ.get("RSCTL_REPLICA"), **fields})


def _watch_functions() -> None:
    """PyTorch calls this function for each function of torch.distributed that raises."""
    logger: Any = sys.modules["torch.distributed.c10d_logger"]
    real = logger._get_msg_dict

    @functools.wraps(real)
    def _get_msg_dict(func_name: str, *args: Any, **kwargs: Any) -> Any:
        # What workers exchange after a loss is not the script's operation.
        if sys._getframe(2).f_globals.get("__name__") != "rsctl.transport.pytorch.recovery":
            _note(func_name, sys.exc_info()[1])
        return real(func_name, *args, **kwargs)

    logger._get_msg_dict = _get_msg_dict


def _watch_gradients() -> None:
    """DistributedDataParallel exchanges gradients and buffers in C++."""
    autograd: Any = sys.modules["torch.autograd"]
    autograd._engine_run_backward = _noting("all_reduce", autograd._engine_run_backward)
    for name in ("_broadcast_coalesced", "_verify_params_across_processes"):
        setattr(dist, name, _noting("broadcast", getattr(dist, name)))


def _watch_works() -> None:
    """Note errors of the collectives that a script waits for: other operations have no future.

    PyTorch's own functions also wait, and are watched with their names.
    """
    work: Any = dist.Work
    real = work.wait

    @functools.wraps(real)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        exchanges.note_wait()
        try:
            return real(self, *args, **kwargs)
        except Exception as error:
            caller = sys._getframe(1).f_globals.get("__name__")
            with suppress(Exception):
                self.get_future()
                if caller != "torch.distributed.distributed_c10d":
                    _note("collective", error)
            raise

    work.wait = wait


def _noting(operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def noting(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except Exception as error:
            _note(operation, error)
            raise

    return noting
