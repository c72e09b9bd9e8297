"""Text of unknown origin on a terminal, and numbers formatted for people."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.formatting import (
    LineFormat,
    distinct_name,
    format_change,
    format_duration,
    format_number,
    sparkline,
)
from rsctl.runs.stream.sanitize import (
    escape_active,
    escape_control,
    sanitize,
    sanitize_document,
    sanitize_line,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \u4e2d \U0001f600 tab\t.", "plain \u00e9 \u4e2d \U0001f600 tab\t."),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[H\x1b[?25lgone", "gone"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07clipboard", "clipboard"),
        ("\x1b]0;no end of the title", ""),
        ("\x1bPdevice control\x1b\\text", "text"),
        ("\x1bc reset, \x1b(0 charset", " reset,  charset"),
        ("\x1b", "\\x1b"),
        ("\x1b\x1b[31m[32mtwice", "\\x1b[32mtwice"),
        ("\x9b31m eight bits \x9d0;t\x07", "\\x9b31m eight bits \\x9d0;t\\x07"),
        ("bell\x07 back\x08 nul\x00 del\x7f", "bell\\x07 back\\x08 nul\\x00 del\\x7f"),
        ("[>...] 1s" + "\x08" * 50 + " 1/4", "[>...] 1s 1/4"),
        ("safe\u202etxt.exe\u2066", "safe\\u202etxt.exe\\u2066"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("10%\r50%\r100%", "100%"),
        ("10%\r100%\r", "100%"),
        ("windows\r", "windows"),
        ("100%|####|\r          \r", "100%|####|"),
        ("\r", ""),
        ("\x1b[31m50%\x1b[0m\r\x1b[K", "50%"),
    ],
)
def test_a_line_of_a_log_cannot_act_on_the_terminal(text: str, shown: str) -> None:
    assert sanitize_line(text) == shown


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1b\x07[]m;0\r\x9b\\")))
def test_no_control_character_is_left(text: str) -> None:
    shown = sanitize_line(text)
    assert not {c for c in shown if ord(c) < 32 or 127 <= ord(c) < 160} - {"\t", "\n"}
    shown.encode()
    assert sanitize_line(shown) == shown == sanitize(shown)


def test_our_own_colours_stay_and_nothing_else_does() -> None:
    assert sanitize("\x1b[1;31merror\x1b[0m: \x1b[2J\r") == "\x1b[1;31merror\x1b[0m: \\x1b[2J\\x0d"


def test_long_hostile_lines_are_cleaned_in_linear_time() -> None:
    for text in ("\x1b[" * 100_000, "\x1b]" * 100_000, "\x1b[0" + "0" * 200_000, "\r" * 200_000):
        sanitize_line(text)


def line(text: str, replica: str = "worker-0") -> LogEvent:
    return LogEvent("2026-01-31T12:00:00.000000Z", replica, "0", "stdout", text)


def test_lines_stand_behind_the_name_of_their_replica() -> None:
    shown = LineFormat(False, ["worker-0", "worker-10"]).lines(
        [line("a"), line("", "worker-10"), line("b\x1b[2J", "reducer-0"), line("c", "\x1bx")]
    )
    assert shown == "worker-0  | a\nworker-10 | \nreducer-0 | b\n          | c\n"


def test_a_replica_has_its_colour_whoever_speaks_first() -> None:
    first = LineFormat(True, ["worker-0", "worker-1"])
    second = LineFormat(True, ["worker-0", "worker-1"])
    first.lines([line("x", "worker-0")])
    assert first.lines([line("x", "worker-1")]) == second.lines([line("x", "worker-1")])
    assert second.lines([line("x")]) == "\x1b[36mworker-0 | \x1b[0mx\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"rsctl": "metrics", "step": 10, "loss": 0.41, "rank": 0}', "step 10  loss=0.41"),
        ('{"rsctl": "metrics", "a": 1, "b": "nan"}', "a=1 b=nan"),
        ('{"rsctl": "metrics", "a": "\\u001b[2Jx"}', "a=x"),
        (
            '{"rsctl": "reducer", "address": "10.0.0.7:2222", "engine": "core"}',
            "rsctl: a reducer at 10.0.0.7:2222 (C++ engine)",
        ),
        ('{"rsctl": "something else"}', '{"rsctl": "something else"}'),
        ('{"rsctl": "metrics", "a": ', '{"rsctl": "metrics", "a": '),
        ('{"rsctl": "metrics", "rsctl": []}', '{"rsctl": "metrics", "rsctl": []}'),
        ('{"rsctl": "metrics", "a": ' + "9" * 300 + "}", "a=" + "9" * 300),
    ],
)
def test_structured_lines_are_formatted(text: str, shown: str) -> None:
    assert LineFormat(False, ["worker-0"]).lines([line(text)]) == f"worker-0 | {shown}\n"


@pytest.mark.parametrize("kind", ["node", "telemetry", "exit", "finding"])
def test_lines_that_are_shown_in_other_ways_are_left_out(kind: str) -> None:
    assert LineFormat(False, []).lines([line(f'{{"rsctl": "{kind}", "cpu": 1}}')]) == ""


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([1.0], "\u2584"),
        ([2.0, 2.0], "\u2584\u2584"),
        ([0.0, 7.0], "\u2581\u2588"),
        ([float(n) for n in range(8)], "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"),
        ([0.0, math.nan, math.inf, 1.0], "\u2581xx\u2588"),
        ([math.nan], "x"),
        ([-1.7e308, 1.7e308], "\u2581\u2588"),
        ([0.0, 5e-324], "\u2584\u2584"),
    ],
)
def test_a_sparkline(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


@given(st.lists(st.floats(), max_size=50))
def test_a_sparkline_of_anything_is_as_wide_as_asked(values: list[float]) -> None:
    assert len(sparkline(values, 12)) == min(12, len(values))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.9, "0:00"),
        (7, "0:07"),
        (750, "12:30"),
        (3723, "1:02:03"),
        (360000, "100:00:00"),
        (-5, "0:00"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.123456, "0.1235"),
        (1234567.0, "1,234,567"),
        (1000000000000000.0, "1e+15"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (0.0, "0"),
        (9999.4, "9999"),
    ],
)
def test_numbers(value: float, expected: str) -> None:
    assert format_number(value) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (0.12345, "+12.3 %"),
        (-0.0049, "-0.49 %"),
        (9.994, "+999 %"),
        (9.996, "+1,000 %"),
        (-123.4, "-12,340 %"),
        (1e15, "+1e+17 %"),
        (math.inf, "+inf %"),
        (math.nan, "+nan %"),
    ],
)
def test_changes(part: float, expected: str) -> None:
    assert format_change(part) == expected


@pytest.mark.parametrize("kind", ["reducer", "metrics", "unknown"])
def test_a_line_of_a_job_stays_one_line(kind: str) -> None:
    text = json.dumps({"rsctl": kind, "address": "x\nerror: forged", "step": "1\nerror: forged"})
    shown = LineFormat(False, ["worker-0"]).lines([LogEvent("", "worker-0", "0", "stdout", text)])
    assert shown.count("\n") == 1


def test_separators_of_lines_and_paragraphs_do_not_reach_the_terminal() -> None:
    assert sanitize_line("a\u2028error: forged\u2029b\x85c") == (
        "a\\u2028error: forged\\u2029b\\x85c"
    )
    assert sanitize("a\u2028b") == "a\\u2028b"


def test_invisible_characters_are_shown_by_their_codes() -> None:
    assert escape_active("a\xad\u200b\U000e0041b") == "a\\xad\\u200b\\U000e0041b"


def test_texts_for_files_that_a_ci_system_shows() -> None:
    """Neither obeys commands of a job; a document has no colours, and a value keeps all of them."""
    text = "::error::a\x1b[31mb\u200bc\rd"
    assert sanitize_document(text) == ":\\x3aerror::ab\\u200bc\\x0dd"
    assert escape_control(text) == ":\\x3aerror::a\\x1b[31mb\\u200bc\\x0dd"
    assert escape_control("a\nb") == "a\\nb"


@pytest.mark.parametrize(
    ("original", "name", "shown"),
    [
        ("loss", "loss", "loss"),
        ("a" * 20, "a" * 20, "a" * 20),
        ("a" * 21, "a" * 21, "aaaaaaaaaaa-7df8e299"),
        ("a:b", "a_b", "a_b-6783a31e"),
    ],
)
def test_a_name_that_is_changed_ends_with_a_hash(original: str, name: str, shown: str) -> None:
    assert distinct_name(original, name, 20) == shown


def test_prefixes_grow_with_the_longest_name_and_ranks_have_the_colour_of_their_replica() -> None:
    def line(name: str, rank: str | None = None) -> LogEvent:
        return LogEvent("", name, "0", "stdout", "x", rank)

    plain = LineFormat(False, [])
    assert plain.lines([line("ps-0"), line("evaluator-0"), line("ps-0")]) == (
        "ps-0     | x\nevaluator-0 | x\nps-0        | x\n"
    )
    coloured = LineFormat(True, [f"worker-{n}" for n in range(11)])
    colour = {
        name: coloured.lines([line(name, rank)]).partition("m")[0]
        for name, rank in (("worker-0", None), ("worker-1", "worker-1/3"), ("worker-10", None))
    }
    assert colour["worker-0"] == colour["worker-10"] != colour["worker-1"]
    assert coloured.lines([line("worker-1")]).startswith(colour["worker-1"] + "m")
