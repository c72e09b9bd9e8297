"""The files of rsctl that go into an image: the runtime and the transport, as they run here.

They are copied, not installed, so that an image needs no network for them and no version of its
own. torch finds the binding through a folder of metadata next to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rsctl
import rsctl_start
from rsctl.images.context import ContextEntry
from rsctl.installation import DISTRIBUTION

_PACKAGE = Path(rsctl.__file__).parent
_CORE = _PACKAGE / "transport" / "librsctl_core.so"
_FOLDER = DISTRIBUTION.replace("-", "_")
_METADATA = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {rsctl.__version__}\n"
_ENTRY_POINTS = (
    "[torch.backends]\nrsctl = rsctl_start:autoload\n"
    "[torch.distributed.backends]\nrsctl = rsctl_start:register\n"
)


def runtime_entries(prefix: str, has_core: bool = True) -> list[ContextEntry]:
    """The files, below a folder for Python's path.

    Only the transport `rsctl` needs its compiled core, if there is one here; without it all files
    are the same on every machine.
    """
    return [
        ContextEntry(f"{prefix}rsctl_start.py", path=Path(rsctl_start.__file__)),
        ContextEntry(f"{prefix}rsctl/__init__.py", path=_PACKAGE / "__init__.py"),
        *_python(prefix, "node"),
        *_python(prefix, "transport"),
        *(_core(prefix) if has_core else ()),
        *_metadata(f"{prefix}{_FOLDER}-{rsctl.__version__}.dist-info/"),
    ]


def has_compiled_core() -> bool:
    """Whether the transport's core was compiled when rsctl was installed here."""
    return _CORE.is_file()


@cache
def _python(prefix: str, room: str) -> tuple[ContextEntry, ...]:
    """The modules of a room, which this process hashes once: a bench plans many jobs."""
    paths = sorted((_PACKAGE / room).rglob("*.py"))
    names = (f"{prefix}rsctl/{path.relative_to(_PACKAGE)}" for path in paths)
    return tuple(ContextEntry(name, path=path) for name, path in zip(names, paths, strict=True))


def _core(prefix: str) -> Iterator[ContextEntry]:
    """The compiled core, if there is one here; without it the transport's Python engine serves."""
    if has_compiled_core():
        made_from = hashlib.sha256()
        for source in sorted((_PACKAGE / "transport" / "core").glob("*.*")):
            made_from.update(source.name.encode() + b"\0" + source.read_bytes())
        name = f"{prefix}rsctl/transport/{_CORE.name}"
        yield ContextEntry(name, path=_CORE, made_from=made_from.digest())


def _metadata(folder: str) -> Iterator[ContextEntry]:
    yield ContextEntry(f"{folder}METADATA", content=_METADATA.encode())
    yield ContextEntry(f"{folder}entry_points.txt", content=_ENTRY_POINTS.encode())
