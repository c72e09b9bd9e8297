"""Orderly end of a training process: the session is closed, gloo's threads are waited for."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import torch.distributed as dist

from rsctl.transport.pytorch import exchanges, gloo_threads, idle, lost_peers, recording
from rsctl.transport.pytorch.inspection import torch_is_before
from rsctl.transport.pytorch.report import emit_finding, rank, write_line
from rsctl.transport.pytorch.settings import CommSettings


def wrap_destroy_process_group(real: Callable[..., Any]) -> Callable[..., Any]:
    """A `destroy_process_group` that closes the session before the last group goes."""

    def destroy_process_group(group: Any = None) -> None:
        if group is None or group is dist.group.WORLD:
            lost_peers.report_leaving()  # first: others notice when the session is closed
            _close_session()
            recording.end()
        exchanges.note_end(_groups(group))
        if torch_is_before(8):
            gloo_threads.join_without_lock(_groups(group))
        real(group)

    return destroy_process_group


def _groups(group: Any) -> list[Any]:
    """The groups that end with this group, which are all groups if it has all ranks."""
    groups = list(dist.distributed_c10d._world.pg_map)
    if group is None or group is dist.group.WORLD:
        return groups
    return [each for each in groups if each is group]


def register_exit_handler(comm: CommSettings) -> None:
    """Arrange that this process ends in order when its script has ended."""
    atexit.register(_shut_down, comm)
    os._exit = _wrap_exit(os._exit)  # type: ignore[assignment]


def _wrap_exit(real: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """An `os._exit` that gives no 0 after a failed collective: it runs no exit handlers.

    Children that were forked, such as those of a DataLoader, end by it too and mean themselves.
    """
    owner = os.getpid()

    def _exit(status: int) -> NoReturn:
        failure = _failure() if status == 0 and os.getpid() == owner else None
        if failure is not None:
            _say_failure(failure)
        real(status if failure is None else 1)

    return _exit


def _shut_down(comm: CommSettings) -> None:
    """Close the session, and let torch's threads finish while the interpreter still exists."""
    _keep_exit_code()
    lost_peers.report_ending()  # first: others notice when the session is closed
    _close_session()
    recording.end()
    _warn_unused_compression(comm)
    _warn_unused_local_steps()
    _warn_idle(comm)
    gloo_threads.wait()
    _fail_after_failure()


def _keep_exit_code() -> None:
    """Ignore SIGTERM from here on, unless the script has a handler.

    A rank that fails because this one has left has the whole job stopped, and only this one's exit
    code tells who left.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        with suppress(ValueError):  # an interpreter that a thread ends
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _fail_after_failure() -> None:
    """End with 1 if a collective has failed and the script has gone on.

    What it computed since then is not what its ranks would have computed together. An exception
    that the script did not catch ends it with 1 by itself.
    """
    failure = _failure()
    if failure is None or getattr(sys, "last_value", None) is not None:
        return
    _say_failure(failure)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(1)


def _failure() -> RuntimeError | None:
    session = sys.modules.get("rsctl.transport.pytorch.session")
    failed = session.failure() if session is not None else None
    return failed or lost_peers.failure()


def _say_failure(failure: RuntimeError) -> None:
    write_line(f"rank {rank()} ends with exit code 1, because a collective has failed: {failure}")


def _warn_idle(comm: CommSettings) -> None:
    """Warn of nodes that did nothing; a script that is only measured may not use them."""
    recorded = recording.current()
    if recorded is not None and recorded.measure is not None:
        return
    session = sys.modules.get("rsctl.transport.pytorch.session")
    if session is None or session.failure() is None:
        idle.report(comm, session.operations() if session is not None else 0)


def _close_session() -> None:
    quorum = sys.modules.get("rsctl.transport.pytorch.quorum")
    if quorum is not None:
        quorum.stop_all()
    session = sys.modules.get("rsctl.transport.pytorch.session")
    if session is not None:
        session.close_session()


def _warn_unused_local_steps() -> None:
    local = sys.modules.get("rsctl.transport.pytorch.local_steps")
    if local is not None and getattr(sys, "last_value", None) is None:
        local.report_unused()


def _warn_unused_compression(comm: CommSettings) -> None:
    """Warn of a compression or hook that was asked for and had no model to work on."""
    key, value = "compression", comm.compression
    if comm.hook is not None:
        key, value = "hook", comm.hook
    if value == "none":
        return
    from rsctl.transport.pytorch import ddp

    if not ddp.wrapped_models and dist.is_initialized() and rank() == 0:
        emit_finding(
            "warning",
            "comm-unapplied",
            f"comm.{key}: {value} was not applied: the script made no DistributedDataParallel",
            f"Remove comm.{key}, or wrap the model in DistributedDataParallel.",
        )
