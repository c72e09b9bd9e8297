"""Writes `data.json`, which rsctl reads, from the YAML files that people edit.

`python -m rsctl.estimate.catalog.compile`. YAML would cost each plan for a cloud 8 ms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

import rsctl
from rsctl.estimate.catalog import COMPILED

_PACKAGE = Path(rsctl.__file__).parent


def compiled() -> bytes:
    """The data of all YAML files of the package by their references, as JSON."""
    data: dict[str, Any] = {}
    for path in sorted(_PACKAGE.glob("*/**/*.yaml")):
        module, own = path.parent.relative_to(_PACKAGE.parent), path.name
        if module.parts[1] != "_data":
            data[f"{'.'.join(module.parts)}:{own}"] = yaml.safe_load(path.read_text("utf-8"))
    return msgspec.json.encode(data) + b"\n"


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())
