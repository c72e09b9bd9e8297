"""Unpacks a package and starts the job in it: the first file of every package, see `package`.

It runs in unknown images, on the standard library alone, and must parse on Python 3.7, so that an
older Python than the runtime needs is reported by the runtime. The loader's hook prints any
exception as one line.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import tempfile


def start(package: bytes) -> None:
    """Become rsctl-launch with the arguments that follow the loader's own, in the job's source.

    Raises OSError and ValueError.
    """
    # Where nodes are processes, the root of one is removed after it.
    made = tempfile.mkdtemp(prefix="rsctl-", dir=os.environ.get("RSCTL_ROOT"))
    folder = os.path.realpath(made)
    unpack(package, folder)
    os.chdir(os.path.join(folder, "source"))
    search_path = [os.environ.get("PYTHONPATH"), os.path.join(folder, "runtime")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in search_path if path)
    program = [os.path.join(folder, "runtime", "rsctl_start.py"), "rsctl.node.launch"]
    os.execv(sys.executable, [sys.executable, *program, *sys.argv[3:]])  # noqa: S606


def unpack(package: bytes, folder: str) -> None:
    """Write the files of a tar below a folder that has no links in its own path.

    Raises ValueError for a path or a link outside of it.
    """
    links = {}
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        for member in tar:
            path = _target(folder, member.name)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
            elif member.issym():
                links[path] = member.linkname
            else:
                _write(tar.extractfile(member), path, member.mode)
    # Last of all, so that nothing is written through one.
    for path, link in links.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
            raise ValueError(f"the package contains {path!r} below a link")
        os.symlink(link, path)
    for path, link in links.items():
        if not os.path.realpath(path).startswith(folder + os.sep):
            raise ValueError(f"the package contains a link that points outside it: {link!r}")


def _target(folder: str, name: str) -> str:
    parts = name.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        raise ValueError(f"the package lists a file that it does not contain: {name!r}")
    return os.path.join(folder, *parts)


def _write(content: object, path: str, mode: int) -> None:
    """A file that does not exist yet; `content` is None for anything but files, folders and
    links.
    """
    if not isinstance(content, io.IOBase):
        raise ValueError(f"the package contains {path!r}, which is not a regular file")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with content, open(path, "xb") as file:
        shutil.copyfileobj(content, file)
    os.chmod(path, mode & 0o755)
