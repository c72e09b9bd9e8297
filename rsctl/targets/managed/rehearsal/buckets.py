"""Folders in place of the clouds' buckets, shared by all rehearsals."""

from __future__ import annotations

from pathlib import Path

from rsctl.runs.home import home, private_folder


def bucket_folder(location: str) -> Path:
    """The folder that holds `gs://BUCKET/PATH` or `s3://BUCKET/PATH` in all rehearsals."""
    scheme, _, path = location.partition("://")
    return home() / "rehearsal" / scheme / path.strip("/")


def make_bucket(location: str) -> None:
    """Make a bucket's folder, writable for nodes of any user; one that exists is left as it is.

    Raises OSError.
    """
    folder = bucket_folder(location)
    if not folder.exists():
        private_folder(home() / "rehearsal")
        folder.mkdir(parents=True)
        folder.chmod(0o777)
