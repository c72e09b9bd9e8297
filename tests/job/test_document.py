"""Which findings a document keeps, where it puts them, and when it gives its job."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.findings import ExitCode, RsctlError, error, note, warning

GOOD = "name: j\nrun: {script: train.py, args: [a, b]}\nworkers:\n  count: 2\n"
BROKEN = "name: j\nrun: {script: train.py}\nworkers: {count: x}\n"


def paths(document: Any) -> list[str | None]:
    """The key paths of all findings, in order."""
    return [finding.path for finding in document.findings]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("name", "1:7"),
        ("run", "2:1"),
        ("run.args", "2:25"),
        ("run.args[1]", "2:35"),
        ("run.args[7]", "2:25"),
        ("run.module", "2:1"),
        ("workers", "3:1"),
        ("workers.count", "4:10"),
        ("workers.machine.vertex", "3:1"),
        ("image.base", "1:1"),
        (None, "1:1"),
    ],
)
def test_a_finding_gets_the_nearest_place(read_text: Any, path: str | None, place: str) -> None:
    document = read_text(GOOD)
    document.add([error("target", "no", "do", path)])
    (finding,) = document.findings
    assert f"{finding.line}:{finding.column}" == place
    assert (finding.file, finding.path) == (document.path, path)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("workers.count", False),
        ("workers", False),
        ("workers.count.deeper", False),
        ("workers.machine", True),
        ("workers.counter", True),
        ("workersx", True),
        ("reducers.count", True),
        ("run", True),
        (None, True),
    ],
)
def test_what_follows_from_an_error_is_left_out(
    read_text: Any, path: str | None, kept: bool
) -> None:
    document = read_text(BROKEN)
    document.add([error("target", "follows", "do", path), note("unused", "too", path)])
    assert any(finding.code == "target" for finding in document.findings) is kept


def test_an_error_two_levels_below_says_nothing_about_the_parent(read_text: Any) -> None:
    document = read_text("name: j\nrun: {env: {1A: x}}\n")
    assert paths(document) == ["run", "run.env.1A"]


def test_warnings_and_notes_hide_nothing(read_text: Any) -> None:
    document = read_text(GOOD)
    document.add([warning("a", "careful", "do", "workers.count")])
    document.add([error("b", "no", "do", "workers.count")])
    assert [finding.code for finding in document.findings] == ["a", "b"]


def test_errors_that_are_added_together_do_not_hide_each_other(read_text: Any) -> None:
    document = read_text(GOOD)
    document.add(error("a", f"no {n}", "do", "workers") for n in range(3))
    assert len(document.findings) == 3


def test_the_same_finding_is_kept_once(read_text: Any) -> None:
    document = read_text(GOOD)
    for _ in range(2):
        document.add([note("unused", "not used", "do", "image")])
    assert len(document.findings) == 1


def test_findings_come_in_the_order_of_the_file(read_text: Any) -> None:
    document = read_text(GOOD, "workers.processes=0")
    document.add([note("c", "c", None, "workers.count"), note("a", "a", None, "name")])
    document.add([note("b", "b", None, "run")])
    assert paths(document) == ["name", "run", "workers.count", "workers.processes"]


def test_what_stands_under_a_misspelt_key_is_broken(read_text: Any) -> None:
    document = read_text("name: j\nrun: {module: x}\nworker: {count: 2}\n")
    assert document.is_broken("workers.count")
    assert document.is_broken("workers")
    assert not document.is_broken("reducers")


def test_a_job_with_errors_is_not_given_away(read_text: Any) -> None:
    document = read_text(BROKEN)
    assert document.job is not None
    with pytest.raises(RsctlError) as raised:
        document.require_job()
    assert raised.value.exit_code == ExitCode.USAGE
    assert list(raised.value.findings) == document.findings


def test_a_job_with_warnings_is_given_away(read_text: Any) -> None:
    document = read_text("name: j\nrun: {module: x}\nreducers: {count: 2}\n")
    assert [finding.severity for finding in document.findings] == ["warning"]
    assert not document.has_errors
    assert document.require_job().reducers.count == 2


def test_a_file_without_a_job(read_text: Any) -> None:
    document = read_text("- a\n")
    assert document.job is None
    document.add([error("more", "said by others", "do", "run")])
    assert [finding.code for finding in document.findings] == ["yaml", "more"]
    with pytest.raises(RsctlError):
        document.require_job()


def test_the_text_is_kept_to_show_the_line_of_a_finding(read_text: Any) -> None:
    document = read_text("name: é\r\nrun: {script: train.py}\r\n")
    assert document.text.splitlines()[0] == "name: é"
