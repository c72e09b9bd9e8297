"""The build context as an upload for a cloud: a ZIP with the context's tar inside.

Where the base is a Dockerfile of the user's, the tar of its context is beside it.

Both services unpack a ZIP. The tar stays packed until docker reads it, so that names, modes and
links reach docker unchanged by the service's own unpacking.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO

from rsctl.atomic_file import temporary_file
from rsctl.clients.storage import Upload
from rsctl.images.recipe import Recipe

CONTEXT = "context.tar"
BASE_CONTEXT = "base.tar"
_BLOCK = 1 << 20


def object_name(context: Upload) -> str:
    """Content-addressed, so that an unchanged context is uploaded once."""
    return f"rsctl-context-{context.digest[:32]}.zip"


@contextmanager
def pack_context(recipe: Recipe) -> Iterator[Upload]:
    """The recipe's context in a temporary file. Raises RsctlError if it cannot be written."""
    write = partial(_write_zip, recipe)
    with temporary_file(write, "context", "pack the build's files in") as out:
        yield Upload(out, out.seek(0, os.SEEK_END), _digest(out))


def _write_zip(recipe: Recipe, out: IO[bytes]) -> None:
    with zipfile.ZipFile(out, "w") as archive:
        # A builder in the cloud starts empty: cache mounts would keep nothing there.
        _add_tar(archive, CONTEXT, lambda tar: recipe.write_context(tar, cache_mounts=False))
        if recipe.dockerfile_base:
            _add_tar(archive, BASE_CONTEXT, recipe.dockerfile_base.write_context)


def _add_tar(archive: zipfile.ZipFile, name: str, write: Callable[[IO[bytes]], None]) -> None:
    with tempfile.TemporaryFile() as tar:
        write(tar)
        member = zipfile.ZipInfo(name)
        member.file_size = tar.tell()
        member.compress_type = zipfile.ZIP_DEFLATED
        tar.seek(0)
        with archive.open(member, "w") as packed_tar:
            shutil.copyfileobj(tar, packed_tar, _BLOCK)


def _digest(file: IO[bytes]) -> str:
    hashed = hashlib.sha256()
    file.seek(0)
    while block := file.read(_BLOCK):
        hashed.update(block)
    file.seek(0)
    return hashed.hexdigest()
