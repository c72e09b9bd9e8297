"""What an error says in one line, within another message."""

from __future__ import annotations

from rsctl.findings import ExitCode, RsctlError, error, note, warning


def test_warnings_are_no_part_of_the_reason_of_an_error() -> None:
    renamed, changed = warning("renamed", "a is now b"), error("changed", "b changed")
    problem = RsctlError(ExitCode.ENVIRONMENT, renamed, changed, note("where", "it is here"))
    assert problem.summary == "b changed; it is here"
    assert RsctlError(ExitCode.USAGE, changed, error("x", "c")).summary == "b changed; c"
    assert RsctlError(ExitCode.REFUSED, renamed).summary == "a is now b"
