"""Checkpoints: a folder of each host is stored in S3, and restored after an interruption.

All hosts get all files at their start; when a host then writes, changes or removes a file, the same
happens in S3, so hosts must give their files different names.
"""

from __future__ import annotations

from pathlib import Path

from rsctl.targets.sagemaker.emulator.channels import split_uri
from rsctl.targets.sagemaker.emulator.files import copy_to, files, make_folder, store
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects

_Stamp = tuple[int, int]


class Checkpoints:
    """The checkpoints of one job. `uri` is their location."""

    def __init__(self, objects: FolderObjects, uri: str) -> None:
        self._objects = objects
        self._bucket, prefix = split_uri(uri)
        self._prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self._known: dict[Path, dict[str, _Stamp]] = {}

    def restore(self, folder: Path) -> None:
        """Fill a host's folder with what S3 has. Raises OSError."""
        make_folder(folder)
        for key in self._objects.names(self._bucket):
            path = self._objects.path(self._bucket, key)
            if path and key.startswith(self._prefix):
                copy_to(path, folder / key[len(self._prefix) :])
        self._known[folder] = {
            found.name: (found.size, found.modified_ns) for found in files(folder)
        }

    def follow(self, folder: Path) -> None:
        """Begin with a host's folder as it is. Raises OSError."""
        make_folder(folder)
        self._known[folder] = {}

    def sync(self) -> None:
        """Store the hosts' new files in S3, and remove those that they have removed.

        Raises OSError.
        """
        for folder, known in self._known.items():
            present = {}
            for found in files(folder):
                present[found.name] = (found.size, found.modified_ns)
                if known.get(found.name) != present[found.name]:
                    store(self._objects, self._bucket, self._prefix + found.name, found)
            for name in known.keys() - present.keys():
                self._objects.delete(self._bucket, self._prefix + name)
            self._known[folder] = present

    def forget(self) -> None:
        """The hosts' folders are lost, with what was not stored."""
        self._known.clear()
