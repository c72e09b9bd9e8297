"""Several ranks on a node: each line whole, and named after the rank that wrote it."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import structured_lines
from rsctl.node.rank_marks import with_marks
from rsctl.node.rank_output import RankOutput
from rsctl.runs.stream.events import LogEvent, now
from rsctl.runs.stream.rank_marks import take_mark
from rsctl.runs.stream.redraws import measured
from tests.kit.polling import wait_until

Launch = Callable[..., Any]
Script = Callable[[str], str]

# Lines of up to 30,000 characters, each in pieces that end anywhere, from all ranks at once.
TEAR = """
import os
rank, text = int(os.environ["RANK"]), b""
for number in range(300):
    text += b"rank %d line %d %s end\\n" % (rank, number, b"x" * (number * 97 % 30000))
while text:
    text = text[os.write(1 + number % 2, text[:7001]):]
    number += 1
"""
LINE = re.compile(r"\[worker-0/(\d)\] rank (\d) line (\d+) x* end")


def test_lines_of_ranks_are_whole_and_named(launch: Launch, script: Script, free_port: int) -> None:
    text = TEAR.replace("1 + number % 2", "1")
    node = launch(*("--processes", "4", "--python", "--", script(text)), RSCTL_PORT=str(free_port))
    assert node.wait() == 0
    lines = [LINE.fullmatch(line) for line in node.marked_out.splitlines()]
    assert all(lines)
    found = [line.groups() for line in lines if line]
    assert all(mark == rank for mark, rank, _ in found)
    assert Counter(rank for _, rank, _ in found) == dict.fromkeys("0123", 300)
    for rank in "0123":
        assert [int(n) for _, r, n in found if r == rank] == list(range(300))


class Ranks:
    """A node's ranks whose lines this test writes, and what the node has passed on."""

    def __init__(self, folder: Path) -> None:
        self._out = {stream: folder / str(stream) for stream in (1, 2)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [os.open(path, flags) for path in self._out.values()]
        self.output = RankOutput("worker-0", 2, (files[0], files[1]))
        named = self.output.environ["RSCTL_RANK_OUTPUT"]
        self._pipes = {
            (rank, stream): os.open(f"{named}/{rank}.{stream}", os.O_WRONLY)
            for rank in range(2)
            for stream in self._out
        }
        self.output.begin()

    def write(self, rank: int, text: str, stream: int = 1) -> None:
        os.write(self._pipes[rank, stream], text.encode())

    def read(self, stream: int) -> str:
        """What has been passed on, once the output has ended."""
        return self._out[stream].read_text()

    def wait_for(self, text: str, stream: int = 1) -> None:
        """Wait until exactly this has been passed on."""
        path = self._out[stream]
        wait_until(lambda: path.read_bytes() == text.encode(), repr(text[:100]), seconds=20)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def test_a_line_waits_for_its_end_while_others_write(ranks: Ranks) -> None:
    ranks.write(0, "loss=0.")
    ranks.write(1, "other\n")
    ranks.wait_for("[worker-0/1] other\n")
    ranks.write(0, "25\nrest")
    ranks.wait_for("[worker-0/1] other\n[worker-0/0] loss=0.25\n")
    ranks.output.end()
    ranks.wait_for("[worker-0/1] other\n[worker-0/0] loss=0.25\n[worker-0/0] rest\n")


def test_bars_of_two_ranks_become_lines_and_no_record_is_part_of_them(ranks: Ranks) -> None:
    ranks.write(0, "\r10%", 2)
    ranks.write(0, "\r20%", 2)
    ranks.write(1, "\r50%", 2)
    structured_lines.emit("telemetry", {"cpu": 1}, stream=2)
    ranks.write(1, "\rdone\n", 2)
    ranks.output.end()
    lines = ranks.read(2).splitlines()
    assert lines.count('{"rsctl": "telemetry", "cpu": 1}') == 1
    assert "[worker-0/1] done" in lines
    assert lines[-1] == "[worker-0/0] 20%"
    read = [LogEvent(now(), "worker-0", "", "stderr", line) for line in lines]
    found = [(event.rank, event.text) for event in measured(read) if event.rank]
    assert sorted(found) == [("worker-0/0", "10%"), ("worker-0/1", "50%")]


def test_a_record_behind_the_unfinished_line_of_its_rank_is_a_line_of_its_own(
    ranks: Ranks,
) -> None:
    ranks.write(0, 'loss=0.5{"rsctl": "exit", "code": 1}\n')
    ranks.write(1, '\r10%\r20%{"rsctl": "exit", "code": 2}\n')
    ranks.output.end()
    lines = ranks.read(1).splitlines()
    assert "[worker-0/0] loss=0.5" in lines
    assert "[worker-0/1] 20%" in lines
    assert {'{"rsctl": "exit", "code": 1}', '{"rsctl": "exit", "code": 2}'} <= {*lines}


def test_a_line_of_any_length_goes_through_before_its_end(ranks: Ranks) -> None:
    ranks.write(1, "x" * 260000)
    ranks.write(1, "x" * 10000)
    ranks.wait_for("[worker-0/1] " + "x" * 270000)
    ranks.write(1, "y")
    ranks.wait_for("[worker-0/1] " + "x" * 270000 + "y")
    ranks.output.end()


def test_a_traceback_stands_before_the_report_of_its_rank(tmp_path: Path) -> None:
    (tmp_path / "2").symlink_to("1")  # one reader gets both
    ranks = Ranks(tmp_path)
    for number in range(200):
        ranks.write(0, f"Traceback {number}\n", 2)
        ranks.write(0, f'{{"rsctl": "exit", "code": {number}}}\n')
    ranks.output.end()
    lines = (tmp_path / "1").read_text().splitlines()
    assert len(lines) == 400
    for number in range(200):
        report = lines.index(f'{{"rsctl": "exit", "code": {number}}}')
        assert lines.index(f"[worker-0/0] Traceback {number}") < report


def test_what_an_ended_process_wrote_stands_before_the_report_of_its_end(tmp_path: Path) -> None:
    (tmp_path / "2").symlink_to("1")
    ranks = Ranks(tmp_path)
    expected = []
    for number in range(200):
        ranks.write(1, f"Traceback {number}\nwithout an end", 2)
        ranks.output.pass_on_written()
        structured_lines.emit("exit", {"code": number})
        lines = (f"Traceback {number}", "without an end")
        expected += [f"[worker-0/1] {line}" for line in lines]
        expected.append(f'{{"rsctl": "exit", "code": {number}}}')
    ranks.output.end()
    assert (tmp_path / "1").read_text().splitlines() == expected


def test_a_process_that_writes_on_does_not_hold_up_the_report_of_another(tmp_path: Path) -> None:
    writer = Ranks(tmp_path)
    has_ended = threading.Event()

    def write_on() -> None:
        while not has_ended.is_set():
            writer.write(0, "more\n" * 1000)

    thread = threading.Thread(target=write_on)
    thread.start()
    writer.output.pass_on_written()
    has_ended.set()
    thread.join()
    writer.output.end()


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("loss 1", "[worker-2/3] loss 1"),
        ("", "[worker-2/3] "),
        ("{'loss': 1}", "[worker-2/3] {'loss': 1}"),
        ('{"severity": "ERROR"}', '{"severity": "ERROR", "rsctl_rank": "worker-2/3"}'),
        ('{"rsctl": "exit", "code": 1}', '{"rsctl": "exit", "code": 1}'),
        (
            '{"rsctl": "metrics", "loss": 1}',
            '{"rsctl": "metrics", "loss": 1, "rsctl_rank": "worker-2/3"}',
        ),
    ],
)
def test_a_line_is_marked_and_read_again(line: str, marked: str) -> None:
    assert with_marks(f"{line}\n".encode(), b"[worker-2/3] ") == f"{marked}\n".encode()
    assert with_marks(f"a\n{line}\n".encode(), b"[worker-2/3] ").endswith(f"\n{marked}\n".encode())
    rank = None if line == marked else "worker-2/3"
    assert take_mark("worker-2", marked) == (rank, line)
    assert take_mark("worker-0", marked) == (rank, line)  # what mpirun brings to the chief
    assert take_mark("worker-1", marked) == (None, marked)
