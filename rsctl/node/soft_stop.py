"""The node's side of a soft stop: it asks the ranks to end by themselves before it signals them.

A script that calls `rsctl.node.should_stop()` saves its state and ends at a step on which all ranks
agree (stop_agreement.py). The node and its ranks share a folder with three files, all empty:

    used      a rank has called should_stop
    asked     the node wants its ranks to end
    stopped   should_stop has returned True to a rank of this node

Ranks that do not call it get the node's stop signal at once, as they would without rsctl.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping

from rsctl.node.settings import number

FOLDER = "RSCTL_STOP_FOLDER"
"""The variable that names the folder to the ranks."""

GRACE = "RSCTL_GRACE_SECONDS"
"""The variable with the time between a request to end and SIGKILL."""

STOP_AFTER = "RSCTL_STOP_AFTER_SECONDS"
"""The variable with the time from the node's start to a soft stop of its own, if there is one."""

SIGNALS_ALL = "RSCTL_SIGNALS_ALL"
"""The variable by which a platform says that it signals all processes, and not only the node's."""

_GRACE_SECONDS = 120.0
_LAST_SECONDS = 10.0
"""The time before the end of the grace at which ranks that still run get the signal."""


def is_stop_asked(environ: Mapping[str, str]) -> bool:
    """Whether the node with this environment wants its ranks to end."""
    folder = environ.get(FOLDER)
    return folder is not None and os.path.exists(os.path.join(folder, "asked"))


class SoftStop:
    """Asks the ranks of this node to end. Times are in seconds by the monotonic clock."""

    def __init__(
        self,
        environ: Mapping[str, str],
        is_needed: Callable[[], bool] | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> None:
        """`is_needed` is of a program that ends with the workers, such as a reducer: whether there
        are workers yet, so that a signal has to wait. Such a program is done when it is stopped.
        `stop_signal` is what the ranks get for SIGTERM. Raises OSError if there can be no folder,
        and LaunchError for an invalid variable.
        """
        self._is_needed = is_needed
        self.stop_signal = int(stop_signal)
        self._grace = number(environ, GRACE, _GRACE_SECONDS)
        after = number(environ, STOP_AFTER, 0.0)
        self._due_at = time.monotonic() + after if after else None
        self._signal_at: float | None = None
        self._folder = tempfile.mkdtemp(prefix="rsctl-stop-")
        self._has_signalled = False
        self.is_own = False
        """Whether the time limit of this node was the reason, and not a signal from outside."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variable that tells the ranks the folder."""
        return {FOLDER: self._folder}

    @property
    def has_ended_ranks(self) -> bool:
        """Whether ranks of this node have ended because of a stop, not because they were done:
        should_stop has returned True, or they got the stop signal. rsctl cannot tell a script that
        saves its state at a signal and ends with exit code 0 from a complete one, and a complete
        job that runs again ends immediately.
        """
        return self.has_told_ranks or self._has_signalled

    @property
    def has_told_ranks(self) -> bool:
        """Whether should_stop has returned True to a rank of this node."""
        return self._has("stopped")

    @property
    def was_asked(self) -> bool:
        """Whether the ranks have been asked to end."""
        return self._signal_at is not None

    def ask(self) -> bool:
        """Ask the ranks to end; False if they do not listen, or have been asked already: then they
        get the signal.
        """
        listens = self._has("used") if self._is_needed is None else self._is_needed()
        if self.was_asked or not listens:
            self._has_signalled |= self._is_needed is None
            return False
        self._signal_at = time.monotonic() + max(self._grace - _LAST_SECONDS, self._grace / 2)
        with open(os.path.join(self._folder, "asked"), "w", encoding="utf-8"):
            return True

    def signal_for(self, received: int) -> int:
        """The signal that the ranks get for a signal to this node."""
        return self.stop_signal if received == signal.SIGTERM else received

    def wait_seconds(self) -> float | None:
        """The time until `due_signal` can change; None if it cannot."""
        times = [when for when in (self._due_at, self._signal_at) if when is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def due_signal(self) -> int | None:
        """The signal that the ranks must get now, if any: the time of this node is over and they
        do not listen, or they were asked and did not end.
        """
        now = time.monotonic()
        if self._due_at is not None and now >= self._due_at:
            self._due_at = None
            self.is_own = True
            print("rsctl: the job's time limit is near: its ranks are asked to end", flush=True)
            return None if self.ask() else self._signal()
        if self._signal_at is not None and now >= self._signal_at:
            self._signal_at = float("inf")
            return self._signal()
        return None

    def _signal(self) -> int:
        self._has_signalled = True
        return self.stop_signal

    def end(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._folder, name))
