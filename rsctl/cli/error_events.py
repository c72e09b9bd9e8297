"""Findings as events, such as the error that ends a stream of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rsctl.api import JobFile, ResultUnknown, Run, known_run
from rsctl.cli.show import print_events, show_findings
from rsctl.findings import ExitCode, Finding, JobState, RsctlError, note
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


def show_as_events_too(findings: Sequence[Finding], file: JobFile | None, output: str) -> None:
    """Print findings for a person, and as events in a stream of events."""
    show_findings(findings, file)
    if output == "json":
        print_events(finding_events(findings))


def interrupted(consequence: str) -> RsctlError:
    """The error of a command that was interrupted while no job exists."""
    return RsctlError(ExitCode.CANCELLED, note("interrupted", f"interrupted: {consequence}"))


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
