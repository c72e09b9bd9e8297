"""The rounding errors of 8-bit gradients, which belong into a script's checkpoint.

A script that saves them resumes with the same bits as without the interruption:

    from rsctl.transport.pytorch import residuals

    torch.save({..., "residuals": residuals.state_dict(model)}, f"{folder}/rank-{rank}.pt")
    residuals.load_state_dict(model, saved["residuals"])

Each rank has its own. A script that does not save them begins with zeros when it resumes, and so
loses less than one step of rounding at its start.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

_of_models: weakref.WeakKeyDictionary[DistributedDataParallel, Residuals] = (
    weakref.WeakKeyDictionary()
)
_WHOLE, _PARTS = "parameters", "parts"


def state_dict(model: DistributedDataParallel) -> dict[str, Any]:
    """This rank's rounding errors, by parameter; empty if the job does not send 8 bits."""
    found = _of_models.get(model)
    return {} if found is None else found.state_dict()


def load_state_dict(model: DistributedDataParallel, state: Mapping[str, Any]) -> None:
    """Continue with these rounding errors. Nothing happens in a job that does not send 8 bits.

    Raises ValueError if they are of another model.
    """
    found = _of_models.get(model)
    if found is not None and state:
        found.load_state_dict(state)


class Residuals:
    """The rounding errors of one model on this rank.

    On nodes with one rank they are of whole parameters, and follow them when DDP makes other
    buckets. On nodes with several ranks, they are of this rank's part of each bucket, and are of
    use only while the bucket stays the same.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        self._names = {id(p): name for name, p in model.module.named_parameters()}
        self._sizes = {name: count_numbers(p) for name, p in model.module.named_parameters()}
        self._whole: dict[str, torch.Tensor] = {}
        self._buckets: dict[tuple[str, ...], torch.Tensor] = {}
        _of_models[model] = self

    def names(self, parameters: Sequence[torch.Tensor]) -> tuple[str, ...]:
        """The names of a bucket's parameters."""
        return tuple(self._names[id(parameter)] for parameter in parameters)

    def of_bucket(self, names: tuple[str, ...], device: torch.device) -> torch.Tensor:
        """The errors of whole parameters, one after the other."""
        kept = self._buckets.get(names)
        if kept is None:
            sizes = [self._sizes[name] for name in names]
            kept = torch.zeros(sum(sizes), device=device)
            for name, view in zip(names, _split(kept, sizes), strict=True):
                if name in self._whole:
                    view.copy_(self._whole[name])
            for other in [key for key in self._buckets if not set(key).isdisjoint(names)]:
                del self._buckets[other]
            self._buckets[names] = kept
            self._whole.update(zip(names, _split(kept, sizes), strict=True))
        return kept

    def of_part(self, names: tuple[str, ...], size: int, device: torch.device) -> torch.Tensor:
        """The errors of a part of a bucket, zeros if it was another part before."""
        kept = self._buckets.get(names)
        if kept is None or kept.numel() != size:
            for other in [key for key in self._buckets if not set(key).isdisjoint(names)]:
                del self._buckets[other]
            kept = torch.zeros(size)
        kept = self._buckets[names] = kept.to(device)  # a checkpoint's may be on the CPU
        return kept

    def state_dict(self) -> dict[str, Any]:
        """Copies of all errors."""
        if self._whole:
            return {_WHOLE: {name: errors.clone() for name, errors in self._whole.items()}}
        return {_PARTS: [(list(key), kept.clone()) for key, kept in self._buckets.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over errors. Raises ValueError if they are of another model."""
        whole, parts = state.get(_WHOLE, {}), state.get(_PARTS, [])
        for name in (*whole, *(name for names, _ in parts for name in names)):
            if name not in self._sizes:
                raise ValueError(f"the model has no parameter {name}")
        for name, errors in whole.items():
            if errors.numel() != self._sizes[name]:
                text = f"{name} has {self._sizes[name]} numbers, and its errors {errors.numel()}"
                raise ValueError(text)
        for name, errors in whole.items():
            held = self._whole.setdefault(name, torch.zeros_like(errors))
            held.copy_(errors)
        self._buckets.update((tuple(names), kept.clone()) for names, kept in parts)


def count_numbers(parameter: torch.Tensor) -> int:
    """The numbers of a parameter in its bucket: DDP has two real ones for each complex number."""
    return parameter.numel() * (2 if parameter.is_complex() else 1)


def _split(kept: torch.Tensor, sizes: Sequence[int]) -> Sequence[torch.Tensor]:
    return torch.split(kept, list(sizes))
