"""Units, values and reasons of a job that would change what a gate says in a log or a summary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_gate_cases import SLOW, STEADY, record

HOSTILE = (
    "x/s\n::stop-commands::x\n::add-mask::a\r\x1b[2K##[error]b\r101 x/s\x1b[0Ksection_start:1:e\r"
    "\u202eabc\u2066 | <img src=x> <!-- [l](http://evil) @user\n# head\nnow: pass"
)
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def summary(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The summary of a step on GitHub."""
    path = rsctl.folder / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_a_verdict_stays_visible(rsctl: Cli, summary: Path) -> None:
    record("before", {HOSTILE: STEADY}, unit=HOSTILE)
    record("now", {HOSTILE: SLOW}, unit=HOSTILE, cpu="EPYC")
    base = ("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    done = rsctl(*base, "--report", "metrics=m.txt", "--report", "markdown=g.md")
    assert done.code == 7
    _, row, last = done.out.splitlines()
    assert row.startswith("regressed  throughput (n=x/s ")
    assert "  100 x/s " in row
    assert "  90 x/s " in row
    assert last == "now against before: regressed"
    [command] = [line for line in done.err.splitlines() if line.startswith("::error ")]
    assert command.startswith("::error title=throughput (n=x/s\\n%3A\\x3astop-commands")
    assert "::median 100 x/s " in command
    for name in (summary.name, "g.md"):
        text = Path(name).read_text()
        [found] = [line for line in text.splitlines() if "regressed | " in line]
        assert found.count(" | ") == 7
        assert "throughput (n=x/s ::stop-commands" in found
        assert "| `90 x/s " in found
        assert not [line for line in text.splitlines() if line[:2] in ("::", "# ", "no")]
        assert not ACTIVE.search(text)
    for text in (done.out, done.err, Path("m.txt").read_text()):
        assert not ACTIVE.search(text)


def test_a_difference_begins_no_line(rsctl: Cli) -> None:
    record("before", {"": STEADY})
    record("now", {"": STEADY}, cpu="Xeon\nnow against before: no regression\r\x1b[1A")
    base = ("gate", "now", "--baseline", "before", "--max-regression", "throughput=5%")
    done = rsctl(*base)
    assert done.code == 8
    assert "machine: EPYC, 2 cores -> Xeon now against before" in done.err
    assert not [line for line in done.err.splitlines() if line.startswith("now against")]
