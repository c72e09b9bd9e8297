"""The images of the local container engine that rsctl built, known by their label."""

from __future__ import annotations

import shutil
from subprocess import CompletedProcess
from typing import Optional

import msgspec

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.commands import command_failed, last_line, run_checked, run_command
from rsctl.images.labels import LABEL

_LOCAL = "localhost/"  # podman's prefix of a name without a registry
_GONE = ("no such image", "image not known")  # docker, podman


class BuiltImage(msgspec.Struct):
    """An image that rsctl built: `size` in bytes, with layers that it may share with others."""

    id: str
    created: str
    size: int
    tags: list[str]
    digests: list[str]

    @property
    def label(self) -> str:
        """How it is called for people."""
        return self.tags[0] if self.tags else self.id.removeprefix("sha256:")[:12]

    @property
    def names(self) -> set[str]:
        """All that a plan or a bench can know it by."""
        tags = {tag.removeprefix(_LOCAL) for tag in self.tags}
        return {self.id, *self.tags, *tags, *self.digests}


class _InspectedBuild(msgspec.Struct):
    Id: str
    Size: int
    Created: str = "1970-01-01T00:00:00Z"  # Docker omits it where an image has no date
    RepoTags: Optional[list[str]] = None
    RepoDigests: Optional[list[str]] = None


def find_engine() -> str:
    """The program of this machine's engine. Raises RsctlError if there is none."""
    for program in ("docker", "podman"):
        if shutil.which(program) and run_command([program, "version"]).returncode == 0:
            return program
    message = "no container engine answers here"
    remedy = "start Docker or Podman, or run the command without --images"
    raise RsctlError(ExitCode.ENVIRONMENT, error("engine", message, remedy))


def built_images(program: str) -> list[BuiltImage]:
    """The images that rsctl built, the newest first. Raises RsctlError."""
    listing = [program, "image", "ls", "--no-trunc", "--filter", f"label={LABEL}"]
    ids = list(dict.fromkeys(run_checked([*listing, "--format", "{{.ID}}"]).split()))
    if not ids:
        return []
    inspected = run_command([program, "image", "inspect", *ids])
    if inspected.returncode and not _is_gone(inspected):
        raise command_failed(inspected)
    try:
        found = msgspec.json.decode(inspected.stdout, type=list[_InspectedBuild])
    except (msgspec.DecodeError, RecursionError) as problem:
        message = f"{program} image inspect: {problem}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("engine", message)) from None
    images = [
        BuiltImage(one.Id, one.Created, one.Size, one.RepoTags or [], one.RepoDigests or [])
        for one in found
    ]
    return sorted(images, key=lambda image: image.created, reverse=True)


def remove_image(program: str, image: BuiltImage) -> str | None:
    """Remove an image with all its names; why it stays, if it does, such as for its containers."""
    for name in image.tags or [image.id]:
        done = run_command([program, "image", "rm", name])
        if done.returncode and not _is_gone(done):
            return last_line(done)
    return None


def _is_gone(done: CompletedProcess[str]) -> bool:
    """Whether a command has failed only because another process has removed the images."""
    lines = done.stderr.lower().splitlines()
    return bool(lines) and all(any(gone in line for gone in _GONE) for line in lines)
