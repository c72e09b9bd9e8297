"""The table of rooms in ARCHITECTURE.md, from `tests/rooms.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_BEGIN = "<!-- rooms: made by tools/reference/generate.py from tests/rooms.yaml -->\n"
_END = "<!-- end of rooms -->\n"


def architecture(root: Path) -> str:
    """ARCHITECTURE.md with the table as it must be. Raises LookupError without its two marks."""
    text = (root / "ARCHITECTURE.md").read_text()
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise LookupError("ARCHITECTURE.md lacks the marks of the table of rooms")
    rooms: dict[str, dict[str, Any]] = yaml.safe_load((root / "tests" / "rooms.yaml").read_text())
    rows = [f"| `{name.replace('.', '/')}` | {room['text']} |\n" for name, room in rooms.items()]
    return f"{before}{begin}\n| room | content |\n|---|---|\n{''.join(rows)}\n{end}{after}"
