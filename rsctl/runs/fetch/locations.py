"""The results of a run, by the folder that they are downloaded to, and their locations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import ObjectUrl
from rsctl.clients.storage.buckets import open_bucket
from rsctl.runs.fetch.sources import BucketSource, DownloadSource, FileSource, FolderSource
from rsctl.runs.folder import RunFolder

ResultKind = Literal["outputs", "checkpoints", "logs", "artifacts"]
"""The results that a run leaves."""

Kind = Union[ResultKind, Literal["inputs"]]
_ARCHIVE = ".tar.gz"


class ResultLocation(NamedTuple):
    """One location of results. `folder` is its destination; `archive` is the name of the source
    file that is unpacked there, None if all files are copied unchanged.
    """

    kind: Kind
    folder: str
    source: DownloadSource
    archive: str | None = None
    others: tuple[str, ...] = ()
    """The other locations below this one, as prefixes of its names."""


def locations_of(
    run: str,
    results: Mapping[str, str],
    endpoints: Endpoints,
    region: str | None,
    source_of: Callable[[str], DownloadSource] | None = None,
) -> list[ResultLocation]:
    """All locations of a run; `results` are its results by kind. Raises RsctlError.

    `source_of` is the target's own way to the paths of its jobs.
    """
    found = []
    for name, location in results.items():
        kind: ResultKind = name if name in ("outputs", "checkpoints") else "artifacts"  # type: ignore
        folder = kind if kind == name else f"artifacts/{name}"
        parent, archive = _split_archive(location)
        if source_of is not None and "://" not in parent:
            source = source_of(parent)
        else:
            source = open_location(parent, endpoints, region)
        others = () if archive else tuple(_below(location, results))
        found.append(ResultLocation(kind, folder, source, archive, others))
    return [*found, ResultLocation("logs", "logs", _logs(run))]


def region_of(plan: Mapping[str, Any]) -> str | None:
    """The region of a plan's request, where its buckets are; None for Google's."""
    request = plan.get("request")
    region = request.get("region") if isinstance(request, Mapping) else None
    return str(region) if region else None


def _split_archive(location: str) -> tuple[str, str | None]:
    """The folder of an archive, and its name; another location as it is."""
    if not location.endswith(_ARCHIVE):
        return location, None
    parent, _, name = location.rpartition("/")
    return parent, name


def open_location(location: str, endpoints: Endpoints, region: str | None = None) -> DownloadSource:
    """The files of a folder, or below a prefix of a bucket."""
    if "://" not in location:
        return FolderSource(Path(location))
    name = ObjectUrl.parse(location).name.strip("/")
    bucket = open_bucket(location, endpoints, region)
    return BucketSource(bucket, location, f"{name}/" if name else "")


def _below(location: str, results: Mapping[str, str]) -> list[str]:
    """The other results below a location, so that nothing is downloaded twice."""
    base = f"{location.rstrip('/')}/"
    inside = [other.rstrip("/") for other in results.values() if other.startswith(base)]
    return [other[len(base) :] for other in inside if len(other) > len(base)]


def _logs(run: str) -> FileSource:
    folder = RunFolder(run)
    names = {f"{replica}.log": f"{replica}/log" for replica in folder.replicas()}
    return FileSource(folder.path, {**names, "states.ndjson": folder.states.name})
