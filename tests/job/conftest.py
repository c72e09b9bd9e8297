"""Specs as text files: `broken/*.txt` with the findings they must give, `valid/*.yaml` without any.

A case of a broken file reads

    === what is wrong
    name: j
    run: {script: train.py, launcher: Torchrun}
    ---
    2:35 run.launcher | expected one of torchrun... | write torchrun

with one line for each finding, in order: its place, its key path or `-`, its message, and its
remedy; `...` stands for anything. The messages of warnings and
notes begin with `warning:` or `note:`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rsctl.findings import Finding
from rsctl.job.document import Document, read

HERE = Path(__file__).parent
ENVIRON = {"N": "4", "EMPTY": "", "NAME": "from-env", "TOKEN": "s3cret", "LITERAL": "${X}"}

Read = Callable[..., Document]


class Expected(NamedTuple):
    """One finding of a broken spec."""

    place: str
    path: str | None
    severity: str
    message: str
    remedy: str

    def describes(self, finding: Finding) -> bool:
        """Whether it is this finding."""
        return (
            self.place == f"{finding.line}:{finding.column}"
            and self.path == finding.path
            and self.severity == finding.severity
            and _holds(finding.message, self.message)
            and _holds(finding.remedy or "", self.remedy)
        )


def _holds(text: str, words: str) -> bool:
    """Whether a text is these words; `...` stands for anything."""
    pattern = ".*".join(map(re.escape, words.split("...")))
    return re.fullmatch(pattern, text, re.DOTALL) is not None


class Broken(NamedTuple):
    """One broken spec."""

    title: str
    text: str
    expected: list[Expected]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `broken` or `valid` runs for each of these files' cases."""
    if "broken" in metafunc.fixturenames:
        cases = list(_broken())
        metafunc.parametrize("broken", cases, ids=[case.title for case in cases])
    if "valid" in metafunc.fixturenames:
        files = sorted((HERE / "valid").glob("*.yaml"))
        metafunc.parametrize("valid", files, ids=[file.stem for file in files])


def _broken() -> Iterator[Broken]:
    for file in sorted((HERE / "broken").glob("*.txt")):
        for case in file.read_text().split("=== ")[1:]:
            title, _, rest = case.partition("\n")
            text, _, findings = rest.rpartition("---\n")
            yield Broken(
                f"{file.stem}: {title}", text, [_expected(f) for f in findings.strip().splitlines()]
            )


def _expected(line: str) -> Expected:
    where, message, remedy = (part.strip() for part in line.split(" |"))
    place, path = where.split(" ", 1)
    severity, colon, words = message.partition(": ")
    if not colon or severity not in ("warning", "note"):
        severity, words = "error", message
    return Expected(place, None if path == "-" else path, severity, words, remedy)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the specs speak of."""
    (tmp_path / "train.py").write_text("print('loss=1')\n")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def read_text(folder: Path) -> Read:
    """Reads a job file of this text or these bytes, with `--set` settings if there are any."""

    def reader(text: str | bytes, *settings: str) -> Document:
        file = folder / "job.yaml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return read(str(file), settings, ENVIRON)

    return reader
