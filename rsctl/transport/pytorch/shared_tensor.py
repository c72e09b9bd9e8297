"""A parameter or buffer that workers change by themselves and bring together now and then."""

from __future__ import annotations

import torch

from rsctl.transport.pytorch.outer import LocalSteps, outer_step


class SharedTensor:
    """A tensor of the model and the state of its exchanges.

    `anchor` is the value on which all workers agreed at the last exchange, in fp32 or more. `base`
    is the value from which the next change is counted. `average` is a value on which they agreed
    since, within a round. `is_parameter` is false for a buffer, which is averaged without the outer
    optimizer.
    """

    def __init__(self, name: str, tensor: torch.Tensor, is_parameter: bool) -> None:
        self.name = name
        self.tensor = tensor
        self.is_parameter = is_parameter
        self.anchor = torch.empty(0)
        self.momentum: torch.Tensor | None = None
        self.average: torch.Tensor | None = None
        self._base: torch.Tensor | None = None
        self._sent: torch.Tensor | None = None
        self.restart()

    @property
    def numel(self) -> int:
        """The number of elements."""
        return self.tensor.numel()

    @property
    def travels(self) -> bool:
        """Whether its change is under way while training continues."""
        return self._sent is not None

    @property
    def published(self) -> torch.Tensor:
        """The value on which all workers agreed last, in the tensor's own dtype."""
        return self.anchor.to(self.tensor.dtype) if self.average is None else self.average

    def restart(
        self, anchor: torch.Tensor | None = None, momentum: torch.Tensor | None = None
    ) -> None:
        """Begin a round at the tensor's value; `anchor` is where the round had begun, if earlier.

        `momentum` is None to start without.
        """
        wide = torch.promote_types(self.tensor.dtype, torch.float32)
        self.average = self._sent = None
        source = self.tensor if anchor is None else anchor
        self.anchor = source.detach().to(self.tensor.device, wide, copy=True)
        self.momentum = None
        if momentum is not None:
            self.momentum = momentum.to(self.tensor.device, wide, copy=True)
        self._set_base(exact=True)
        if anchor is not None:
            self.average = self.tensor.detach().clone()

    def count_from(self, anchor: torch.Tensor) -> None:
        """Take a value on which all workers agree for the anchor."""
        self.restart(anchor, self.momentum)
        self.average = None

    def change(self) -> torch.Tensor:
        """How far the tensor has moved since its base, negated: a gradient. Flat, in fp32."""
        return _difference(self.base, self.tensor).flatten().to(torch.float32)

    @property
    def base(self) -> torch.Tensor:
        """The value from which the next change is counted."""
        return self.anchor if self._base is None else self._base

    def send(self, overlaps: bool) -> torch.Tensor:
        """The change, which now begins to travel; `overlaps` if training continues meanwhile."""
        self._sent = self.tensor.detach().clone() if overlaps else None
        return self.change()

    def receive(self, change: torch.Tensor, outer: LocalSteps, has_counted: bool = True) -> None:
        """Take the average of all workers' changes: the outer optimizer makes its step.

        What this worker has changed since it sent its change stays, and counts for the next one;
        so does all that it has changed if its own change has not counted.
        """
        moved = self._moved() if has_counted else self._unsent()
        gradient = change.view(self.tensor.shape).to(self.anchor.dtype)
        if not self.is_parameter:
            self.anchor -= gradient
        elif gradient.any():  # what no worker has changed stays, as where the script froze it
            if self.momentum is None:
                self.momentum = torch.zeros_like(self.anchor)
            self.anchor -= outer_step(outer, self.momentum, gradient)
        self.tensor.detach().copy_(self.anchor if moved is None else self.anchor + moved)
        self.average = self._sent = None
        # With a quorum some workers have moved and others have not: all count from the anchor.
        self._set_base(exact=moved is None and outer.quorum is None)

    def agree(self, change: torch.Tensor) -> None:
        """Take the average of all workers' values without the end of a round.

        The outer optimizer makes no step: the changes since the base still count at the round's
        end.
        """
        base = self.base
        self.tensor.detach().copy_(base - change.view(self.tensor.shape).to(base.dtype))
        self.average = self.tensor.detach().clone()
        if not self.is_parameter:
            self.restart()

    def _moved(self) -> torch.Tensor | None:
        """The change since the worker sent its own; None if it has waited."""
        if self._sent is None:
            return None
        return _difference(self.tensor.detach().to(self.anchor.dtype), self._sent)

    def _unsent(self) -> torch.Tensor:
        """The change since the base, in the anchor's dtype."""
        return _difference(self.tensor.detach().to(self.anchor.dtype), self.base)

    def _set_base(self, exact: bool) -> None:
        """Count from the anchor; `exact`: from what the tensor's own dtype holds of it."""
        is_narrow = self.tensor.dtype != self.anchor.dtype
        rounded = self.anchor.to(self.tensor.dtype).to(self.anchor.dtype) if is_narrow else None
        self._base = rounded if exact else None


def _difference(minuend: torch.Tensor, subtrahend: torch.Tensor) -> torch.Tensor:
    """Their difference in the first one's dtype; 0 where they are equal, even if infinite."""
    other = subtrahend.detach().to(minuend.dtype)
    return torch.where(minuend == other, 0, minuend - other)
