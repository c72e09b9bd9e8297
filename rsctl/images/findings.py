"""Findings about an image before it is built: its transport, skipped files, large files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from rsctl.findings import SECRET, Finding, counted, error, first_of, note, warning
from rsctl.images.context import SOURCE, ContextEntry, LeftOut, leads_out, unreadable
from rsctl.images.gitignore import NAMED
from rsctl.images.known_errors import MOUNTED, OWN_BUILD
from rsctl.images.lfs import LARGEST, is_pointer
from rsctl.images.recipe import Recipe, make_recipe
from rsctl.images.requirements import to_install, uninstalled_file
from rsctl.images.runtime_files import has_compiled_core
from rsctl.images.submodules import REASON as EMPTY_SUBMODULE
from rsctl.images.transport import choose_transport
from rsctl.job.job import Job
from rsctl.job.secret_names import shows_secret
from rsctl.runs.stream.formatting import format_bytes

_SHOWN = 5
_OWN = ("runtime/", "requirements/")  # the files that rsctl adds to the source
_LARGE_BYTES = 100_000_000
_TOO_LARGE_BYTES = 1_000_000_000
_MOUNT = re.compile(r"\s*(?!#).*--mount=(\S*\btype=(secret|ssh)\b\S*)")
_OF_A_SYSTEM = re.compile(r"/(?:app|bin|dev|etc|lib(?:32|64)?|opt|proc|sbin|sys|usr)(?:/|$)")
_OWN_FILE = "to choose files yourself, write a .dockerignore; rsctl then ignores .gitignore"
_INITIALIZE = "run git submodule update --init --recursive; in CI, check out submodules"
_RETURN = "to include it, write !PATH in .dockerignore"


def image_findings(job: Job, target: str) -> list[Finding]:
    """Whether there is an image to build or to use, and how its transport is chosen."""
    if job.image.uri:
        return []
    if not job.image.is_built:
        remedy = (
            "set image.base or image.dockerfile to build an image, or image.uri to use an existing "
            "one"
        )
        return [error("image", f"target {target} needs an image", remedy, "image")]
    return choose_transport(job, target).findings


def recipe_of(job: Job, target: str) -> tuple[Recipe, list[Finding]]:
    """The recipe, and the omitted parts of the source. Raises RsctlError."""
    try:
        recipe = make_recipe(job, target)
    except OSError as problem:
        is_dockerfile = str(problem.filename) == job.image.dockerfile
        path = "image.dockerfile" if is_dockerfile else "image.source"
        raise unreadable(problem, path) from None
    context = recipe.context
    large = large_file_notes(context.entries, "the image")
    notes = [
        *left_out_notes(context.left_out, "the image"),
        *large,
        *pointer_notes(context.entries, "the image"),
        *_link_notes(context.entries, job.image.source),
        *_uninstalled_notes(job),
        *search_path_notes(job),
    ]
    return recipe, [*notes, *_dockerfile_notes(recipe, job), *_core_notes(recipe)]


def _uninstalled_notes(job: Job) -> Iterator[Finding]:
    """A note if the source names packages, and no key says that the build installs them."""
    path = uninstalled_file(job.image)
    if path is None:
        return
    message = f"{path.name} in image.source is not installed, because image.python is not set"
    remedy = to_install(path) or f"set image.python: {path}"
    yield note(
        "requirement", message, f"{remedy}, unless the base has the packages", "image.python"
    )


def search_path_notes(job: Job) -> Iterator[Finding]:
    """A warning for each folder of PYTHONPATH that leads out of the source that nodes get."""
    for folder in str(job.run.env.get("PYTHONPATH") or "").split(":"):
        if job.image.source and os.path.normpath(folder).split("/")[0] == "..":
            message = f"PYTHONPATH has {folder}, which leads out of image.source: nodes have no "
            remedy = "write the job file in a folder that has both, with paths from there"
            yield warning("links", f"{message}such folder", remedy, "run.env.PYTHONPATH")


def _dockerfile_notes(recipe: Recipe, job: Job) -> Iterator[Finding]:
    """The files that the user's Dockerfile cannot access if its context is not the source
    itself.
    """
    base = recipe.dockerfile_base
    if base:
        yield from _secrets_of_dockerfile(Path(base.path), job.image.secrets)
        if recipe.contents.is_launched:
            yield from _entrypoint_notes(Path(base.path))
    if base and (
        base.folder != job.image.source or base.context.left_out != recipe.context.left_out
    ):
        where = "the context of image.dockerfile"
        yield from left_out_notes(base.context.left_out, where, key="image.dockerfile")
        # docker does not read the .gitignore that keeps data out of the source.
        yield from large_file_notes(base.context.entries, where, "image.dockerfile")


def _secrets_of_dockerfile(path: Path, passed: list[str]) -> Iterator[Finding]:
    """A warning for each line with a secret, which the history of the image shows, or with a mount
    of one that is not passed.
    """
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if shows_secret(line) and not line.lstrip().startswith("#"):
            message = "this line has a secret, and anyone can read it in the image"
            found = warning(SECRET, message, "remove it", "image.dockerfile")
            yield replace(found, file=str(path), line=number, column=1)
        mount = _MOUNT.match(line)
        if mount and not any(f"id={name}" in mount[1].split(",") for name in passed):
            message = f"this line mounts a {mount[2]} that rsctl does not pass to the build"
            remedy = OWN_BUILD if mount[2] == "ssh" else MOUNTED
            found = warning("build-secret", message, remedy, "image.dockerfile")
            yield replace(found, file=str(path), line=number, column=1)


def _entrypoint_notes(path: Path) -> Iterator[Finding]:
    """A note if the image of a Dockerfile has an entrypoint, which the recipe replaces."""
    last = None
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        word, _, value = line.strip().partition(" ")
        if word.upper() in ("FROM", "ENTRYPOINT"):
            last = number if word.upper() != "FROM" and value.strip() != "[]" else None
    if last:
        message = "rsctl-launch is the first process of the image, so this ENTRYPOINT does not run"
        remedy = "set variables with ENV or image.env, and start other programs in run.command"
        found = note("entrypoint-replaced", message, remedy, "image.dockerfile")
        yield replace(found, file=str(path), line=last, column=1)


def _core_notes(recipe: Recipe) -> Iterator[Finding]:
    """An image with the transport `rsctl` is another one where there is no compiler."""
    if recipe.transport == "rsctl" and recipe.contents.is_launched and not has_compiled_core():
        message = "the image gets the transport without its compiled core, so the image's tag "
        message += "differs from that of machines that have it, and reducing takes more CPU time"
        remedy = "install a C++ compiler, then install rsctl again"
        yield note("core", message, remedy, "image.transport")


def left_out_notes(
    left_out: list[LeftOut], destination: str, remedy: str = _RETURN, key: str = "image.source"
) -> Iterator[Finding]:
    """The source files that are not copied to a destination, one note per reason."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in left_out:
        by_reason.setdefault(reason, []).append(path)
    for reason, paths in by_reason.items():
        message = f"not in {destination}: {first_of(paths, _SHOWN)} ({reason})"
        if reason == EMPTY_SUBMODULE:
            yield warning("submodule", message, _INITIALIZE, key)
        else:
            yield note("left-out", message, _OWN_FILE if reason == NAMED else remedy, key)


def large_file_notes(
    entries: Iterable[ContextEntry], destination: str, key: str = "image.source"
) -> Iterator[Finding]:
    """The source's files of 100 MB and more: each build copies them, and each node pulls them.

    From a gigabyte in all on it is a warning, which also names folders of many small files.
    """
    sizes = {
        entry.name.removeprefix(SOURCE): _size(entry)
        for entry in entries
        if entry.path and not entry.name.startswith(_OWN)
    }
    large = sorted(
        (n for n, size in sizes.items() if size >= _LARGE_BYTES), key=lambda n: -sizes[n]
    )
    if (total := sum(sizes.values())) >= _TOO_LARGE_BYTES:
        yield _too_large(total, sizes, destination, key)
        return
    if not large:
        return
    shown = first_of([f"{name} ({sizes[name] / 1e6:.0f} MB)" for name in large], _SHOWN)
    yield note(
        "large-files",
        f"large files are copied into {destination}: {shown}",
        "list them in .dockerignore and provide data as inputs, unless the script needs them there",
        key,
    )


def _link_notes(entries: Iterable[ContextEntry], source: str | None) -> Iterator[Finding]:
    """A warning for links that have a target here and most likely none in the image."""
    links = [
        f"{entry.name.removeprefix(SOURCE)} -> {entry.link}"
        for entry in entries
        if source and leads_out(entry, source, SOURCE) and not _OF_A_SYSTEM.match(entry.link or "")
    ]
    if links:
        shown = first_of(links, _SHOWN)
        message = f"links lead out of image.source, where the image has no files: {shown}"
        remedy = "copy the files into the folder, provide data as inputs, or list the links in "
        yield warning("links", message, f"{remedy}.dockerignore", "image.source")


def pointer_notes(
    entries: Iterable[ContextEntry], destination: str, key: str = "image.source"
) -> Iterator[Finding]:
    """A warning for files of the source whose content Git LFS has not fetched."""
    names = [
        entry.name.removeprefix(SOURCE)
        for entry in entries
        if entry.path and 0 < (size := _size(entry)) <= LARGEST and is_pointer(_head(entry), size)
    ]
    if names:
        message = (
            f"pointers of Git LFS are copied into {destination} in place of the files' contents: "
            f"{first_of(names, _SHOWN)}"
        )
        yield warning("lfs", message, "run git lfs pull; in CI, check out files of Git LFS", key)


def _head(entry: ContextEntry) -> bytes:
    try:
        with entry.open() as file:
            return file.read(LARGEST)
    except OSError:
        return b""  # reading it fails with a finding


def _too_large(total: int, sizes: dict[str, int], destination: str, key: str) -> Finding:
    """The warning for a source of gigabytes, with its largest top-level entries."""
    tops: dict[str, int] = {}
    for name, size in sizes.items():
        top, separator, _ = name.partition("/")
        tops[top + separator] = tops.get(top + separator, 0) + size
    largest = sorted(tops, key=lambda top: -tops[top])[:_SHOWN]
    largest = [top for top in largest if tops[top] * 100 >= total]
    shown = ", ".join(f"{top} ({format_bytes(tops[top])})" for top in largest)
    return warning(
        "large-source",
        f"{format_bytes(total)} in {counted(len(sizes), 'file')} are copied into {destination}: "
        f"{shown}",
        "list files that the script does not need in .dockerignore, and provide data as inputs: "
        "each build sends all files, and each node pulls them",
        key,
    )


def _size(entry: ContextEntry) -> int:
    try:
        return os.stat(entry.path).st_size if entry.path else 0
    except OSError:
        return 0  # reading it fails with a finding
