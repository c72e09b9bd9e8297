"""Tells that a command waits for a cloud, so that it does not seem to hang."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from threading import Timer
from typing import TypeVar

from rsctl.api import awaited_clouds
from rsctl.cli.show import print_message
from rsctl.findings import JobState, RsctlError

_SECONDS = 5.0

_Item = TypeVar("_Item")


@contextmanager
def silence_told(
    reference: str | None = None, consequence: str = "", excluded: Collection[JobState] = ()
) -> Iterator[None]:
    """Print a line if this context takes long, and a run, or any unfinished run, is in a cloud.

    `consequence` is added to the line. Runs in the `excluded` states do not count.
    """
    timer = Timer(_SECONDS, _tell, (reference, consequence, excluded))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def first_awaited(reference: str, items: Iterator[_Item]) -> Iterator[_Item]:
    """The items of a run; prints a line if its cloud takes long to give the first one."""
    with silence_told(reference):
        first = list(islice(items, 1))
    return chain(first, items)


def _tell(reference: str | None, consequence: str, excluded: Collection[JobState]) -> None:
    try:
        clouds = awaited_clouds(reference, excluded)
    except RsctlError:  # the command itself shows it
        return
    if clouds:
        print_message(f"waiting for {' and '.join(clouds)}{consequence}")
