"""Loads a library as NCCL does, in a process of its own: what is loaded may crash or hang.

    python -I -S probe.py PARENT NAME...

Tries the names in turn, and prints one line of JSON: `path` and the network plugin's `versions`
for the first that loads, and in `errors` the loader's messages for those before it.

It is run by path, without a way to import the rest.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_NEWEST = 99
_PR_SET_PDEATHSIG = 1
_RTLD_DI_LINKMAP = 2


class _LinkMap(ctypes.Structure):
    """The beginning of struct link_map, of <link.h>."""

    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]


def main(names: list[str]) -> dict[str, object]:
    """Load the first of the libraries that can be loaded."""
    errors: dict[str, str] = {}
    for name in names:
        try:
            # RTLD_NOW and RTLD_LOCAL, as NCCL: src/plugin/plugin_open.cc.
            library = ctypes.CDLL(name)
        except OSError as error:
            errors[name] = str(error)
            continue
        versions = [n for n in range(_NEWEST + 1) if hasattr(library, f"ncclNetPlugin_v{n}")]
        return {"name": name, "path": _path(library), "versions": versions, "errors": errors}
    return {"errors": errors}


def _path(library: ctypes.CDLL) -> str:
    """The file that the loader has chosen."""
    entry = ctypes.POINTER(_LinkMap)()
    ctypes.CDLL(None).dlinfo(
        ctypes.c_void_p(library._handle), _RTLD_DI_LINKMAP, ctypes.byref(entry)
    )
    return os.fsdecode(entry.contents.name) if entry else library._name


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _die_with(int(sys.argv[1]))
    answer = os.dup(1)
    os.dup2(2, 1)  # A library's output while it loads is not an answer.
    os.write(answer, json.dumps(main(sys.argv[2:])).encode())
    # Not by sys.exit: what the library would do at the end is not asked.
    os._exit(0)
