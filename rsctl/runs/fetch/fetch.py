"""Downloads all results of a run into one folder, several files at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import Any, Optional

import msgspec
from msgspec.structs import replace

from rsctl.clients.errors import NoAnswer
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.storage import ObjectChanged, StoredObject
from rsctl.findings import ExitCode, Finding, RsctlError, error, first_of, warning
from rsctl.runs.fetch.archives import Unpacking, skipped, unpack
from rsctl.runs.fetch.directory import Directory, FolderFull
from rsctl.runs.fetch.downloads import (
    DownloadContext,
    State,
    Stopped,
    Task,
    fetch_file,
    receive_part,
)
from rsctl.runs.fetch.index import Index, IndexEntry, Unpacked
from rsctl.runs.fetch.links import FolderLinks
from rsctl.runs.fetch.locations import Kind, ResultLocation
from rsctl.runs.fetch.names import assign_paths, folder_path
from rsctl.runs.fetch.sources import FolderSource, printable

_THREADS = 8
_POLL_SECONDS = 0.2


class FetchedFile(msgspec.Struct, kw_only=True):
    """A downloaded file: its path, its size in bytes, and the checksum that was compared.

    `checksum` is None if the location has none that can be computed: then only the size was
    compared. `link` is the path of a folder, below the same folder as `path`, if it is a link to
    that.
    """

    path: str
    size: int
    state: State
    location: str
    checksum: Optional[str] = None
    link: Optional[str] = None


@dataclass(frozen=True)
class FetchSelection:
    """The results to download: these kinds, and of them the files that match one of the patterns.

    A pattern without a slash applies to the last part of a path; `*` also matches slashes.
    """

    kinds: frozenset[Kind] = frozenset({"outputs", "checkpoints", "logs", "artifacts"})
    include: tuple[str, ...] = ()
    most_unpacked: Optional[int] = None

    def has(self, path: str) -> bool:
        """Whether a path is chosen."""
        name = path.rpartition("/")[2]
        return not self.include or any(
            fnmatchcase(path if "/" in pattern else name, pattern) for pattern in self.include
        )


@dataclass
class FetchProgress:
    """The progress: downloaded files and bytes, and the totals."""

    files: int = 0
    bytes: int = 0
    all_files: int = 0
    all_bytes: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def advance(self, count: int) -> None:
        """Add downloaded bytes."""
        with self._lock:
            self.bytes += count


@dataclass
class Fetched:
    """The outcome. Errors among the findings concern single files."""

    directory: str
    files: list[FetchedFile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.SUCCEEDED

    def add_problem(self, problem: RsctlError) -> None:
        """Record why one file was not downloaded."""
        self.findings += problem.findings
        if self.exit_code is ExitCode.SUCCEEDED:
            self.exit_code = problem.exit_code


Outcome = tuple[list[FetchedFile], list[Finding]]
Job = Callable[[DownloadContext], Outcome]


def fetch(
    run: str,
    locations: Iterable[ResultLocation],
    path: Path,
    choice: FetchSelection,
    retries: RetryPolicy,
    show: Callable[[FetchProgress], object] = bool,
) -> Fetched:
    """Download the selected files of a run to a folder. Raises RsctlError if it cannot continue."""
    chosen = [location for location in locations if location.kind in choice.kinds]
    _require_outside(path, chosen)
    progress, fetched = FetchProgress(), Fetched(printable(str(path)))
    with closing(Directory(path)) as directory, closing(Index(directory, run)) as index:
        context = DownloadContext(directory, index, retries, progress.advance)
        jobs = _plan(chosen, choice, context, progress, fetched)
        _run(jobs, context, progress, fetched, lambda: show(progress))
    fetched.files.sort(key=lambda file: file.path)
    fetched.findings = list(dict.fromkeys(fetched.findings))
    return fetched


def _require_outside(path: Path, locations: Iterable[ResultLocation]) -> None:
    """Reject a destination inside the results: it would be copied into itself."""
    there = Path(os.path.realpath(path))
    for location in locations:
        source = location.source
        if isinstance(source, FolderSource) and there.is_relative_to(
            os.path.realpath(source.folder)
        ):
            where = printable(str(path))
            message = f"{where} is inside {source.location}, which would be copied into it"
            finding = error("destination", message, "use a folder outside it")
            raise RsctlError(ExitCode.USAGE, finding)


def _plan(
    locations: list[ResultLocation],
    choice: FetchSelection,
    context: DownloadContext,
    progress: FetchProgress,
    fetched: Fetched,
) -> list[Job]:
    """The job for each chosen file and link. Raises DiskFull if the files do not fit."""
    jobs: list[Job] = []
    missing = 0
    for location in locations:
        try:
            tasks, links = _tasks(location, choice, context, fetched)
        except RsctlError as problem:
            if _ends_all(problem):
                raise
            fetched.add_problem(problem)
            continue
        fetched.findings += location.source.findings
        progress.all_files += len(tasks) + len(links)
        progress.all_bytes += sum(task.found.size for task in tasks)
        missing += sum(task.found.size for task in tasks if not _has_size(task, context))
        jobs += [partial(_make_link, path, to, location) for path, to in links.items()]
        jobs += [partial(_fetch_one, task, location, choice) for task in tasks]
    what = f"{missing:,} bytes remain to be downloaded"
    context.directory.require_space(missing, what, "--only or --include")
    return jobs


def _has_size(task: Task, context: DownloadContext) -> bool:
    """Whether a file of this size already exists."""
    there = context.directory.stat(task.path)
    return there is not None and there.st_size == task.found.size


def _tasks(
    location: ResultLocation, choice: FetchSelection, context: DownloadContext, fetched: Fetched
) -> tuple[list[Task], dict[str, str]]:
    """The chosen files of a location, and links to the folders that they are in, as paths."""
    source = location.source
    if location.archive is not None:
        found = source.find(location.archive)
        path = location.folder + location.archive[location.archive.index(".") :]
        return [Task(path, source, found)] if found else [], {}
    listed: dict[str, StoredObject] = {
        found.name: found for found in source.files() if not _is_of_others(found.name, location)
    }
    paths = assign_paths([*listed, *source.links], context.directory.folds_case())
    if renamed := [name for name, path in paths.items() if path != name]:
        fetched.findings.append(_renamed(source.location, renamed, paths))
    links = FolderLinks(
        location.folder,
        {paths.pop(link): folder_path(to) for link, to in source.links.items()},
    )
    below = {name: f"{location.folder}/{path}" for name, path in paths.items()}
    if empty := links.empty(below.values()):
        fetched.findings.append(skipped(source.location, empty, "links to folders without files"))
    chosen = {name: path for name, path in below.items() if links.chooses(choice.has, path)}
    tasks = [Task(path, source, listed[name]) for name, path in chosen.items()]
    return tasks, links.to(chosen.values())


def _is_of_others(name: str, location: ResultLocation) -> bool:
    return any(name == other or name.startswith(f"{other}/") for other in location.others)


def _fetch_one(
    task: Task, location: ResultLocation, choice: FetchSelection, context: DownloadContext
) -> Outcome:
    if location.archive is not None:
        return _fetch_archive(task, location, choice, context)
    entry, state = fetch_file(task, context)
    return [_shown(entry, state, location.source.location)], []


def _make_link(
    path: str, target: str, location: ResultLocation, context: DownloadContext
) -> Outcome:
    return [_linked(path, target, location.source.location, context)], []


def _linked(path: str, target: str, where: str, context: DownloadContext) -> FetchedFile:
    state: State = "fetched" if context.directory.link(path, target) else "unchanged"
    return FetchedFile(path=path, size=0, state=state, location=where, link=target)


def _fetch_archive(
    task: Task, location: ResultLocation, choice: FetchSelection, context: DownloadContext
) -> Outcome:
    """Unpack an archive's files; the archive itself is removed afterwards."""
    where = f"{location.source.location.rstrip('/')}/{location.archive}"
    known = context.index.find_unpacked(location.folder, task.version, choice.include)
    if known is not None:
        context.advance(task.found.size)
        links = [_linked(path, to, where, context) for path, to in known.links.items()]
        return [*(_shown(entry, "unchanged", where) for entry in known.files), *links], []
    digest = receive_part(task, context)
    unpacking = Unpacking(where, location.folder, choice.has, choice.most_unpacked)
    with open(context.directory.open_part(task.path), "rb") as archive:
        entries, folder_links, findings = unpack(archive, unpacking, task.version, context)
    entries = [replace(entry, checksum=digest.algorithm) for entry in entries]
    context.index.add_unpacked(
        Unpacked(
            archive=location.folder,
            version=task.version,
            include=list(choice.include),
            files=entries,
            links=folder_links,
        )
    )
    context.directory.drop_part(task.path)
    links = [_linked(path, to, where, context) for path, to in folder_links.items()]
    return [*(_shown(entry, "fetched", where) for entry in entries), *links], findings


def _run(
    jobs: list[Job],
    context: DownloadContext,
    progress: FetchProgress,
    fetched: Fetched,
    show: Callable[[], object],
) -> None:
    """Run all downloads; an error of one file does not stop the others."""
    pool = ThreadPoolExecutor(_THREADS)
    done: SimpleQueue[Future[Any]] = SimpleQueue()  # `wait` looks at all that are left, each time
    shown = 0.0
    try:
        for job in jobs:
            pool.submit(job, context).add_done_callback(done.put)
        while progress.files < len(jobs):
            with suppress(Empty):
                future = done.get(timeout=_POLL_SECONDS)
                progress.files += 1
                _take(future, fetched)
            if monotonic() - shown >= _POLL_SECONDS or progress.files == len(jobs):
                show()
                shown = monotonic()
    finally:
        context.stop.set()
        pool.shutdown(cancel_futures=True)


def _take(future: Future[Any], fetched: Fetched) -> None:
    try:
        files, findings = future.result()
    except Stopped:
        return
    except RsctlError as problem:
        if _ends_all(problem):
            raise
        fetched.add_problem(problem)
        return
    fetched.files += files
    fetched.findings += findings


def _ends_all(problem: RsctlError) -> bool:
    """Whether the error affects all other files too."""
    is_general = problem.exit_code in (ExitCode.ENVIRONMENT, ExitCode.REFUSED)
    codes = {finding.code for finding in problem.findings}
    lacking = any(code.startswith("credentials") or code == "clock" for code in codes)
    return isinstance(problem, (FolderFull, NoAnswer)) or (
        is_general and lacking and not isinstance(problem, ObjectChanged)
    )


def _shown(entry: IndexEntry, state: State, location: str) -> FetchedFile:
    return FetchedFile(
        path=entry.path,
        size=entry.size,
        state=state,
        location=location,
        checksum=entry.checksum,
    )


def _renamed(location: str, names: list[str], paths: dict[str, str]) -> Finding:
    examples = first_of([f"{name[:80]!r} as {paths[name][:80]!r}" for name in sorted(names)], 3)
    message = f"{location} has names that are not possible for files here: {examples}"
    return warning("renamed", message)
