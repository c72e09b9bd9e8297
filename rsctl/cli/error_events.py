"""The error that ends a stream of events, as its last events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from rsctl.api import ResultUnknown, Run, known_run
from rsctl.cli.show import print_events
from rsctl.findings import ExitCode, Finding, JobState, RsctlError
from rsctl.runs.stream.events import FindingEvent, ResultEvent, now


@contextmanager
def errors_as_events(output: str, run: str | None = None) -> Iterator[None]:
    """Print the error that ends the command as events too, so that the stream ends in a result."""
    try:
        yield
    except RsctlError as problem:
        if output == "json":
            with suppress(OSError):  # standard output may be what failed
                print_events([*finding_events(problem.findings), _result(problem, run)])
        raise


def finding_events(findings: Iterable[Finding]) -> list[FindingEvent]:
    """The findings as events of the present."""
    return [FindingEvent(time=now(), finding=finding) for finding in findings]


def _result(problem: RsctlError, run: str | None) -> ResultEvent:
    """The last event of a run that has no job, or whose result is unknown."""
    if isinstance(problem, ResultUnknown):
        with suppress(RsctlError):  # the store may be what failed
            return Run(problem.run).result(int(problem.exit_code))
    known = problem.run if isinstance(problem, ResultUnknown) else run and known_run(run)
    is_cancelled = problem.exit_code is ExitCode.CANCELLED
    return ResultEvent(
        time=now(),
        run=run,
        state=known.state if known else JobState.CANCELLED if is_cancelled else JobState.FAILED,
        exit_code=int(problem.exit_code),
        url=known.url if known else None,
    )
