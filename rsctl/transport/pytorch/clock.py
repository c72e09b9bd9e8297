"""Moments on a device: the time at which its work has come so far."""

from __future__ import annotations

import time
from typing import Protocol

import torch


class Clock(Protocol):
    """Takes moments, and tells the seconds between two of them."""

    def moment(self) -> object:
        """Now, by this device."""

    def seconds(self, earlier: object, later: object) -> float:
        """The seconds from one moment to another. Waits until the device has come there."""


class HostClock:
    """The host's monotonic clock."""

    def moment(self) -> object:
        """See Clock."""
        return time.perf_counter()

    def seconds(self, earlier: object, later: object) -> float:
        """See Clock."""
        return float(later) - float(earlier)  # type: ignore[arg-type]


class CudaClock:
    """Events on the current stream of a GPU, which runs behind the host."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def moment(self) -> object:
        """See Clock."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def seconds(self, earlier: object, later: object) -> float:
        """See Clock."""
        later.synchronize()  # type: ignore[attr-defined]
        return float(earlier.elapsed_time(later)) / 1000  # type: ignore[attr-defined]


def clock_of(device: torch.device) -> Clock:
    """The clock of a device."""
    return CudaClock(device) if device.type == "cuda" else HostClock()
