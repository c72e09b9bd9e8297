"""Items that are not in the store: folders of forgotten runs, and buckets of rehearsals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType

from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.api.prune.uses import used_buckets
from rsctl.bench.checkouts import checkouts
from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord
from rsctl.runs import emulator
from rsctl.runs.disk_use import disk_use
from rsctl.runs.forget import RESULTS, folders_without_run, leftover_results, unfinished_removals
from rsctl.runs.home import home, is_rehearsed, run_directory
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import now, seconds_between

_SCHEMES = ("gs", "s3")
_SETTLED_SECONDS = 600


def folder_items(
    store: Store, limits: PruneLimits, uses: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Item], list[Kept]]:
    """The folders that killed processes left, and with `has_results` the results of forgotten
    runs; kept are those among `uses`, each with what uses it. Raises StoreError.

    A submission makes the folder of a run before its record, so that a recent one stays.
    """
    found = {run: run_directory(run) for run in unfinished_removals(store)}
    orphans = {run: run_directory(run) for run in folders_without_run(store)}
    found |= {run: path for run, path in orphans.items() if _is_settled(path)}
    found |= {bench: BenchFolder(bench).path for bench in _benches_without_record(store)}
    if limits.has_results:
        results = {run: run_directory(run) for run in leftover_results(store)}
        found |= {run: path for run, path in results.items() if limits.is_past(changed(path))}
    skip = () if limits.has_results else RESULTS
    items = [
        Item(kind="folder", name=run, size=disk_use(path, skip), ended=changed(path))
        for run, path in found.items()
        if run not in uses
    ]
    return items, [Kept(n, f"{uses[n]} uses its files in {found[n]}") for n in found if n in uses]


def _benches_without_record(store: Store) -> list[str]:
    """The benches that have a folder but no record: the folder is made after the record."""
    folders = sorted(path.name for path in (home() / "benches").glob("*"))
    known = {bench.bench for bench in Benches(store).benches()} if folders else set()
    return [name for name in folders if name not in known and not BenchFolder(name).is_driven()]


def bucket_items(
    store: Store, limits: PruneLimits, runs: Iterable[RunRecord] = ()
) -> tuple[list[Item], list[Kept]]:
    """The buckets of rehearsals without recent changes, except those that one of these runs names;
    none while a rehearsal is running.
    """
    folders = [
        (f"{scheme}://{path.name}", path)
        for scheme in _SCHEMES
        for path in sorted(
            (home() / "rehearsal" / scheme).glob("[!.]*")
        )  # other files are not buckets
    ]
    old = [(name, path) for name, path in folders if limits.is_past(last_change(path))]
    active = next((run for run in sorted(store.ids()) if emulator.is_alive(run)), None)
    if active is not None:
        return [], [Kept(name, f"the rehearsal {active} is still running") for name, _ in old]
    rehearsals = [run for run in runs if is_rehearsed(run.run)]
    used = {name: run.run for run in rehearsals for name in used_buckets(run)}
    items = [
        Item(kind="bucket", name=name, size=disk_use(path), ended=last_change(path))
        for name, path in old
        if name not in used
    ]
    return items, [Kept(n, f"the rehearsal {used[n]} uses it") for n, _ in old if n in used]


def checkout_items(benches: Iterable[BenchRecord], limits: PruneLimits) -> list[Item]:
    """The files of commits that no bench which stays has as its baseline or as its own files.

    A gate that has just checked one out may not have recorded its bench yet: it stays.
    """
    kept = list(benches)
    used = {bench.against.commit for bench in kept if bench.against}
    used |= {part for bench in kept for part in Path(bench.file).parts}
    return [
        Item(kind="checkout", name=path.name, size=disk_use(path), ended=changed(path))
        for path in checkouts()
        if path.name not in used and limits.is_past(changed(path)) and _is_settled(path)
    ]


def bisect_items(limits: PruneLimits) -> list[Item]:
    """The states that searches without an end have left, such as the commits that they skipped."""
    return [
        Item(kind="bisect", name=path.name, size=disk_use(path), ended=last_change(path))
        for path in sorted((home() / "bisect").glob("*"))
        if limits.is_past(last_change(path))
        and seconds_between(last_change(path), now()) >= _SETTLED_SECONDS
    ]


def _is_settled(path: Path) -> bool:
    """Whether the process that made it has had time to record its content."""
    return seconds_between(changed(path), now()) >= _SETTLED_SECONDS


def changed(path: Path) -> str:
    """When a file or folder was changed, as the time of an event."""
    try:
        seconds = path.lstat().st_mtime
    except OSError:  # it has just gone
        seconds = 0.0
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def last_change(folder: Path) -> str:
    """When anything in a folder was changed last."""
    return max([changed(folder), *(changed(path) for path in folder.rglob("*"))])
