"""Faults on request: delays, errors of the vendor, lost connections."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Fault:
    """A fault of the next `times` calls of a route whose path has `path` (a pattern) in it.

    `delay` in seconds comes first. Then one of: `cut="request"`, the connection ends half-way
    through what the client sends, and nothing is done; `status`, the vendor's error with `code` and
    `message`, and nothing is done; `cut="answer"`, it is done, and the answer is lost;
    `cut="half"`, the connection ends half-way through the answer.
    """

    route: str
    times: int = 1
    path: str = ""
    delay: float = 0.0
    status: int = 0
    code: str = "UNAVAILABLE"
    message: str = "made to fail"
    cut: Literal["request", "answer", "half", ""] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class Faults:
    """The faults to come, in order."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        with self._lock:
            self._faults.append(fault)

    @property
    def to_come(self) -> int:
        """The number of calls that will have a fault."""
        with self._lock:
            return sum(fault.times for fault in self._faults)

    def take(self, route: str, path: str) -> Fault | None:
        """The fault of this call, if any; counts it down."""
        with self._lock:
            for fault in self._faults:
                if fault.times and fault.route == route and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None
