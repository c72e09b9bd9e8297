"""The log of a replica on disk: whatever is printed comes back, once, in order, with its id."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.runs.stream import journal
from rsctl.runs.stream.events import parse_time
from rsctl.runs.stream.journal import (
    MAX_LINE,
    JournalCopy,
    JournalReader,
    JournalWriter,
    tail_offset,
)

CONTINUES = " [too long for one line: it continues in the next]"
STAMP = "2026-01-31T12:00:00.000000Z"


def at(second: int) -> str:
    return f"2026-01-31T12:00:{second:02}.000000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def read_all(path: Path, offset: int = 0) -> list[tuple[str, str]]:
    """Every line of a log as (stream, text)."""
    reader = JournalReader(path, "worker-0", offset)
    lines = []
    while batch := reader.read():
        lines += [(line.stream, line.text) for line in batch]
    reader.close()
    return lines


def written(path: Path, *chunks: bytes) -> list[str]:
    """The lines that chunks of standard output become."""
    writer = JournalWriter(path)
    for chunk in chunks:
        writer.feed("stdout", chunk)
    writer.close()
    return [text for _, text in read_all(path)]


def test_a_line_is_kept_with_its_time_replica_stream_and_id(path: Path) -> None:
    writer = JournalWriter(path)
    writer.feed("stdout", b"one\ntwo\n")
    writer.feed("stderr", b"three\n")
    first, second, third = JournalReader(path, "worker-7").read()
    assert [first.text, second.text, third.text] == ["one", "two", "three"]
    assert [first.stream, second.stream, third.stream] == ["stdout", "stdout", "stderr"]
    assert {line.replica for line in (first, second, third)} == {"worker-7"}
    assert parse_time(first.time) <= parse_time(second.time) <= parse_time(third.time)
    assert int(first.id) < int(second.id) < int(third.id)


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"sp", b"lit\nmo", b"re\n"], ["split", "more"]),
        ([b"\n", b"\n\n"], ["", "", ""]),
        ([b"no end"], ["no end"]),
        ([b"caf\xc3", b"\xa9\n"], ["caf\u00e9"]),
        ([b"\xff\xfe bad\n"], ["\\xff\\xfe bad"]),
        ([b"a\0b\r\n"], ["a\0b\r"]),
        ([], []),
        ([b""], []),
    ],
)
def test_output_is_cut_into_lines(path: Path, chunks: list[bytes], lines: list[str]) -> None:
    assert written(path, *chunks) == lines


def test_the_two_streams_do_not_break_into_each_others_lines(path: Path) -> None:
    writer = JournalWriter(path)
    writer.feed("stdout", b"out ")
    writer.feed("stderr", b"err ")
    writer.feed("stdout", b"put\n")
    writer.feed("stderr", b"or\n")
    assert read_all(path) == [("stdout", "out put"), ("stderr", "err or")]


def test_whole_lines_are_returned_as_they_become_whole(path: Path) -> None:
    writer = JournalWriter(path)
    assert writer.feed("stdout", b"a\nb\nc") == b"a\nb"
    assert writer.feed("stdout", b"d") == b""
    assert writer.feed("stderr", b"e") == b""
    assert writer.close() == b"cd\ne"


@given(
    st.lists(st.binary(max_size=20) | st.sampled_from([b"\n", b"x" * 30, b"y" * 8]), max_size=20),
    st.lists(st.integers(0, 200), max_size=10),
)
def test_what_is_kept_does_not_depend_on_how_it_arrived(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cuts: list[int]
) -> None:
    """With lines of at most 16 bytes, so that long ones are tried too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "MAX_LINE", 16)
        patch.setattr(journal, "LINE_CONTINUES", b" [...]")
        folder = tmp_path_factory.mktemp("journal")
        data = b"".join(pieces)
        places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
        chunks = [data[start:end] for start, end in itertools.pairwise(places)]
        assert written(folder / "cut", *chunks) == written(folder / "whole", data)


@pytest.mark.parametrize(
    "extra", [-1, 0, 1, MAX_LINE - len(CONTINUES), MAX_LINE - len(CONTINUES) + 1, MAX_LINE + 1]
)
def test_a_line_that_is_too_long_is_broken_and_none_of_it_lost(path: Path, extra: int) -> None:
    text = b"0123456789abcdef" * (MAX_LINE // 16) + b"x" * extra
    text = text[: MAX_LINE + extra]
    lines = written(path, b"before\n", text, b"\nafter\n")
    assert lines[0] == "before"
    assert lines[-1] == "after"
    *begun, last = lines[1:-1]
    assert len(begun) == (extra > 0) + (extra > MAX_LINE - len(CONTINUES))
    assert all(line.endswith(CONTINUES) for line in begun)
    assert "".join([*(line.removesuffix(CONTINUES) for line in begun), last]) == text.decode()
    assert max(map(len, lines)) <= MAX_LINE


def test_every_piece_of_a_long_line_names_its_rank(path: Path) -> None:
    mark = b"[worker-1/2] "
    text = b"0123456789abcdef" * (MAX_LINE // 8)
    writer = JournalWriter(path)
    for chunk in (mark, text[:MAX_LINE], text[MAX_LINE:], b"\n[worker-1/0] next\n"):
        writer.feed("stdout", chunk)
    writer.close()
    reader = JournalReader(path, "worker-1")
    lines = list(itertools.chain.from_iterable(iter(reader.read, [])))
    assert [line.rank for line in lines] == ["worker-1/2"] * 3 + ["worker-1/0"]
    assert "".join(line.text.removesuffix(CONTINUES) for line in lines[:3]) == text.decode()


def test_a_stream_that_never_ends_a_line_is_seen_before_it_ends(path: Path) -> None:
    writer = JournalWriter(path)
    for _ in range(20):
        writer.feed("stdout", b"." * 65536)
    shown = "." * (MAX_LINE - len(CONTINUES)) + CONTINUES
    assert read_all(path) == [("stdout", shown)] * 5


def test_times_do_not_go_back_with_the_clock_between_two_attempts(path: Path) -> None:
    later = "2999-01-31T12:00:00.000000Z"
    path.write_text(f"{later} o of the first attempt\n")
    assert written(path, b"of the second\n") == ["of the first attempt", "of the second"]
    assert [line.time for line in JournalReader(path, "worker-0").read()] == [later, later]


def test_reading_resumes_at_any_id(path: Path) -> None:
    writer = JournalWriter(path)
    writer.feed("stdout", b"".join(b"line %d\n" % n for n in range(50)))
    lines = JournalReader(path, "worker-0").read()
    for index, line in enumerate(lines):
        rest = [("stdout", f"line {n}") for n in range(index, 50)]
        assert read_all(path, int(line.id)) == rest


def test_a_reader_sees_only_whole_lines_and_goes_on_where_it_was(path: Path) -> None:
    reader = JournalReader(path, "worker-0")
    assert reader.read() == []
    with path.open("a") as file:
        file.write(f"{STAMP} o one\n{STAMP} o tw")
        file.flush()
        assert [line.text for line in reader.read()] == ["one"]
        assert reader.read() == []
        file.write(f"o\n{STAMP} e three\n")
        file.flush()
        assert [(line.id, line.text) for line in reader.read()] == [("34", "two"), ("68", "three")]
    reader.close()


def test_a_folder_in_place_of_a_log_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError, match="not a regular file") as caught:
        JournalReader(path, "worker-0").read()
    assert caught.value.filename == str(path)


def test_a_long_log_is_read_in_blocks(path: Path) -> None:
    count = 30_000
    writer = JournalWriter(path)
    writer.feed("stdout", b"".join(b"line %d\n" % n for n in range(count)))
    reader = JournalReader(path, "worker-0")
    blocks = []
    while batch := reader.read():
        blocks.append(len(batch))
    assert sum(blocks) == count
    assert max(blocks) < count / 3


def test_a_full_disk_loses_lines_and_counts_them() -> None:
    writer = JournalWriter(Path("/dev/full"))
    assert writer.feed("stdout", b"lost\n") == b"lost"
    assert writer.full
    assert writer.lost_bytes == len(f"{STAMP} o lost\n")
    writer.feed("stdout", b"too\n")
    writer.close()
    assert writer.lost_bytes == len(f"{STAMP} o lost\n{STAMP} o too\n")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_without_space_for_the_file_loses_lines_and_counts_them(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = os.open

    def without_space(name: Path | str, *flags: int) -> int:
        if name == path:
            raise OSError(code, os.strerror(code))
        return real(name, *flags)

    monkeypatch.setattr(os, "open", without_space)
    writer = JournalWriter(path)
    assert writer.full
    assert writer.feed("stdout", b"lost\n") == b"lost"
    writer.close()
    assert (writer.lost_bytes, path.exists()) == (len(f"{STAMP} o lost\n"), False)


@pytest.mark.parametrize("torn", [f"{STAMP} o one\n{STAMP} o tw", f"{STAMP} o one\n2026-0", "x"])
def test_after_a_torn_line_a_new_one_begins(path: Path, torn: str) -> None:
    """As after a writer that was killed; `--retries` writes to the same log again."""
    path.write_text(torn)
    writer = JournalWriter(path)
    writer.feed("stdout", b"next\n")
    writer.close()
    lines = JournalReader(path, "worker-0").read()
    assert lines[-1].text == "next"
    assert "".join(line.text for line in lines).startswith("one" * ("one" in torn))
    assert [line.time for line in lines] == sorted(line.time for line in lines)


def test_a_disk_that_is_full_for_a_while_tears_one_line_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    writer = JournalWriter(path)

    def write_ten_bytes_then_fail(file: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", fail)
        return real(file, data[:10])

    def fail(_file: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write_ten_bytes_then_fail)
    writer.feed("stdout", b"first\n")
    monkeypatch.setattr(os, "write", real)
    writer.full = False
    writer.feed("stdout", b"second\n")
    assert [text for _, text in read_all(path)][1:] == ["second"]


def plain_tail_offset(data: bytes, count: int) -> int:
    """Where the last `count` whole lines begin, said plainly."""
    starts = [0, *(i + 1 for i, byte in enumerate(data) if byte == 10)]
    return starts[max(0, len(starts) - 1 - count)]


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\x01", b"\n")), st.integers(0, 12))
def test_tail_offset_agrees_with_a_plain_one(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, count: int
) -> None:
    data = data.replace(b"a", b"\n").replace(b"\0", b"\n")
    path = tmp_path_factory.mktemp("tail") / "log"
    path.write_bytes(data)
    for block in (1, 3, 1 << 18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "BLOCK", block)
            assert tail_offset(path, count) == plain_tail_offset(data, count)


def test_tail_offset_of_no_log_is_its_beginning(path: Path) -> None:
    assert tail_offset(path, 5) == 0


def test_a_copy_keeps_the_times_that_its_lines_have(tmp_path: Path) -> None:
    copy = JournalCopy(tmp_path / "r" / "log", 0)
    copy.write([(at(1), "stdout", "a"), (at(3), "stderr", "c")])
    copy.write([(at(2), "stdout", "late")])
    copy.close()
    events = JournalReader(tmp_path / "r" / "log", "r").read()
    assert [(e.time, e.stream, e.text) for e in events] == [
        (at(1), "stdout", "a"),
        (at(3), "stderr", "c"),
        (at(3), "stdout", "late"),
    ]


def test_a_copy_cuts_off_what_its_killed_predecessor_wrote_last(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = JournalCopy(log, 0)
    first.write([(at(5), "stdout", "kept")])
    size = first.size
    first.write([(at(6), "stdout", "not known to be there")])
    first.close()
    second = JournalCopy(log, size)
    second.write([(at(4), "stdout", "a\nb")])
    second.close()
    events = JournalReader(log, "r").read()
    assert [(e.time, e.text) for e in events] == [(at(5), "kept"), (at(5), "a"), (at(5), "b")]
    assert second.size == log.stat().st_size
