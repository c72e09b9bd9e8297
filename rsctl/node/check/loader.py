"""Finds libraries as the dynamic loader does: ld.so(8), in its order."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import cached_property

from rsctl.node.check import elf

_LDCONFIG_SECONDS = 30
_CACHE_LINE = re.compile(r"\t(\S+) \(.*\) => (.+)")
_ADMIN_FOLDERS = ":/usr/local/sbin:/usr/sbin:/sbin"


class Loader:
    """The loader under this environment, of which LD_LIBRARY_PATH and PATH count."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._machine = elf.machine("/proc/self/exe")

    def find(self, name: str, needed_by: str | None = None) -> list[str]:
        """Every file that answers to this name, each once, the one that is taken first.

        `needed_by` is the file of the library that asks for it: such a one may bring directories.
        A name with a slash is a path.
        """
        if "/" in name:
            return self._usable([name])
        needs = elf.read_needs(needed_by) if needed_by else elf.Needs()
        environment = self._environ.get("LD_LIBRARY_PATH", "")
        given = re.split("[:;]", environment) if environment else []
        paths = [os.path.join(folder, name) for folder in (*needs.rpath, *given, *needs.runpath)]
        paths += self._cache.get(name, [])
        paths += [os.path.join(folder, name) for folder in _default_folders()]
        return self._usable(paths)

    def missing(self, library: str) -> list[str]:
        """The names that a library needs and no file answers to."""
        needed = elf.read_needs(library).libraries
        return [name for name in needed if not self.find(name, needed_by=library)]

    def _usable(self, paths: Iterable[str]) -> list[str]:
        """The files that are libraries for this machine; the loader skips the others."""
        found: dict[str, str] = {}
        for path in paths:
            machine = elf.machine(path)
            if machine is not None and self._machine in (None, machine):
                found.setdefault(os.path.realpath(path), path)
        return list(found.values())

    @cached_property
    def _cache(self) -> dict[str, list[str]]:
        """ld.so.cache, as the one program that knows its format prints it."""
        from rsctl.node.check import child  # each launch looks for a library, but few have to ask

        program = shutil.which("ldconfig", path=self._environ.get("PATH", "") + _ADMIN_FOLDERS)
        if program is None:
            return {}
        cache: dict[str, list[str]] = {}
        for line in child.run([program, "-p"], _LDCONFIG_SECONDS).out.splitlines():
            if entry := _CACHE_LINE.fullmatch(line):
                cache.setdefault(entry[1], []).append(entry[2])
        return cache


def _default_folders() -> list[str]:
    """The folders searched last; Debian and its derivatives have one for each architecture."""
    kind = f"{os.uname().machine}-linux-gnu"
    return [f"/lib/{kind}", f"/usr/lib/{kind}", "/lib64", "/usr/lib64", "/lib", "/usr/lib"]
