"""The process that sends runs to their trackers, so that no tracker can delay other work.

It reads the store, where everything is recorded first, so nothing waits in memory. A client that
hangs, forks or takes the interpreter for seconds does so here. It ends when all is sent, when a
tracker stays down after the run's end, or when no process watches the run any longer.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from math import inf
from threading import Lock, Thread
from time import monotonic, sleep

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches
from rsctl.findings import RsctlError
from rsctl.job.tracking import NOTIFY, PlannedTracker
from rsctl.results.tracking import bench_notifications
from rsctl.results.tracking.background import BENCH, FOLLOW, REGRESSED
from rsctl.results.tracking.cursor import lock_path, make_tracking_folder, plan_of
from rsctl.results.tracking.notifications import NotificationSender
from rsctl.results.tracking.sender import Sender, is_sent
from rsctl.runs.database import used
from rsctl.runs.folder import RunFolder
from rsctl.runs.locks import try_lock, write_holder
from rsctl.runs.store import Store, store_file

_POLL_SECONDS = 0.2
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_TRIES_AFTER_END = 2
_UNWATCHED_SECONDS = 15.0
_MOST_RUNS = 32
_TURNS: defaultdict[int, Lock] = defaultdict(Lock)
"""The locks by which the runs of a bench are sent to a tracker one call at a time."""


def send(run: str, follow: bool) -> None:
    """Send a run to its trackers, each in a thread; returns immediately if another process does."""
    store = Store()
    record = store.get(run)
    store.close()
    plan = plan_of(record) if record else None
    if record is None or plan is None:
        return
    make_tracking_folder(run)
    lock = try_lock(lock_path(run))
    if lock is None:
        return
    write_holder(lock, os.getpid())
    threads = [
        Thread(target=_send, args=(run, index, planned, follow), daemon=True)
        for index, planned in enumerate(plan.trackers)
        if is_sent(record, planned)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(lock)


def _send(run: str, index: int, planned: PlannedTracker, follow: bool) -> None:
    """Send to one tracker until nothing more is to come, or it fails for too long."""
    store = Store()
    is_message = planned.kind == NOTIFY
    turn = nullcontext() if is_message else _TURNS[index]
    sender = (NotificationSender if is_message else Sender)(store, run, index, planned)
    failures = tries_after_end = 0
    end = inf
    while True:
        has_ended = _has_ended(store, run)
        try:
            with turn:
                has_more = sender.step()
        except Exception as problem:  # noqa: BLE001 - a tracker's library may raise anything
            failures += 1
            tries_after_end += has_ended
            sender.failed(_reason(problem))
            if not follow or tries_after_end >= _TRIES_AFTER_END:
                return
            pause = _RETRY_SECONDS[0 if has_ended else min(failures, len(_RETRY_SECONDS)) - 1]
            _pause(store, run, pause, has_ended)
            continue
        failures = 0
        if has_more:
            continue
        if sender.cursor.is_complete or not follow:
            return
        # From when it is first seen: the run may have ended during a call that took longer.
        end = inf if RunFolder(run).is_supervised() else min(end, monotonic() + _UNWATCHED_SECONDS)
        if monotonic() > end:
            return
        sleep(_POLL_SECONDS)


def _pause(store: Store, run: str, seconds: float, had_ended: bool) -> None:
    """Wait before the next try; not longer than until the run's end, unless it `had_ended`."""
    end = monotonic() + seconds
    while monotonic() < end and had_ended == _has_ended(store, run):
        sleep(_POLL_SECONDS)


def _has_ended(store: Store, run: str) -> bool:
    record = store.get(run)
    return record is None or record.state.is_final


def _reason(problem: Exception) -> str:
    if isinstance(problem, RsctlError):
        return "; ".join(
            f"{f.message}" + (f" ({f.remedy})" if f.remedy else "") for f in problem.findings
        )
    return f"{problem}" or type(problem).__name__


def send_bench(bench: str) -> None:
    """Send the runs of a bench until there are no more and no process drives it, and then its end.

    A tracker gets one call at a time; a message waits for no tracker, and for no other run unless
    32 of them are not sent yet.
    """
    store, sent = Store(), set[str]()
    driven = monotonic()
    with ThreadPoolExecutor(_MOST_RUNS) as senders:
        while True:
            known = Benches(store).get(bench)
            for run in [trial.run for trial in known.trials] if known else []:
                if run not in sent and store.get(run):
                    senders.submit(send, run, True)
                    sent.add(run)
            if BenchFolder(bench).is_driven():
                driven = monotonic()
            if known is None or known.state.is_final or monotonic() - driven > _UNWATCHED_SECONDS:
                break
            sleep(_POLL_SECONDS)
        bench_notifications.send_end(bench)


def main() -> int:
    """Send the runs named on the command line."""
    used.add(store_file())
    options = [a for a in sys.argv[1:] if a in (FOLLOW, BENCH, REGRESSED)]
    for name in [a for a in sys.argv[1:] if a not in options]:
        with suppress(RsctlError):  # it was forgotten, or the store is full
            if BENCH in options:
                send_bench(name)
            elif REGRESSED in options:
                bench_notifications.send_regressed(name)
            else:
                send(name, FOLLOW in options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
