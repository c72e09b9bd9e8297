"""The rounds of local steps of the parameters that one optimizer trains."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.averaging import Averaging, Counted
from rsctl.transport.pytorch.outer import LocalSteps
from rsctl.transport.pytorch.report import print_once
from rsctl.transport.pytorch.settings import BindingError
from rsctl.transport.pytorch.shared_tensor import SharedTensor

KEY = "comm.local_steps"
_FORMAT = 1

Saved = dict[str, Any]
"""The state of a round as an optimizer's `state_dict` carries it: numbers, and tensors by index."""


class _Travelling(NamedTuple):
    """A fragment under way."""

    tensors: Sequence[SharedTensor]
    flat: torch.Tensor
    wait: Counted


class Round:
    """Tensors that workers change by themselves for some steps, and then bring together.

    A fragment begins to travel after its step of the round. With one fragment, the worker waits for
    the result. With several, it takes the result when the next one begins to travel, and trains in
    between; the step is fixed, so that a repeated run gives the same numbers.
    """

    def __init__(self, settings: LocalSteps, averaging: Averaging) -> None:
        self._settings = settings
        self._averaging = averaging
        self._due = settings.due_steps()
        self._fragments: list[list[SharedTensor]] = []
        self._travelling: _Travelling | None = None
        self.steps = 0
        """How many steps of this round are done."""
        self.is_agreed = True
        """Whether the tensors have the same bits on all workers."""
        self.tensors: list[SharedTensor] = []
        self.exchanges = 0
        """How many exchanges have begun."""

    def begin(
        self,
        tensors: Sequence[SharedTensor],
        saved: Saved | None,
        values: Sequence[int],
        was_loaded: bool,
    ) -> None:
        """Begin with these tensors, from a saved state if there is one. All workers call this.

        `values` are `sums` of the parameters when training began, and `was_loaded` is whether they
        were loaded before. Raises BindingError if workers have different tensors.
        """
        self._averaging.meet("the first step with parameters that were added or loaded")
        self._drop()
        self.tensors = list(tensors)
        self._fragments = _divided(self.tensors, self._settings.fragments)
        self.steps, self.is_agreed = 0, True
        if saved is not None:
            self._restore(saved)
            values = [*values, *sums(list(saved["anchor"].values()))]
        self._share([each for each in self.tensors if not each.is_parameter])
        self._require_equal(values, was_loaded)

    def step(self) -> None:
        """A step of the optimizer has ended. All workers call this equally often."""
        self.steps += 1
        self.is_agreed = False
        for number, due in enumerate(self._due):
            if self.steps == due:
                self.finish()
                self._send(number)
        if self.steps == self._settings.steps:
            self.steps = 0

    def agree(self, others: Sequence[torch.Tensor]) -> None:
        """Give all workers the average of their tensors and of `others`, within a round.

        The outer optimizer makes no step, and the round continues.
        """
        self.finish()
        flats = [] if self.is_agreed else [each.change() for each in self.tensors]
        mine = [*flats, *(other.detach().flatten().float() for other in others)]
        flat = torch.cat(mine or [torch.empty(0)])
        if not flat.numel():
            return
        self._averaging.average(flat)
        sizes = [part.numel() for part in flats] + [other.numel() for other in others]
        parts = flat.split(sizes)  # type: ignore[no-untyped-call]
        for each, part in zip(self.tensors, parts[: len(flats)], strict=False):
            each.agree(part)
        for other, part in zip(others, parts[len(flats) :], strict=True):
            other.detach().copy_(part.view(other.shape))
        self.is_agreed = True

    def save(self) -> Saved:
        """The state that a checkpoint needs beside the values that the model's `state_dict` has."""
        parameters = [each for each in self.tensors if each.is_parameter]
        momenta = {n: each.momentum for n, each in enumerate(parameters)}
        moves_on = self._settings.fragments > 1 or self._settings.quorum is not None
        in_round = self.is_agreed and (self.steps > 0 or moves_on)
        anchors = {n: each.anchor for n, each in enumerate(parameters)} if in_round else {}
        return {
            "format": _FORMAT,
            "steps": self.steps if in_round else 0,
            "momentum": {n: m.clone() for n, m in momenta.items() if m is not None},
            "anchor": {n: anchor.clone() for n, anchor in anchors.items()},
        }

    def _restore(self, saved: Saved) -> None:
        parameters = [each for each in self.tensors if each.is_parameter]
        shapes = {n: each.tensor.shape for n, each in enumerate(parameters)}
        tensors = [*saved.get("momentum", {}).items(), *saved.get("anchor", {}).items()]
        if saved.get("format") != _FORMAT or any(shapes.get(n) != t.shape for n, t in tensors):
            message = "the checkpoint has the state of an exchange of other parameters"
            remedy = "Resume with the model, optimizer and rsctl that wrote the checkpoint."
            raise BindingError(KEY, message, remedy)
        for number, each in enumerate(parameters):
            each.restart(saved["anchor"].get(number), saved["momentum"].get(number))
        self.steps = int(saved["steps"]) % self._settings.steps

    def _share(self, tensors: Sequence[SharedTensor]) -> None:
        """Count changes from the first worker's values, as a forward pass changes buffers."""
        for each in tensors:
            anchor = each.anchor.cpu()
            dist.broadcast(anchor, src=0, group=self._averaging.control)
            each.count_from(anchor)

    def _send(self, number: int) -> None:
        self._averaging.meet("an exchange")
        # Another round of the model may have the buffers under way.
        tensors = [each for each in self._fragments[number] if not each.travels]
        overlaps = len(self._fragments) > 1
        flat = torch.cat([each.send(overlaps) for each in tensors] or [torch.empty(0)])
        self.exchanges += 1
        wait = self._averaging.begin_exchange(flat) if flat.numel() else _nothing
        self._travelling = _Travelling(tensors, flat, wait)
        if not overlaps:
            self.finish()
            self.is_agreed = self._settings.quorum is None

    def _drop(self) -> None:
        """Leave out the result of the fragment that travels: other values have been loaded."""
        if self._travelling is not None:
            self._travelling.wait()
            self._travelling = None

    def finish(self) -> None:
        """Take the result of the fragment that travels."""
        if self._travelling is None:
            return
        travelling, self._travelling = self._travelling, None
        has_counted = travelling.wait()
        sizes = [each.numel for each in travelling.tensors]
        parts = travelling.flat.split(sizes)  # type: ignore[no-untyped-call]
        for each, part in zip(travelling.tensors, parts, strict=True):
            each.receive(part, self._settings, has_counted)

    def _require_equal(self, values: Sequence[int], was_loaded: bool) -> None:
        """Raise BindingError unless all workers begin with the same tensors.

        A copy of a model within a round, and a perturbation before the first step, may differ.
        """
        facts = [(each.name, str(each.tensor.dtype), *each.tensor.shape) for each in self.tensors]
        parameters = [each for each in self.tensors if each.is_parameter]
        momenta = [each.momentum for each in parameters if each.momentum is not None]
        anchors = sums([each.anchor for each in parameters])
        state = self.steps, sums(momenta), was_loaded and list(values)
        mine = (_digest(repr((self._settings, facts))), state, anchors)
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine, group=self._averaging.control)
        for rank, theirs in enumerate(everyone):
            if theirs[0] != everyone[0][0]:
                text, remedy = (
                    "train different parameters",
                    "Give the optimizer the same parameters on all ranks.",
                )
            elif theirs[1] != everyone[0][1]:
                text, remedy = (
                    "begin with different values",
                    "Load the model and the optimizer from the checkpoint on all ranks.",
                )
            else:
                continue
            raise BindingError(KEY, f"ranks 0 and {rank} {text}", remedy)
        if any(theirs[2] != anchors for theirs in everyone):
            self._share(parameters)
            print_once(
                "local steps: ranks begin with different values, as of a perturbation or of a copy "
                "within a round, and count their changes from those of rank 0"
            )


def _divided(tensors: Sequence[SharedTensor], count: int) -> list[list[SharedTensor]]:
    """Consecutive tensors in so many parts of about the same size."""
    total = sum(each.numel for each in tensors)
    parts: list[list[SharedTensor]] = [[] for _ in range(count)]
    before = 0
    for each in tensors:
        middle = before + each.numel / 2
        parts[min(count - 1, int(middle * count / max(1, total)))].append(each)
        before += each.numel
    return parts


def sums(tensors: Sequence[torch.Tensor]) -> list[int]:
    """A number for each tensor that follows from its bits, in any order of additions."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [
        int(each.detach().flatten().view(kinds[each.element_size()]).sum(dtype=torch.int64))
        for each in tensors
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _nothing() -> bool:
    """Wait for nothing."""
    return True
