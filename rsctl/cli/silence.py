"""Tells that a command waits for a cloud, so that it does not seem to hang."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from threading import Timer

from rsctl.api import awaited_clouds
from rsctl.cli.show import print_message
from rsctl.findings import JobState, RsctlError

_SECONDS = 5.0


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


def _tell(reference: str | None, consequence: str, excluded: Collection[JobState]) -> None:
    try:
        clouds = awaited_clouds(reference, excluded)
    except RsctlError:  # the command itself shows it
        return
    if clouds:
        print_message(f"waiting for {' and '.join(clouds)}{consequence}")
