"""What a command line printed and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Standard output, which must be one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]
