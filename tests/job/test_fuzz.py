"""Whatever a file holds, reading it ends in findings that point into it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rsctl.job.document import Document, read

LONG = (Path(__file__).parent / "valid" / "long.yaml").read_text()
LINES = LONG.splitlines(keepends=True)
VALUES = [match.span(1) for match in re.finditer(r"[:,\[] *([^\s,:{}\[\]]+)", LONG)]
NASTY = [
    "", "~", "{}", "[]", "{a: {b: [c]}}", "yes", "0", "-1", "1e999", ".nan", "9" * 50, "0x", "007",
    "${UNSET}", '"${N}"', "${", "$${X}", "*a", "&a 1", "!!int 1", "<<: *a", "'", '"\\0"', '"\\e"',
    "é🚀", "\u202e", "\u2028", "\x85", "\ufeff", "- x", "? x", "|", ">-", "#", "@", "%", "`", "\t",
    "x: y", "auto", "a100:8", "1GB", "2h", "gs://b/c", "(a+)+", "(", "/etc", "..",
    "name", "{<<: 1}",
]  # fmt: skip
BYTES = st.sampled_from([b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", *(
    bytes([code]) for code in range(0x20, 0x7F)
)])  # fmt: skip

EDITS = settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "job.yaml"


def check(file: Path, data: bytes, *changes: str) -> Document:
    """Reads the bytes; every error has its place in them."""
    file.write_bytes(data)
    document = read(str(file), changes, {"N": "4"})
    text = data.decode(errors="replace").removeprefix("\ufeff")
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text)
    for finding in document.findings:
        assert finding.message.isprintable()
        assert (finding.remedy or "").isprintable()
        assert finding.path is None or finding.path.isprintable()
        if finding.severity == "note" or str(finding.file).startswith("--set"):
            continue
        assert finding.file == str(file)
        assert finding.line is not None
        assert finding.column is not None
        assert 1 <= finding.line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1
    assert document.job is not None or document.has_errors
    return document


@EDITS
@given(edits=st.lists(st.tuples(st.integers(0, len(LONG)), st.integers(0, 3), BYTES), max_size=4))
def test_changed_bytes(file: Path, edits: list[tuple[int, int, bytes]]) -> None:
    data = LONG.encode()
    for position, removed, inserted in edits:
        data = data[:position] + inserted + data[position + removed :]
    check(file, data)


@EDITS
@given(data=st.data())
def test_changed_lines(file: Path, data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        edit = data.draw(st.sampled_from(["drop", "swap", "copy", "indent", "dedent", "cut"]))
        if edit == "drop" and len(lines) > 1:
            del lines[index]
        elif edit == "swap":
            lines[index], lines[other] = lines[other], lines[index]
        elif edit == "copy":
            lines.insert(other, lines[index])
        elif edit == "indent":
            lines[index] = "  " + lines[index]
        elif edit == "dedent":
            lines[index] = lines[index].lstrip()
        else:
            lines[index] = lines[index][: data.draw(st.integers(0, len(lines[index])))]
    check(file, "".join(lines).encode())


@EDITS
@given(edits=st.dictionaries(st.sampled_from(VALUES), st.sampled_from(NASTY), max_size=5))
def test_swapped_values(file: Path, edits: dict[tuple[int, int], str]) -> None:
    text = LONG
    for (begin, end), value in sorted(edits.items(), reverse=True):
        text = text[:begin] + value + text[end:]
    check(file, text.encode())


@EDITS
@given(
    words=st.lists(
        st.sampled_from([*NASTY, *[":", ",", "\n", "{", "}", "[", "]", "name", "run", "-", "x-a"]])
    )
)
@example(["? x", "name"])
def test_words_in_any_order(file: Path, words: list[str]) -> None:
    check(file, " ".join(words).encode())
    check(file, "".join(words).encode())


@EDITS
@given(text=st.text(max_size=60))
def test_any_text(file: Path, text: str) -> None:
    check(file, text.encode("utf-8", "surrogatepass"))
    check(file, f"name: j\nrun: {{module: x}}\n{text}: {text}\n".encode("utf-8", "surrogatepass"))


KEYS = ["name", "run", "run.args", "workers.count", "matrix", "targets.vertex.overlay", "x-a", "a"]


@EDITS
@given(
    key=st.sampled_from(KEYS) | st.text(max_size=8),
    rest=st.lists(st.sampled_from([".", "[0]", "[", "x", "count", "workers.count"]), max_size=3),
    value=st.sampled_from(NASTY) | st.text(max_size=20),
)
def test_any_setting(file: Path, key: str, rest: list[str], value: str) -> None:
    check(file, LONG.encode(), f"{key}{''.join(rest)}={value}", f"{key}={value}")
