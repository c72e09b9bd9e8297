"""The source of a build, as a service unpacks it before the first step."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a ZIP into a folder; names cannot leave it. Raises OSError."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as problem:
        raise OSError(f"not a ZIP file: {problem}") from None
