"""Explains the YAML parser's errors in plain terms, with a remedy."""

from __future__ import annotations

import yaml

from rsctl.job.file_text import YamlError, lines_of
from rsctl.job.yaml_tree import MAX_DEPTH, Position

_ALIGN = "keys of one block start in the same column"
_NOT_NESTED = f"indent it like the line above: {_ALIGN}"

# A part of the parser's message -> our message, and the remedy. The first that is found counts.
_EXPLANATIONS = (
    (
        "mapping values are not allowed",
        "a ':' is not allowed here",
        f"put a value that contains ': ' in quotes, or check the indentation: {_ALIGN}",
    ),
    ("sequence entries are not allowed", "a list cannot start here", "begin it on a new line"),
    ("unexpected end of stream", "the quoted text that starts here has no end", "close the quote"),
    (
        "expected ',' or ']'",
        "there is no ] for the [ of line {line}",
        "check commas and quotes, or add ]",
    ),
    (
        "expected ',' or '}'",
        "there is no }} for the {{ of line {line}",
        "check commas and quotes, or add }",
    ),
    ("expected ':'", "this line has no 'key:'", "write KEY: VALUE"),
    (
        "unknown escape character",
        "double quotes do not support this escape sequence",
        r"write \\ for a \, or use '",
    ),
    ("expected key", "this does not continue the block above", _NOT_NESTED),
    ("expected <block end>", "this does not continue the block above", _NOT_NESTED),
    ("expected '-' indicator", "this does not continue the list above", _NOT_NESTED),
    ("node content", "a value is missing here", "write the value, in quotes if it is text"),
    ("<document start>", "nothing is allowed after the '...' line", "remove the '...' line"),
    ("maximum nesting", f"nested more than {MAX_DEPTH} levels deep", "flatten it"),
    ("cannot start any token", "a value cannot begin with {rest!r}", "put it in quotes"),
    ("alphabetic or numeric", "a value cannot begin with {rest!r}", "put it in quotes"),
)


def explain(problem: yaml.YAMLError, file: str, text: str) -> YamlError:
    """A parser's error as one that its reader can act on."""
    lines = lines_of(text)
    problem_text = getattr(problem, "problem", None) or str(problem)
    mark = _mark_of(problem, problem_text, file, lines)
    line = lines[mark.line - 1]
    before, rest = line[: mark.column - 1], line[mark.column - 1 :]
    if not before.strip() and "\t" in line[: mark.column]:
        return YamlError(mark, "a tab is used for indentation", "indent with spaces")
    if rest.startswith("{") and before.endswith("$"):
        return YamlError(mark, "inside {} and [] a variable needs quotes", 'write "${NAME}"')
    began = getattr(problem, "context_mark", None)
    for part, message, remedy in _EXPLANATIONS:
        if part in problem_text:
            about = message.format(line=began.line + 1 if began else mark.line, rest=rest[:1])
            return YamlError(mark, about, remedy)
    return YamlError(
        mark, f"this is not valid YAML: {problem_text}", "start with the file of `rsctl init`"
    )


def _mark_of(problem: yaml.YAMLError, problem_text: str, file: str, lines: list[str]) -> Position:
    """The position of the error; where it began, if the parser only noticed later."""
    at = getattr(problem, "problem_mark", None)
    began = getattr(problem, "context_mark", None)
    if at is None or (began and (_is_late(problem_text) or _at_the_end(at, lines))):
        at = began
    if at is None:
        return Position(file, 1, 1)
    line = min(at.line, len(lines) - 1)
    return Position(file, line + 1, min(at.column, len(lines[line])) + 1)


def _is_late(problem_text: str) -> bool:
    return "expected ':'" in problem_text or "alphabetic or numeric" in problem_text


def _at_the_end(at: yaml.Mark, lines: list[str]) -> bool:
    rest = lines[at.line :]
    return not "".join([*(line[at.column :] for line in rest[:1]), *rest[1:]]).strip()
