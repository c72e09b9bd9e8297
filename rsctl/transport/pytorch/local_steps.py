"""Where PyTorch tells of steps, epochs and checkpoints, for `comm.local_steps`.

Nothing here changes what a script sees of PyTorch, apart from the values that a `state_dict`
between two exchanges has, and an entry of an optimizer's `state_dict`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from rsctl.transport.pytorch.local_training import LocalTraining
from rsctl.transport.pytorch.report import emit_finding, rank
from rsctl.transport.pytorch.round import KEY
from rsctl.transport.pytorch.settings import BindingError, CommSettings
from rsctl.transport.pytorch.wrapping import replace_function, with_findings

ENTRY = "rsctl_outer"
"""The entry of an optimizer's `state_dict` with the state of its rounds."""

_training: LocalTraining | None = None


def start(comm: CommSettings) -> None:
    """Attach to PyTorch, once in a process, if the settings ask for local steps."""
    global _training
    if comm.local is None:
        return
    training = _training = LocalTraining(comm.local, comm)
    prepare, stepped = _eager(training.prepare), _eager(training.stepped)
    register_optimizer_step_pre_hook(lambda optimizer, *_: prepare(optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: stepped(optimizer))
    _wrap(DistributedDataParallel, "_pre_forward", lambda real: _forward(real, training))
    _wrap(DistributedDataParallel, "__getstate__", _get_state)
    _wrap(DistributedDataParallel, "__setstate__", lambda real: _set_state(real, training))
    for name in ("join", "join_hook"):
        _wrap(DistributedDataParallel, name, _refuse_join)
    _wrap(torch.amp.GradScaler, "step", lambda real: _scaled_step(real, prepare, stepped))
    _wrap(torch.nn.Module, "_save_to_state_dict", lambda real: _save(real, training))
    _wrap(torch.nn.Module, "load_state_dict", lambda real: _load(real, training))
    _wrap(Optimizer, "state_dict", lambda real: _optimizer_state(real, training))
    _wrap(Optimizer, "load_state_dict", lambda real: _load_optimizer(real, training))
    replace_function("barrier", lambda real: _barrier(real, training))
    replace_function("init_process_group", lambda real: _init_process_group(real, training))


def current() -> LocalTraining | None:
    """The local training of this process, if the settings ask for it."""
    return _training


def follow_data() -> None:
    """See when an epoch ends, once the script has imported DataLoader."""
    loader: Any = sys.modules.get("torch.utils.data.dataloader")
    if loader is None or _training is None:
        return
    iterator = loader._BaseDataLoaderIter
    if not hasattr(iterator.__next__, "follows_epochs"):
        iterator.__next__ = _next(iterator.__next__, _training)


def report_unused() -> None:
    """Warn at the end if the settings had no model to work on."""
    if _training is None or _training.steps or rank() != 0:
        return
    if not _training.saw_step and not _training.has_models:
        return
    why = "made no DistributedDataParallel"
    if _training.has_models:
        why = "made no step by an optimizer of torch.optim"
    emit_finding(
        "warning",
        "comm-unapplied",
        f"{KEY} was not applied: the script {why}",
        "Remove comm.local_steps, or train a DistributedDataParallel model; sharded models (FSDP, "
        "DeepSpeed) cannot take local steps.",
    )


def _wrap(owner: type, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    real = inspect.getattr_static(owner, name)
    setattr(owner, name, functools.wraps(real)(wrap(real)))


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with findings that torch.compile calls as it is, instead of tracing into it."""
    eager: Callable[..., Any] = torch.compiler.disable(with_findings(function))  # type: ignore[no-untyped-call]
    return eager


def _forward(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    counted = _eager(training.forward)

    def _pre_forward(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> Any:
        counted(self)
        return real(self, *args, **kwargs)

    return _pre_forward


def _get_state(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `__getstate__` without what `LocalTraining.add` has left out of the model."""

    def __getstate__(self: DistributedDataParallel) -> Any:
        return {**real(self), "require_backward_grad_sync": True}

    return __getstate__


def _set_state(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    """A `__setstate__` by which a copy of a model takes local steps, too."""

    def __setstate__(self: DistributedDataParallel, state: Any) -> None:
        real(self, state)
        if training.has_models:
            training.add(self)

    return with_findings(__setstate__)


def _init_process_group(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        training.forget_groups()
        return result

    return init_process_group


def _refuse_join(_: Callable[..., Any]) -> Callable[..., Any]:
    def join(*_: Any, **__: Any) -> Any:
        message = "join() lets ranks have different numbers of steps, and rounds have equally many"
        raise BindingError(KEY, message, "Give all ranks equally many batches (drop_last=True).")

    return with_findings(join)


def _scaled_step(
    real: Callable[..., Any], prepare: Callable[..., Any], stepped: Callable[..., Any]
) -> Callable[..., Any]:
    """A `GradScaler.step` that counts even if it leaves the optimizer's step out."""

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        prepare(optimizer)
        result = real(self, optimizer, *args, **kwargs)
        stepped(optimizer)
        return result

    return step


def _save(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        real(self, destination, prefix, keep_vars)
        if keep_vars:
            return
        own = {**self._parameters, **self._buffers}
        for name, tensor in own.items():
            value = None if tensor is None else training.published(tensor)
            if value is not None and prefix + name in destination:
                destination[prefix + name] = value

    return _save_to_state_dict


def _load(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = real(self, *args, **kwargs)
        training.loaded(self)
        return result

    return load_state_dict


def _optimizer_state(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = real(self, *args, **kwargs)
        rounds = training.save(self)
        if rounds:
            state[ENTRY] = rounds
        return state

    return state_dict


def _load_optimizer(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = real(self, state_dict, *args, **kwargs)
        training.restore(self, state_dict.get(ENTRY, None if state_dict.get("state") else []))
        return result

    return load_state_dict


def _barrier(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    def barrier(group: Any = None, *args: Any, **kwargs: Any) -> Any:
        if group is None or group is dist.group.WORLD:
            training.at_barrier()
        return real(group, *args, **kwargs)

    return barrier


def _next(real: Callable[..., Any], training: LocalTraining) -> Callable[..., Any]:
    """A DataLoader's `__next__` that has workers agree at the end of an epoch of training.

    An iterator belongs to training if steps were made between two of its batches.
    """

    at_epoch_end = with_findings(training.at_epoch_end)

    @functools.wraps(real)
    def __next__(self: Any) -> Any:
        before = getattr(self, "_rsctl_steps", None)
        trains = getattr(self, "_rsctl_trains", False)
        self._rsctl_trains = trains or (before is not None and training.steps > before)
        self._rsctl_steps = training.steps
        try:
            return real(self)
        except StopIteration:
            trains, self._rsctl_trains = self._rsctl_trains, False
            self._rsctl_steps = None  # with persistent workers it is the next epoch's iterator, too
            if trains:
                at_epoch_end()
            raise

    __next__.follows_epochs = True  # type: ignore[attr-defined]
    return __next__
