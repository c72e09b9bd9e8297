"""Emulated buckets with objects of any name: real ones have names that no file can have."""

from __future__ import annotations

from urllib.parse import quote, unquote

from rsctl.targets.sagemaker.emulator.s3_objects import Facts, FolderObjects, Known
from rsctl.targets.vertex.emulator.cloudstorage import CloudStorage


class AnyKeys(FolderObjects):
    """S3's objects, in files of encoded names."""

    def names(self, bucket: str) -> list[str]:
        return sorted(unquote(name) for name in super().names(bucket))

    def facts(self, bucket: str, key: str) -> Facts | None:
        return super().facts(bucket, quote(key, safe=""))

    def content(self, bucket: str, key: str) -> bytes | None:
        return super().content(bucket, quote(key, safe=""))

    def put(self, bucket: str, key: str, content: bytes, known: Known) -> bool:
        return super().put(bucket, quote(key, safe=""), content, known)

    def delete(self, bucket: str, key: str) -> None:
        super().delete(bucket, quote(key, safe=""))


class AnyNames(CloudStorage):
    """Cloud Storage, with its objects in files of encoded names."""

    def names(self, bucket: str) -> list[str]:
        return sorted(unquote(name) for name in super().names(bucket))

    def read(self, bucket: str, name: str) -> tuple[int, bytes] | None:
        return super().read(bucket, quote(name, safe=""))

    def content(self, bucket: str, name: str) -> bytes | None:
        """An object's bytes."""
        found = self.read(bucket, name)
        return found[1] if found else None

    def write(self, bucket: str, name: str, content: bytes) -> int | None:
        return super().write(bucket, quote(name, safe=""), content)

    def remove(self, bucket: str, name: str) -> None:
        super().remove(bucket, quote(name, safe=""))
