"""What botocore reads of the services, parsed once a process instead of once for each session."""

from __future__ import annotations

import sys
from typing import Any

_parsed: dict[str | None, dict[Any, Any]] = {}


def share_botocore_data() -> None:
    """Let all sessions of this process have one memory of parsed files, for each search path.

    A session parses several MB of JSON for its first client, which is most of what a short test
    costs. All clients of one session share that memory anyway. Does nothing before botocore is
    imported, and nothing a second time.
    """
    module: Any = sys.modules.get("botocore.session")
    if module is None or module.create_loader is _create_loader:
        return
    module.create_loader = _create_loader


def _create_loader(search_path: str | None = None) -> Any:
    from botocore.loaders import create_loader

    loader: Any = create_loader(search_path)
    loader._cache = _parsed.setdefault(search_path, {})
    return loader
