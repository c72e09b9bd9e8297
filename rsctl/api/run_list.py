"""Runs of the store: one by its id or URL, or the latest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import datetime
from itertools import islice

from rsctl.api.arguments import check_count, check_text, moment, wrong
from rsctl.api.reconcile import OnOutdated, ignore, latest, reconcile_all, reconcile_run
from rsctl.api.run_handle import Run
from rsctl.findings import Finding, JobState, RsctlError, warning
from rsctl.runs.final_state import with_final_state
from rsctl.runs.folder import RunFolder
from rsctl.runs.forget import folders_without_run
from rsctl.runs.home import home
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.target_info import target_info
from rsctl.targets import in_cloud

_LONGEST_GLOB = 1000
"""Characters; SQLite takes no pattern of more than 50,000 bytes."""


def run(reference: str, *, on_outdated: OnOutdated = ignore, is_reconciled: bool = True) -> Run:
    """A run by its id, a unique prefix, `@last` or a job's URL, reconciled unless told otherwise.

    The URL of a cloud job that was submitted elsewhere adds it to the store as a run. `on_outdated`
    gets the reason if it may be out of date, such as a cloud that cannot be reached. Raises
    RsctlError if there is no such run.
    """
    check_text("reference", reference)
    with closing(Store()) as store:
        try:
            record = store.find(reference)
        except RsctlError:
            cloud = in_cloud(reference)
            if cloud is None:
                raise
            record = cloud.adopt(reference)
        if is_reconciled:
            reconcile_run(record, on_outdated)
    return Run(latest(record))


def _without_record(store: Store) -> list[str]:
    """The runs that have only their folders, of a store that has none: it is not the first one.

    A submission that was interrupted before its record has a folder without a description.
    """
    lost = [] if store.ids() else folders_without_run(store)
    return [run for run in lost if RunFolder(run).known_description() is not None]


def _lost(lost: list[str]) -> Finding:
    folders = "the folder" if len(lost) == 1 else "folders"
    message = f"the store has no runs, but {home() / 'runs'} has {folders} of {lost[0]}"
    message += f" and {len(lost) - 1} more" if lost[1:] else ""
    remedy = "restore runs.db from a backup if it was lost; otherwise remove the rest: rsctl prune"
    return warning("records-lost", message, remedy)


def runs(
    limit: int | None = None,
    *,
    name: str | None = None,
    states: Collection[JobState] = (),
    since: datetime | str | None = None,
    target: str | None = None,
    groups: Mapping[str, str] | None = None,
    on_outdated: OnOutdated = ignore,
) -> list[Run]:
    """The runs of the store, the newest first, reconciled.

    A `limit` of 0 lists all. `name` is a glob that the job's name matches; `states` are those to
    list; `since` is the earliest time of creation: a datetime, RFC 3339, or a duration ago such as
    2h; `target` is where they run. With `groups`, a group by run such as its bench, `limit` is a
    number of groups, each with all of its runs; a run without a group is its own. `on_outdated`
    gets the runs that may be out of date, and the runs that cannot be read; these are left out.
    Raises RsctlError if the store cannot be used, or the target does not exist.
    """
    check_count("limit", limit)
    if name is not None:
        check_text("name", name)
        if len(name) > _LONGEST_GLOB:
            why, remedy = "is too long", f"give a pattern of at most {_LONGEST_GLOB} characters"
            raise wrong("name", name, why, remedy)
    if target is not None:
        check_text("target", target)
        target_info(target)
    states = _known_states(states)
    since = None if since is None else moment("since", since)
    with closing(Store()) as store:
        reconcile_all(store.unfinished(target), on_outdated)
        if groups:
            ids = store.newest_ids(name=name, since=since, target=target)
            found = store.runs_of(ids if states else _first_groups(ids, groups, limit))
        else:
            most = -1 if states else limit or -1
            found = store.runs(most, name=name, since=since, target=target)
        if not found and (lost := _without_record(store)):
            on_outdated(lost[0], (_lost(lost),))
        records = map(with_final_state, found)
        chosen = (record for record in records if not states or record.state in states)
        handles = [Run(record) for record in islice(chosen, None if groups else limit or None)]
        if groups and states:
            kept = set(_first_groups([run.id for run in handles], groups, limit))
            handles = [run for run in handles if run.id in kept]
        for finding, name in zip(store.damage(), store.damaged, strict=True):
            on_outdated(name, (finding,))
        return handles


def _known_states(states: Collection[JobState]) -> list[JobState]:
    names = [states] if isinstance(states, str) else states
    try:
        return [JobState(state) for state in names]
    except (ValueError, TypeError):
        remedy = f"give a list of {', '.join(JobState)}"
        raise wrong("states", states, "is not a list of states", remedy) from None


def _first_groups(ids: list[str], groups: Mapping[str, str], limit: int | None) -> list[str]:
    """The runs of the first groups."""
    first = set(islice(dict.fromkeys(groups.get(run, run) for run in ids), limit or None))
    return [run for run in ids if groups.get(run, run) in first]


def is_job_url(reference: str) -> bool:
    """Whether a reference is the URL of a job in a cloud, such as `vertex://PROJECT/REGION/ID`."""
    check_text("reference", reference)
    return in_cloud(reference) is not None


def known_run(run_id: str) -> RunRecord | None:
    """The stored record of a run; None if the run does not exist. Raises RsctlError."""
    check_text("run_id", run_id)
    with closing(Store()) as store:
        return store.get(run_id)


def awaited_clouds(reference: str | None = None, excluded: Collection[JobState] = ()) -> list[str]:
    """The display names of the clouds that may still tell the state of a run, by the store.

    Without a reference, of all unfinished runs. Runs in the `excluded` states do not count. Raises
    RsctlError if there is no such run.
    """
    if reference is not None and in_cloud(reference):
        return [target_info(reference.partition("://")[0]).title]
    with closing(Store()) as store:
        found = store.unfinished() if reference is None else [store.find(reference)]
    waiting = [run for run in found if not run.state.is_final and run.state not in excluded]
    infos = [target_info(run.target) for run in waiting]
    return list(dict.fromkeys(info.title for info in infos if info.is_managed))


def known_replicas(reference: str) -> list[str]:
    """The replicas of a run in the store. Raises RsctlError if there is no such run."""
    check_text("reference", reference)
    with closing(Store()) as store:
        return Run(store.find(reference)).replicas


def known_runs(limit: int) -> list[str]:
    """The IDs of the latest runs in the store; a `limit` of 0 lists all. Raises RsctlError."""
    check_count("limit", limit)
    with closing(Store()) as store:
        return store.newest_ids()[: limit or None]
