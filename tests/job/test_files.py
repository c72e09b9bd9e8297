"""What may come as a file: encodings, line ends, and things that are no files."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rsctl.job.document import read

MINIMAL = "name: j\nrun: {script: train.py}\n"
WRONG = "name: j\r\nrun: {script: train.py}\r\nworkers: {count: é x}\r\n"


def only(document: Any) -> str:
    """The one finding as `LINE:COLUMN message`."""
    (finding,) = document.findings
    assert finding.is_error
    assert finding.remedy or finding.code == "value"
    return f"{finding.line}:{finding.column} {finding.message}"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "1:1 the file is empty"),
        (b"\n\n", "1:1 the file is empty"),
        (b"\xef\xbb\xbf", "1:1 the file is empty"),
        (MINIMAL.encode("utf-16"), "1:1 the file is UTF-16"),
        (b"\xfe\xff" + MINIMAL.encode("utf-16-be"), "1:1 the file is UTF-16"),
        (MINIMAL.encode("utf-32"), "1:1 the file is UTF-32"),
        (MINIMAL.encode("utf-16-le"), "1:2 control character U+0000"),
        (b"name: j\n# \xe4\n", "2:3 byte 0xe4 is not UTF-8"),
        ("name: j\n# äöü ".encode() + b"\xff", "2:7 byte 0xff is not UTF-8"),
        (b"name: j\nrun: \x00\n", "2:6 control character U+0000"),
        ("# é\nname: \x1b[2J\n".encode(), "2:7 control character U+001B"),
        (b"name: \x7f\n", "1:7 control character U+007F"),
        (b"name: j\r\nrun: \x01\r\n", "2:6 control character U+0001"),
        (b"name: j\rrun: \x01\r", "2:6 control character U+0001"),
        (b"#" * (1 << 20) + b"\n", "1:1 the file is larger than the limit of 1 MiB"),
    ],
)
def test_bytes_that_are_no_spec(read_text: Any, data: bytes, expected: str) -> None:
    assert only(read_text(data)) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n\n"])
def test_every_line_end_counts_as_one(read_text: Any, end: str) -> None:
    text = WRONG.replace("\r\n", end)
    line = 2 * end.count("\n") + 1 if "\r" not in end else 3
    assert only(read_text(text)).startswith(f"{line}:18 expected a whole number")


@pytest.mark.parametrize("prefix", ["\ufeff", "", "---\n", "# é 🚀\n", "%YAML 1.1\n---\n", "\n \n"])
@pytest.mark.parametrize("suffix", ["", "...\n", "  \n# end"])
def test_a_good_file_in_its_varieties(read_text: Any, prefix: str, suffix: str) -> None:
    document = read_text(prefix + MINIMAL + suffix)
    assert document.findings == []
    assert document.require_job().name == "j"


def test_a_byte_order_mark_takes_no_column(read_text: Any) -> None:
    assert only(read_text("\ufeffname: J\nrun: {script: train.py}\n")).startswith("1:7 ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    document = read(str(tmp_path / "none.yaml"))
    assert only(document) == "1:1 cannot read this file: No such file or directory"
    assert document.findings[0].file == document.path
    assert document.job is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "Is a directory"),
        ("/dev/null", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("a\0b", "embedded null byte"),
        ("x" * 5000, "File name too long"),
        ("/etc/passwd/x", "Not a directory"),
        ("", "No such file or directory"),
    ],
)
def test_paths_that_are_no_file(path: str, expected: str) -> None:
    assert only(read(path)) == f"1:1 cannot read this file: {expected}"


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        (
            "my train.py",
            "this is a Python script, not a job file",
            "write its job file: rsctl init 'my train.py'; or run it: rsctl submit 'my train.py'",
        ),
        (
            "a.sbatch",
            "this is a shell script, not a job file",
            "write its job file: rsctl init a.sbatch",
        ),
        (
            "a.ipynb",
            "this is a notebook, not a job file",
            "convert it: jupyter nbconvert --to script a.ipynb",
        ),
        (".", "cannot read this file: Is a directory", "name a job file, such as ./b.yaml"),
        ("c", "cannot read this file: Is a directory", "name a job file, such as c/job.yaml"),
    ],
)
def test_another_file_in_place_of_a_job_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    (tmp_path / "b.yaml").touch()
    if not Path(name).is_dir():
        Path(name).write_text("for i in range(3):\n    print(i)\n")
    [finding] = read(name).findings
    assert (finding.message, finding.remedy) == (message, remedy)


def test_a_failing_read_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert only(read(str(tmp_path / "x"))) == "1:1 cannot read this file: Permission denied"


@pytest.mark.timeout(20)
def test_a_fifo_that_nobody_writes_to_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert only(read(str(tmp_path / "fifo"))) == "1:1 the file is empty"


@pytest.mark.timeout(20)
def test_a_process_substitution_is_read_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    reading, writing = os.pipe()
    writer = threading.Thread(target=_write_slowly, args=(writing,))
    writer.start()
    document = read(f"/dev/fd/{reading}")
    writer.join()
    os.close(reading)
    assert document.findings == []
    assert document.require_job().image.source == str(folder)


def _write_slowly(descriptor: int) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        for character in MINIMAL.encode():
            file.write(bytes([character]))


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MINIMAL.encode())))
    document = read("-")
    assert document.findings == []
    assert document.require_job().image.source == str(folder)


def test_standard_input_with_a_mistake_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[")))
    (finding,) = read("-").findings
    assert (finding.file, finding.line, finding.column) == ("-", 1, 1)


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert only(read("-")) == "1:1 cannot read this file: standard input is closed"
