"""Files made to hurt: they end quickly, with a finding, and never with a traceback."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rsctl.job.secret_names import public_text

GOOD = "name: j\nrun: {script: train.py}\n"
SECONDS = 5.0  # generous for a loaded machine; each takes well under one


def laughs(levels: int, per_level: int = 9) -> str:
    """Anchors of anchors: `per_level ** levels` texts in a few lines, below x-."""
    lines = ["x-0: &a0 lol"]
    for level in range(1, levels + 1):
        inner = ", ".join([f"*a{level - 1}"] * per_level)
        lines.append(f"x-{level}: &a{level} [{inner}]")
    return "\n".join(lines) + "\n"


def chain(length: int) -> str:
    """A list in a list in a list, one level for each alias."""
    return "x-0: &a0 [1]\n" + "".join(
        f"x-{level}: &a{level} [*a{level - 1}]\n" for level in range(1, length)
    )


MANY_KEYS = "{" + ", ".join(f"k{n}" for n in range(50_000)) + "}"

HOSTILE = {
    "laughs under x-": (laughs(20) + GOOD, "more than 100000 values"),
    "laughs under a real key": (
        laughs(4) + GOOD + "targets: {vertex: {overlay: {a: [" + "*a4, " * 30 + "]}}}\n",
        "more than 100000 values",
    ),
    "many aliases of much": (
        f"x-a: &a {MANY_KEYS}\nx-b: [{'*a,' * 100_000}]\n{GOOD}",
        "more than 100000 values",
    ),
    "many merges of much": (
        f"x-a: &a {MANY_KEYS}\nx-b: [{'{<<: *a},' * 50_000}]\n{GOOD}",
        "more than 100000 values",
    ),
    "nested by aliases": (chain(10_000) + GOOD, "nested more than 64 levels deep"),
    "nested lists": (GOOD + "x-a: " + "[" * 100_000, "nested more than 64 levels deep"),
    "nested mappings": (GOOD + "x-a: " + "{a: " * 100_000, "nested more than 64 levels deep"),
    "nested block lists": (GOOD + "x-a:\n " + "- " * 100_000, "nested more than 64 levels deep"),
    "a very large list": (GOOD + f"x-a: [{'1,' * 400_000}]", "more than 100000 values"),
    "a very long key": (f"{'k' * 900}: 1\n{GOOD}", "is not a valid key"),
    "an explicit key without end": (f"? {'k' * 900_000}\n: 1\n{GOOD}", "is not a valid key"),
    "a very long word": (f"{GOOD}outputs: {'a ' * 400_000}\n", None),
    "a very long integer": (f"{GOOD}workers: {{count: {'9' * 100_000}}}\n", "a whole number"),
    "a very long hexadecimal": (f"{GOOD}workers: {{count: 0x{'f' * 100_000}}}\n", "a whole"),
    "a very long fraction": (f"{GOOD}limits: {{timeout: {'1.' + '9' * 100_000}}}\n", "a duration"),
    "a very long duration": (f"{GOOD}limits: {{timeout: {'1s' * 100_000}}}\n", "a duration"),
    "a very long size": (f"{GOOD}workers: {{disk: {'9' * 100_000}GB}}\n", "a size"),
    "a very long variable": (f"{GOOD}outputs: ${{{'A' * 100_000}}}\n", "is not set"),
    "very many variables": (f"{GOOD}outputs: {'${A:-}' * 100_000}b\n", None),
    "very many openings": (f"{GOOD}outputs: {'${' * 100_000}\n", "is not a valid variable"),
    "a nested expression": (
        f"{GOOD}metrics: {{a: {{regex: '{'(' * 50_000}{')' * 50_000}'}}}}\n",
        "a regular expression",
    ),
    "an expression that the check for slow ones could be slow on": (
        f"{GOOD}metrics: {{a: {{regex: '{'([' * 900}])'}}}}\n",
        None,
    ),
    "a very long expression": (
        f"{GOOD}metrics: {{a: {{regex: '{'([' * 100_000}])'}}}}\n",
        "at most",
    ),
    "a repeated repetition": (
        f"{GOOD}metrics: {{a: {{regex: '{'(' * 90}a{'{1,99})' * 90}'}}}}\n",
        None,
    ),
    "very many unknown keys": (GOOD + "".join(f"kex{n}: 1\n" for n in range(40_000)), "unknown"),
    "very many wrong values": (
        GOOD + "image: {apt: [" + "$, " * 40_000 + "]}\n",
        "a Debian package",
    ),
    "very many duplicates": (GOOD + "x-a: 1\n" * 20_000, "is a duplicate"),
    "a matrix of ten to the forty": (
        GOOD
        + "matrix:\n"
        + "".join(f"  run.env.A{n}: [{', '.join(['1'] * 100)}]\n" for n in range(20))
        + "  exclude: [{run.env.A1: 1}]\n",
        "more than 1000 cells",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_ends_soon_and_well(read_text: Any, name: str) -> None:
    text, expected = HOSTILE[name]
    began = time.process_time()
    document = read_text(text)
    assert time.process_time() - began < SECONDS
    assert all(finding.line and finding.column for finding in document.findings if finding.path)
    assert all(len(f.message) + len(f.remedy or "") < 1000 for f in document.findings)
    if expected:
        assert any(expected in finding.message for finding in document.findings)
        assert document.has_errors
    else:
        assert not document.has_errors


@pytest.mark.parametrize(("mistakes", "note"), [(100, []), (101, ["100"]), (500, ["100"])])
def test_only_so_many_mistakes_are_shown(read_text: Any, mistakes: int, note: list[str]) -> None:
    document = read_text(GOOD + "".join(f"kex{n}: 1\n" for n in range(mistakes)))
    assert sum(finding.is_error for finding in document.findings) == 100
    assert [f.message for f in document.findings if not f.is_error] == [
        f"only the first {most} mistakes are shown" for most in note
    ]


@pytest.mark.parametrize("unit", ["a=", "a1=:", "\\", "sk-", "sb_secret_", "?sig=", 'k: ["'])
def test_secrets_are_looked_for_in_linear_time(unit: str) -> None:
    began = time.process_time()
    assert public_text(unit * (200_000 // len(unit)))
    assert time.process_time() - began < SECONDS


def test_settings_are_bounded_too(read_text: Any) -> None:
    deep = ".".join(["a"] * 10_000)
    nested = "[" * 10_000
    document = read_text(GOOD, f"x-a.{deep}=1", f"outputs={nested}", "x-b=" + "[1," * 70)
    assert document.findings[0].message == "nested more than 64 levels deep"
