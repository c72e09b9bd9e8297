"""Whether a job's log may be read. Without it, a collector watches the state alone."""

from __future__ import annotations

from collections.abc import Callable

from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.runs.findings import LOG_REFUSED, NO_ANSWER
from rsctl.runs.store_errors import DiskFull
from rsctl.targets.managed.contact import Contact
from rsctl.targets.managed.poll_timer import PollTimer
from rsctl.targets.managed.service import CHECK_CONTACT, Unreachable


class LogAccess:
    """Reads a log while that is possible, and asks again now and then while it is not.

    `problem` is why the log cannot be read, None if it can. `report` gets it as a finding, if it is
    not over by the second attempt.
    """

    def __init__(self, time_scale: float, report: Callable[[Finding], None]) -> None:
        self.problem: RsctlError | None = None
        self._report = report
        self._contact = Contact(time_scale)
        self._timer = PollTimer(time_scale, 1.0, 60.0, growth=2.0)

    def read(self, read: Callable[[], bool], has_ended: bool) -> bool:
        """The answer of `read`; False while the log cannot be read.

        `has_ended` says that the job has ended, so that this is the last attempt. Raises
        Unreachable and DiskFull.
        """
        if self.problem is not None and not has_ended and not self._timer.is_due():
            return False
        try:
            answer = read()
        except DiskFull:
            raise
        except Unreachable as silent:
            self._contact.failed()
            if not self._contact.is_silent_for_long:
                raise
            finding = error(NO_ANSWER, str(silent), CHECK_CONTACT)
            self._refused(RsctlError(ExitCode.ENVIRONMENT, finding), True)
            return False
        except RsctlError as refused:
            self._contact.failed()
            self._refused(refused, has_ended or self.problem is not None)
            return False
        self.problem = None
        self._contact.restored()
        self._timer.expire()
        return answer

    def _refused(self, problem: RsctlError, is_certain: bool) -> None:
        self.problem = problem
        self._timer.restart()
        if is_certain:
            for finding in problem.findings:
                why = f"the log cannot be read: {finding.message}; rsctl watches the state alone"
                self._report(warning(LOG_REFUSED, why, finding.remedy, finding.path))
