"""Each state of a progress bar is a measurement of its own; the log keeps few of them."""

from __future__ import annotations

import pytest

from rsctl.node.redraws import Redraws
from rsctl.node.structured_lines import apart
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.metrics import MetricReader, MetricSpec
from rsctl.runs.stream.redraws import lines_apart, logged, measured

TIME = "2026-01-01T00:01:00.000000Z"
METRICS = b'{"rsctl": "metrics", "loss": 1}\n'
LINE = METRICS.decode().strip()


def events(lines: bytes) -> list[LogEvent]:
    return [LogEvent(TIME, "worker-0", "", "stderr", line) for line in lines.decode().splitlines()]


def printed(chunks: list[tuple[float, bytes]]) -> tuple[list[str], list[str]]:
    """What the log keeps of output that arrives at these seconds, and what is measured."""
    text = Redraws()
    lines = b"".join(text.feed(data, at) for at, data in chunks) + text.end(chunks[-1][0])
    split = [LogEvent(TIME, "worker-0", "", "stderr", t) for t in lines.decode().split("\n")[:-1]]
    return [e.text for e in logged(split)], [e.text for e in measured(split)]


def test_all_400_values_of_a_bar_are_measured_and_the_log_has_one_a_second() -> None:
    chunks = [(i / 100, f"\rloss={1 / (i + 1):.4f}".encode()) for i in range(400)]
    kept, read = printed([*chunks, (4.0, b"\n")])
    assert read == [f"loss={1 / (i + 1):.4f}" for i in range(400)]
    assert kept[-1] == "loss=0.0025"
    assert 4 <= len(kept) <= 6
    assert all(line.startswith("\r") for line in kept[:-1])


def test_each_state_has_the_time_at_which_it_arrived() -> None:
    text = Redraws()
    lines = text.feed(b"\rloss=3", 10.0) + text.feed(b"\rloss=2", 20.0)
    lines += text.feed(b"\rloss=1", 20.25) + text.feed(b"\rloss=0", 20.5) + text.tick(21.0)
    reader = MetricReader({"loss": MetricSpec(regex="loss=([0-9.]+)")})
    found = [m for each in reader.read_all(measured(events(lines))) for m in each]
    assert [m.value for m in found] == [3, 2, 1]
    assert [m.time[17:23] for m in found] == ["50.000", "59.000", "59.250"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
@pytest.mark.parametrize(
    ("output", "read"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a 1\ra 2\r\nb\n", ["a 1", "a 2", "b"]),
        (b"\n\rin 1\x1b[A\rout 1\n\rin 2\x1b[A\rout 2\nend\n", None),
        (b"\x1b[31mred\x1b[0m\nplain\n", ["\x1b[31mred\x1b[0m", "plain"]),
        (b"\rbar\r   \rnext\n", ["bar", "next"]),
        (b"\x1b[2K\x1b[1Gq=1\x1b[2K\x1b[1Gq=2\nend\n", ["q=1\x1b[2K", "q=2", "end"]),
        (b"q=1\b\b\b\rq=2\b\b\b\rq=3\b\b\b\r\n", ["q=1", "q=2", "q=3"]),
        (b"q=1\x1b[Gq=2\x1b[0Gq=3\x1b[7Gcolumn\n", ["q=1", "q=2", "q=3\x1b[7Gcolumn"]),
        (b"q=1\x1b[1000Dq=2\x1b[999Dq=3\x1b[7Dback\n", ["q=1", "q=2", "q=3\x1b[7Dback"]),
        (b"\rq=1%b\rq=2%b\r%b" % ((METRICS,) * 3), ["q=1", LINE, "q=2", LINE, LINE]),
        (b"\n\rin\x1b[A\rout%b\rq=1\n" % METRICS, ["", "in", "out", LINE, "q=1"]),
        (b"seen %b\rq=1\rq=2\n" % METRICS, [f"seen {LINE}", "q=1", "q=2"]),
    ],
)
def test_the_pieces_in_which_output_arrives_do_not_matter(
    output: bytes, read: list[str] | None, size: int
) -> None:
    pieces = [output[at : at + size] for at in range(0, len(output), size)]
    _, found = printed([(0.0, piece) for piece in pieces])
    wanted = ["", "in 1", "out 1", "in 2", "out 2", "end"] if read is None else read
    assert [text.rstrip("\r") for text in found] == wanted


def test_the_backspaces_with_which_keras_clears_its_bar_are_not_in_the_log() -> None:
    """Its Progbar writes one for each column of the bar, then a carriage return."""
    text, now, lines = Redraws(), 0.0, b""
    for step in range(1, 5):
        lines += text.feed(b"%s\r%d/4 - loss: 0.5" % (b"\b" * 15 * (step > 1), step), now)
        now += 1.5
        lines += text.tick(now)
    lines += text.feed(b"\b" * 15, now) + text.tick(now + 2) + text.end(now + 2)
    kept = [event.text for event in logged(events(lines))]
    assert kept == [*(f"\r{step}/4 - loss: 0.5" for step in range(1, 5)), "4/4 - loss: 0.5"]


def test_nested_bars_leave_their_last_states() -> None:
    chunks = [(0.0, b"\rout 0")]
    for out in range(3):
        chunks += [(0.0, b"\n\rin %d.%d\x1b[A" % (out, number)) for number in range(50)]
        chunks.append((0.0, b"\rout %d" % (out + 1)))
    kept, read = printed([*chunks, (0.0, b"\n"), (0.0, b"end\n")])
    assert len(read) == 3 * 50 + 4 + 1
    assert kept[-3:] == ["out 3", "in 2.49", "end"]
    assert len(kept) < 8


def test_a_line_that_never_ends_takes_bounded_memory_and_loses_no_state() -> None:
    text = Redraws()
    lines = b"".join(text.feed(b"\r%06d %s" % (i, b"x" * 1000), 0.0) for i in range(3000))
    assert len(text.held) < 2000
    assert len(measured(events(lines))) > 2950
    assert max(map(len, lines.split(b"\n"))) < 200_000


def test_a_record_behind_unfinished_text_is_a_line_of_its_own() -> None:
    record = b'{"rsctl": "telemetry", "cpu_percent": 1}\n'
    assert apart(b"it/s=500" + record + b"x\n" + record) == b"it/s=500\n" + record + b"x\n" + record
    metrics = b'seen {"rsctl": "metrics", "loss": 1}\n'
    assert apart(metrics) == metrics
    old = lines_apart(events(b"it/s=500" + record))
    assert [event.text for event in old] == ["it/s=500", record.decode().strip()]


@pytest.mark.parametrize("states", ["", "eJw=", "AAAA"])
def test_a_forged_record_yields_nothing(states: str) -> None:
    line = f'{{"rsctl": "redraws", "lines": ["a\\nb"], "states": "{states}"}}'
    assert measured(events(line.encode())) == []
    assert [event.text for event in logged(events(line.encode()))] == ["a b"]


def test_half_of_a_surrogate_pair_in_a_log_is_text() -> None:
    """A cloud's JSON can have it, and nothing can encode it."""
    text = '{"rsctl": "metrics", "loss": 1, "x": "\ud800"}'
    lines = lines_apart([LogEvent(TIME, "worker-0", "", "stdout", text)])
    assert [line.text for line in lines] == [text.replace("\ud800", "\\ud800")]
    assert list(MetricReader({}).read_all(measured(lines))) == [[]]
