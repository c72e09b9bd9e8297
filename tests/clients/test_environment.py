"""What this process's environment says is given on, never changed."""

from __future__ import annotations

import re
from pathlib import Path

import rsctl

_CHANGES = re.compile(
    r"os\.environ(\[[^]]+\] *=(?!=)|\.(pop|update|setdefault|clear)\()|os\.putenv"
)


def test_no_code_changes_its_own_environment() -> None:
    root = Path(rsctl.__file__).parent
    found = {
        path.relative_to(root)
        for path in root.rglob("*.py")
        if _CHANGES.search(path.read_text(encoding="utf-8"))
    }
    # Those run inside of containers, before the user's process starts.
    starters = {"package_boot.py", "package_start.py", "toolkit_start.py"}
    assert {p for p in found if p.parts[0] != "node" and p.name not in starters} == set()
