"""Where a run's cloud is: the real one, or for a rehearsed run an emulator on this machine.

`rsctl.emulators.rehearsal` starts such an emulator and leaves its files in the run's folder. It is
imported for rehearsed runs only.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rsctl.runs.home import is_rehearsed


def surroundings(run: str) -> AbstractContextManager[object]:
    """Have this process find the run's own cloud and no other."""
    if not is_rehearsed(run):
        return nullcontext()
    from rsctl.emulators.rehearsal import in_rehearsal

    return in_rehearsal(run)


def is_lost(run: str) -> bool:
    """Whether the run's cloud is gone, as only an emulator's can be."""
    if not is_rehearsed(run):
        return False
    from rsctl.emulators.rehearsal import is_lost

    return is_lost(run)


def leave(run: str) -> None:
    """All of the run is here: an emulator that played its cloud can end."""
    if is_rehearsed(run):
        from rsctl.emulators.rehearsal import end

        end(run)
