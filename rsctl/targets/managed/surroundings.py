"""Where a run's cloud is: the real one, or for a rehearsed run an emulator on this machine.

All that is known of such an emulator is what it leaves in the run's folder, see
`rsctl.runs.emulator`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rsctl.runs.emulator import environment_of

_OTHER_CLOUDS = (
    "AWS_",
    "GOOGLE_",
    "CLOUDSDK_",
    "GCE_",
    "STORAGE_EMULATOR_",
    "API_ENDPOINT_OVERRIDE",
)


@contextmanager
def surroundings(run: str) -> Iterator[None]:
    """Have this process find a rehearsed run's cloud, and no other; nothing for other runs."""
    environment = environment_of(run)
    if environment is None:
        yield
        return
    others = [name for name in os.environ if name.startswith(_OTHER_CLOUDS)]
    with _ENVIRONMENT.having(run, {**dict.fromkeys(others), **environment}):
        yield


class _Environment:
    """This process's variables. Threads that are in the same rehearsal at once share them: the
    first to come sets them, and the last to leave takes them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[str, int] = {}
        self._before: dict[str, dict[str, str | None]] = {}

    @contextmanager
    def having(self, run: str, wanted: Mapping[str, str | None]) -> Iterator[None]:
        with self._lock:
            if not self._inside.setdefault(run, 0):
                self._before[run] = {name: os.environ.get(name) for name in wanted}
                _set(wanted)
            self._inside[run] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside[run] -= 1
                if not self._inside[run]:
                    _set(self._before.pop(run))


_ENVIRONMENT = _Environment()


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
