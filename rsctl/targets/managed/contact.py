"""How long a watcher asks again while a cloud does not tell the state of its job."""

from __future__ import annotations

from time import monotonic

_REFUSED_SECONDS, _REFUSED_TIMES = 30.0, 3
_SILENT_SECONDS, _SILENT_TIMES = 600.0, 20


class Contact:
    """Failed calls in succession. All seconds are multiplied by `time_scale`.

    A refusal may pass: credentials are renewed, and a permission may be new. It is final after half
    a minute. A cloud that gives no answer is asked for ten minutes.
    """

    def __init__(self, time_scale: float) -> None:
        self._time_scale = time_scale
        self._since: float | None = None
        self._times = 0

    @property
    def has_failed(self) -> bool:
        """Whether the last call has failed."""
        return self._since is not None

    @property
    def is_refused_for_long(self) -> bool:
        """Whether to give up on a cloud that refuses the calls."""
        return self._has_lasted(_REFUSED_SECONDS, _REFUSED_TIMES)

    @property
    def is_silent_for_long(self) -> bool:
        """Whether to give up on a cloud that gives no answer."""
        return self._has_lasted(_SILENT_SECONDS, _SILENT_TIMES)

    def failed(self) -> None:
        """Record a call without a state as its answer."""
        self._times += 1
        if self._since is None:
            self._since = monotonic()

    def restored(self) -> None:
        """Record an answer."""
        self._since, self._times = None, 0

    def _has_lasted(self, seconds: float, times: int) -> bool:
        lasted = 0.0 if self._since is None else monotonic() - self._since
        return self._times >= times and lasted >= seconds * self._time_scale
