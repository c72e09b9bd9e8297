"""The look-up that all tables of known errors share."""

from __future__ import annotations

import re

import pytest

from rsctl.known_errors import KnownError, find_known_error, find_known_errors
from rsctl.runs.stream.causes import CAUSES

ROLE = KnownError("role", "trust it", codes=frozenset({"Invalid"}), pattern=re.compile("assume"))
REQUEST = KnownError("request", "correct it", codes=frozenset({"Invalid", "Wrong"}))
BASE = KnownError(
    "base",
    "take another than {base}",
    pattern=re.compile(r"no image (\S+)"),
    source=re.compile("FROM "),
    summary="{base} does not exist: {names}",
)
TABLE = (ROLE, REQUEST, BASE)


@pytest.mark.parametrize(
    ("text", "codes", "source", "expected"),
    [
        ("cannot assume", ["Invalid"], "", [ROLE, REQUEST]),
        ("cannot assume", ["Other", "Wrong"], "", [REQUEST]),
        ("cannot assume", [], "", []),
        ("no image x", [], "FROM x", [BASE]),
        ("no image x", [], "RUN x", []),
        ("an image", [], "FROM x", []),
    ],
)
def test_what_fits(text: str, codes: list[str], source: str, expected: list[KnownError]) -> None:
    assert list(find_known_errors(TABLE, text, *codes, source=source)) == expected
    first = expected[0] if expected else None
    assert find_known_error(TABLE, text, *codes, source=source) == first


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("no image a\nno image b\nno image a", "B does not exist: a, b"),
        ("no image {base}", "B does not exist: {base}"),
        ("", "B does not exist"),
        ("\n".join(f"no image {n}" for n in range(9)), "B does not exist: 0, 1, 2, 3, 4"),
    ],
)
def test_texts_are_filled_in(text: str, summary: str) -> None:
    filled = BASE.fill(text, base="B")
    assert (filled.summary, filled.remedy) == (summary, "take another than B")


def test_a_long_table_is_compiled_when_it_is_searched() -> None:
    """Compiling all causes of failed jobs would cost each supervisor 40 ms of processor."""
    assert {type(known.pattern) for known in CAUSES} == {str}
    lazy = KnownError("image", "build it", pattern=r"no image (\S+)", summary="no: {names}")
    [found] = find_known_errors([lazy], "no image a, no image b")
    assert found.fill("no image a, no image b").summary == "no: 'a,', b"
