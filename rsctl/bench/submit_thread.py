"""One run on its way to its target, in a thread of its own: clouds answer in seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rsctl.bench.rate import SubmissionRate
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs import emulator
from rsctl.runs.store import Store
from rsctl.targets.base import Submission, Target, Unanswered, new_run
from rsctl.targets.managed.rehearsal.rehearsal import RehearsedTarget


class SubmitThread:
    """Submits at once; `problem` says, once it is `done`, why there is no job.

    With a `rehearsal` it starts an emulator and submits to it. Where the answer was lost there may
    be a job, which the target looks for.
    """

    def __init__(
        self,
        target: Target,
        submission: Submission,
        settings: Sequence[str],
        rate: SubmissionRate | None,
        rehearsal: RehearsedTarget | None = None,
    ) -> None:
        self._target, self._submission, self._rate = target, submission, rate
        self._rehearsal = rehearsal
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
            with self._emulating() as submission:
                self._target.submit(submission, self._record, lambda _event: None)
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

    @contextmanager
    def _emulating(self) -> Iterator[Submission]:
        """The submission to send; the emulator of a rehearsal runs from then on."""
        if self._rehearsal is None:
            yield self._submission
            return
        emulator.end(self._run)  # that of a driver that was killed before the answer
        with self._rehearsal.emulating(self._submission) as submission:
            yield submission

    def _record(self) -> None:
        """A run that is submitted again, after its driver was killed, is recorded already."""
        store = Store()
        try:
            if store.get(self._run) is None:
                store.add(new_run(self._submission, self._settings))
        finally:
            store.close()
