"""The values of two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Sides(NamedTuple):
    """The finite values of a baseline and of a candidate, one per run."""

    baseline: Sequence[float]
    candidate: Sequence[float]
