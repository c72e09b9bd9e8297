"""Local source beside `image.uri`: packed with rsctl's runtime, unpacked where the job runs.

An image that is used without changes does not have rsctl, so the request delivers the runtime: one
tar, in a folder of the staging bucket that is named by the hash of its content. The container
begins with `python3 -I -c LOADER FILE HASH`, and continues as `rsctl-launch` does, with the same
arguments. The only part that the hash does not cover is a few words of Python in the request
itself: anyone who can write to the bucket can make the job fail, and no more. Pure except for
reading the files.

    boot.py    what the loader runs: `package_boot`
    runtime/   rsctl's runtime and transport, without the compiled core
    source/    `image.source`
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec

from rsctl.findings import Finding, error, note, warning
from rsctl.images.context import (
    SOURCE,
    BuildContext,
    ContextEntry,
    LeftOut,
    leads_out,
    source_entries,
    unreadable,
)
from rsctl.images.findings import large_file_notes, left_out_notes, pointer_notes
from rsctl.images.requirements import MAIN
from rsctl.images.runtime_files import runtime_entries
from rsctl.job.job import Job
from rsctl.target_info import target_info

FILE = "package.tar.gz"
"""The file name of a package in its folder."""

LOADER = ";".join(
    (
        "import gzip,hashlib,sys",
        'sys.excepthook=lambda t,e,_:print("rsctl cannot start the source:",e)',
        "p,d=sys.argv[1:3]",
        "b=gzip.open(p).read()",
        'hashlib.sha256(b).hexdigest()==d or sys.exit(p+" is not what was submitted")',
        r'exec(b[512:b.index(b"\0",512)])',  # a tar's first file follows a header of 512 bytes
        "start(b)",
    )
)
"""Checks a package and runs its first file. One line of at most 256 characters, as SageMaker wants
each word of a command to be."""

_BOOT = Path(__file__).with_name("package_boot.py")
_LINK = "a link that points outside the folder"
_STAGED = re.compile(rb"packages/([0-9a-f]{64})/")


class Package(NamedTuple):
    """Files for an image without rsctl; `digest` is the SHA-256 of their tar, in hex.

    `key` is the key of the spec that names them, `time` the modification time of all of them, in
    seconds since 1970.
    """

    context: BuildContext
    digest: str
    key: str
    time: int

    @property
    def folder(self) -> str:
        """Where it is below the staging folder: by itself, with a `/` at its end."""
        return f"packages/{self.digest}/"

    def command(self, path: str) -> list[str]:
        """How a container begins that finds the package at a path."""
        return ["python3", "-I", "-c", LOADER, path, self.digest]

    def write(self, out: IO[bytes]) -> None:
        """Write the file. Raises OSError, and RsctlError that names the files that have changed."""
        with cast(IO[bytes], gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)) as packed:
            work = "the job was being submitted"
            self.context.write_unchanged_tar(packed, time=self.time, key=self.key, work=work)


def is_packaged(job: Job) -> bool:
    """Whether a job has source for an image that is used without changes."""
    return bool(job.image.uri and job.image.source) and job.run.is_launched


def make_package(job: Job) -> Package:
    """The package of a job that has one. Raises RsctlError if a file of it cannot be read."""
    boot = ContextEntry("boot.py", content=_BOOT.read_bytes())
    # What a compiler made is not the same everywhere, and may not fit the image.
    runtime = runtime_entries("runtime/", has_core=False)
    return package_of(job.image.source, SOURCE, [boot, *runtime])


def package_of(
    folder: str | None,
    prefix: str = "",
    others: Sequence[ContextEntry] = (),
    *,
    key: str = "image.source",
    time: int = 0,
) -> Package:
    """Other entries, and the files of a folder of this machine below `prefix`, an empty one if
    `folder` is None. Raises RsctlError if a file cannot be read.
    """
    try:
        context = BuildContext([*others])
        if folder is None:
            context.entries.append(ContextEntry(prefix.rstrip("/")))
        else:
            source, context.left_out = source_entries(Path(folder), prefix)
            for entry in source:
                if leads_out(entry, folder, prefix):
                    context.left_out.append(LeftOut(entry.name.removeprefix(prefix), _LINK))
                elif entry.name:
                    context.entries.append(entry)
        context.write_tar(out := _Hash(), time=time)
        return Package(context, out.total.hexdigest(), key, time)
    except OSError as problem:
        raise unreadable(problem, key) from None


def package_findings(job: Job, target: str) -> Iterator[Finding]:
    """The settings that a target needs to deliver a package to its containers; none for other
    jobs.
    """
    if not is_packaged(job):
        return
    message = "the image is used without changes: it must have Python 3.10 or newer, as python3"
    yield note("image", message, None, "image.uri")
    yield from _requirements_findings(job, target)
    info = target_info(target)
    if not info.options_of(job).staging:
        path = f"targets.{target}.staging"
        message = (
            "rsctl delivers image.source through a bucket if the image is used without changes"
        )
        yield error("staging", message, f"set {path}: {info.staging_scheme}://BUCKET/FOLDER", path)


def _requirements_findings(job: Job, target: str) -> Iterator[Finding]:
    """A warning where the source names packages that no step installs.

    Estimators and ModelTrainer install the requirements.txt beside a script at the start.
    """
    path = Path(str(job.image.source)) / MAIN
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return
    if any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        message = (
            f"{MAIN} in image.source is not installed, because the image is used without changes"
        )
        remedy = f"use image.base instead of image.uri, with image.python: {path}, or install the "
        remedy += "packages in the image"
        instead = target_info(target).installs_requirements
        if instead and (job.run.script or job.run.module):
            remedy += f"; {instead}"
        yield warning("image", message, remedy, "image.source")


def package_notes(package: Package) -> Iterator[Finding]:
    """The files that a package does not include."""
    links = [left for left in package.context.left_out if left.reason == _LINK]
    others = [left for left in package.context.left_out if left.reason != _LINK]
    copy_it = "copy the file that it points to into the folder"
    yield from left_out_notes(others, "the package", key=package.key)
    yield from left_out_notes(links, "the package", copy_it, package.key)
    yield from large_file_notes(package.context.entries, "the package", package.key)
    yield from pointer_notes(package.context.entries, "the package", package.key)


def digest_in(request: Any) -> str | None:
    """The digest of the package that a request names; None if it names none."""
    found = _STAGED.search(msgspec.json.encode(request))
    return found[1].decode() if found else None


class _Hash(io.BytesIO):
    """Hashes the written data."""

    def __init__(self) -> None:
        super().__init__()
        self.total = hashlib.sha256()

    def write(self, block: Any, /) -> int:
        self.total.update(block)
        return len(block)
