"""The results of a job in S3: the files of /opt/ml/model and of /opt/ml/output/data of all
hosts.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rsctl.targets.sagemaker.emulator.channels import split_uri
from rsctl.targets.sagemaker.emulator.files import OpenedFile, files, links, store
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects

_KINDS = {"model": "model", "output": "output/data"}


def model_uri(output: dict[str, Any], job: str) -> str:
    """The location of a job's model, by its OutputDataConfig."""
    name = "model/" if output.get("CompressionType") == "NONE" else "model.tar.gz"
    return f"{output['S3OutputPath'].rstrip('/')}/{job}/output/{name}"


class Artifacts:
    """The artifacts of one job, by its OutputDataConfig."""

    def __init__(self, objects: FolderObjects, output: dict[str, Any], job: str) -> None:
        self._objects = objects
        self._is_packed = output.get("CompressionType") != "NONE"
        self._bucket, prefix = split_uri(output["S3OutputPath"])
        self._prefix = "/".join(filter(None, [prefix.strip("/"), job, "output"]))

    def store(self, hosts: list[Path]) -> None:
        """Store what the hosts' folders, each in the place of /opt/ml, have left.

        Of files of one name that several hosts have written, the last host's is kept. Raises
        OSError.
        """
        for name, inside in _KINDS.items():
            folders = [host / inside for host in hosts]
            if self._is_packed:
                self._pack(f"{self._prefix}/{name}.tar.gz", folders)
                continue
            prefix = f"{self._prefix}/{'model' if name == 'model' else 'data'}"
            for found in _all(folders):
                store(self._objects, self._bucket, f"{prefix}/{found.name}", found)

    def _pack(self, key: str, folders: list[Path]) -> None:
        with tempfile.TemporaryFile() as archive:
            if _write(archive, folders):
                archive.seek(0)
                if self._objects.take(self._bucket, key, archive) is None:
                    raise OSError(f"{key} cannot be stored")


def _write(archive: BinaryIO, folders: list[Path]) -> bool:
    """Write an archive of the folders' files and links; whether there were any."""
    has_files = False
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        for found in _all(folders):
            entry = tarfile.TarInfo(found.name)
            entry.size, entry.mtime, entry.mode = found.size, found.modified_ns // 10**9, found.mode
            packed.addfile(entry, _Exactly(found))
            has_files = True
        for name, target in _all_links(folders).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            packed.addfile(entry)
            has_files = True
    return has_files


def _all(folders: list[Path]) -> Iterator[OpenedFile]:
    """The files of all folders, one of each name."""
    last = {found.name: folder for folder in folders for found in files(folder)}
    for folder in folders:
        for found in files(folder):
            if last.get(found.name) == folder:
                yield found


def _all_links(folders: list[Path]) -> dict[str, str]:
    """The links of all folders, one of each name. The folders' files are as `_all` has them."""
    return {name: target for folder in folders for name, target in links(folder).items()}


class _Exactly:
    """A file with a fixed size, though a container may still write to it."""

    def __init__(self, found: OpenedFile) -> None:
        self._file, self._left = found.file, found.size

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes, -1 for all; zeros where there is less."""
        wanted = self._left if size < 0 else min(size, self._left)
        content = self._file.read(wanted)
        self._left -= wanted
        return content.ljust(wanted, b"\0")
