"""Which Debian packages an image has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from rsctl.node.small_files import read_text

_FOLDER = "/var/lib/dpkg"


def installed(names: Iterable[str], environ: Mapping[str, str]) -> set[str]:
    """The installed ones of the packages; empty on an image without dpkg.

    DPKG_ADMINDIR sets dpkg's folder, as for dpkg itself: dpkg(1).
    """
    wanted = set(names)
    status = os.path.join(environ.get("DPKG_ADMINDIR") or _FOLDER, "status")
    found, package = set(), ""
    for line in read_text(status).splitlines():
        if line.startswith("Package: "):
            package = line.split()[1]
        elif line.startswith("Status: ") and line.split()[-1] == "installed":
            found.add(package)
    return wanted & found
