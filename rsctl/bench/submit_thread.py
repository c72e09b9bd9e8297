"""One run on its way to its target, in a thread of its own: clouds answer in seconds."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rsctl.bench.rate import SubmissionRate
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.store import Store
from rsctl.targets.base import Submission, Target, Unanswered, new_run


class SubmitThread:
    """Submits at once; `problem` says, once it is `done`, why there is no job.

    Where the answer was lost there may be one, which the target looks for.
    """

    def __init__(
        self,
        target: Target,
        submission: Submission,
        settings: Sequence[str],
        rate: SubmissionRate | None,
    ) -> None:
        self._target, self._submission, self._rate = target, submission, rate
        self._run = submission.plan.run
        self._settings = settings
        self.problem: RsctlError | None = None
        self._thread = threading.Thread(target=self._send, name=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it was answered."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the answer."""
        self._thread.join()

    def _send(self) -> None:
        try:
            self._target.submit(self._submission, self._record, lambda _event: None)
        except Unanswered:
            pass
        except RsctlError as problem:
            self.problem = problem
        except Exception as problem:  # noqa: BLE001 - the bench shows it; a thread cannot
            message = f"the submission failed unexpectedly: {type(problem).__name__}: {problem}"
            self.problem = RsctlError(ExitCode.ENVIRONMENT, error("bug", message, "report it"))
        finally:
            if self._rate:
                self._rate.sent(self._run)

    def _record(self) -> None:
        """A run that is submitted again, after its driver was killed, is recorded already."""
        store = Store()
        try:
            if store.get(self._run) is None:
                store.add(new_run(self._submission, self._settings))
        finally:
            store.close()
