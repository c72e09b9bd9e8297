"""The staging folder of a job, where rsctl uploads: `targets.vertex.staging` and its like."""

from __future__ import annotations

from typing import NamedTuple


class StagingFolder(NamedTuple):
    """A bucket and the folder in it, empty or with a `/` at its end."""

    bucket: str
    folder: str


def parse_staging(uri: str) -> StagingFolder:
    """`gs://BUCKET/FOLDER` or `s3://BUCKET/FOLDER` as bucket and folder."""
    bucket, _, folder = uri.partition("://")[2].partition("/")
    folder = folder.strip("/")
    return StagingFolder(bucket, f"{folder}/" if folder else "")
