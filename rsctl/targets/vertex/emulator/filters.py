"""The filter language of Google's list calls: of logs, of time series and of jobs.

Comparisons of a field with `=`, `!=`, `<`, `<=`, `>`, `>=`, `:` (has), `=~` and `!~`, words to
search for, functions such as `SEARCH("x")`, `NOT` and `-`, `AND` (or nothing) and `OR`, and
parentheses, also around values. As in Google's documentation OR binds more tightly than AND.
"""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Union

LONGEST = 20_000
"""Characters."""

_DEEPEST = 50
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<comment>--[^\n]*)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<function>(?!(?:AND|OR|NOT)\()[A-Za-z_]\w*\()
      | (?P<comma>,)
      | (?P<operator>=~|!~|!=|<=|>=|=|<|>|:)
      | (?P<bracket>[()])
      | (?P<word>[^\s()=!<>:"',]+)
    )""",
    re.VERBOSE | re.DOTALL,
)


class FilterComparison(NamedTuple):
    """`resource.labels.job_id = "1"`; the path is in parts, in the writer's letters."""

    path: tuple[str, ...]
    operator: str
    value: str


class Search(NamedTuple):
    """A word that must occur anywhere."""

    text: str


class Function(NamedTuple):
    """`log_id("stderr")`; which functions there are depends on the service."""

    name: str
    arguments: tuple[str, ...]


class NotEmulated(ValueError):
    """A filter that the service would support, but not the emulator; the text names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not emulated by rsctl's emulator")


@dataclass(frozen=True)
class And:
    """All of these."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """Any of these."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """Not this."""

    part: Filter


Filter = Union[And, Or, Not, FilterComparison, Search, Function]
Single = Union[FilterComparison, Search, Function]
EVERYTHING = And(())


def parse(text: str) -> Filter:
    """Read a filter; an empty one is EVERYTHING. Raises ValueError, NotEmulated among them."""
    if len(text) > LONGEST:
        raise ValueError(f"the filter has more than {LONGEST} characters")
    parser = _Parser(list(_tokens(text)))
    return parser.whole()


def matches(wanted: Filter, holds: Callable[[Single], bool]) -> bool:
    """Whether a filter is true of something of which `holds` knows the single comparisons."""
    if isinstance(wanted, And):
        return all(matches(part, holds) for part in wanted.parts)
    if isinstance(wanted, Or):
        return any(matches(part, holds) for part in wanted.parts)
    if isinstance(wanted, Not):
        return not matches(wanted.part, holds)
    return holds(wanted)


def singles(wanted: Filter) -> Iterator[Single]:
    """The single comparisons of a filter, in their order."""
    if isinstance(wanted, (And, Or)):
        for part in wanted.parts:
            yield from singles(part)
    elif isinstance(wanted, Not):
        yield from singles(wanted.part)
    else:
        yield wanted


def compare(have: str, operator: str, value: str) -> bool:
    """A comparison of texts. As in Logging, only patterns mind upper and lower case."""
    if operator in ("=~", "!~"):
        return bool(re.search(value, have)) == (operator == "=~")
    left, right = have.casefold(), value.casefold()
    if operator == ":":
        return right in left
    return bool(_COMPARE[operator](left, right))


_COMPARE = {
    "=": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if not found or not found.lastgroup:
            raise ValueError(f"Unparseable filter: syntax error at column {position + 1}")
        if found.lastgroup != "comment":
            yield _Token(found.lastgroup, found[found.lastgroup])
        position = found.end()


class _Parser:
    """Recursive descent, one method a rule."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        if not self._tokens:
            return EVERYTHING
        found = self._and(self._term)
        if self._at < len(self._tokens):
            raise self._wrong()
        return found

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _take(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _is_word(self, word: str) -> bool:
        return self._peek() == _Token("word", word)

    def _wrong(self) -> ValueError:
        token = self._peek()
        where = f'token "{token.text}"' if token.text else "the end"
        return ValueError(f"Unparseable filter: syntax error at {where}")

    def _and(self, item: Callable[[], Filter]) -> Filter:
        parts = [self._or(item)]
        while self._peek() != _Token("bracket", ")") and self._peek().kind != "end":
            if self._is_word("AND"):
                self._take()
            parts.append(self._or(item))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _or(self, item: Callable[[], Filter]) -> Filter:
        parts = [self._not(item)]
        while self._is_word("OR"):
            self._take()
            parts.append(self._not(item))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _not(self, item: Callable[[], Filter]) -> Filter:
        token = self._peek()
        if self._is_word("NOT"):
            self._take()
            return Not(self._bracketed(item))
        if token.kind == "word" and token.text.startswith("-"):
            if token.text == "-":
                self._take()
            else:
                self._tokens[self._at] = _Token("word", token.text[1:])
            return Not(self._bracketed(item))
        return self._bracketed(item)

    def _bracketed(self, item: Callable[[], Filter]) -> Filter:
        if self._peek() != _Token("bracket", "("):
            return item()
        self._take()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("Unparseable filter: too many parentheses")
        inner = self._and(item)
        if self._take() != _Token("bracket", ")"):
            self._at -= 1
            raise self._wrong()
        self._depth -= 1
        return inner

    def _term(self) -> Filter:
        if self._peek().kind == "function":
            return self._function()
        path = self._path()
        if self._peek().kind != "operator":
            return Search(".".join(path))
        operator = self._take().text

        def value() -> Filter:
            return _checked(FilterComparison(path, operator, self._text()))

        return self._bracketed(value)

    def _function(self) -> Function:
        name, arguments = self._take().text[:-1], [self._text()]
        while self._peek().kind == "comma":
            self._take()
            arguments.append(self._text())
        if self._take() != _Token("bracket", ")"):
            self._at -= 1
            raise self._wrong()
        return Function(name, tuple(arguments))

    def _path(self) -> tuple[str, ...]:
        """`labels."a.b".c`: quoted text is one part, with all its characters."""
        if self._peek().kind == "quoted":
            return (self._text(),)
        text = self._text()
        parts = text.split(".")
        while parts[-1] == "" and self._peek().kind == "quoted":
            parts[-1] = self._text()
            if self._peek().kind == "word" and self._peek().text.startswith("."):
                parts += self._take().text[1:].split(".")
        return tuple(parts)

    def _text(self) -> str:
        token = self._peek()
        if token.kind == "quoted":
            self._take()
            return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        if token.kind == "function":
            raise NotEmulated(f"the function {token.text})")
        if token.kind != "word" or token.text in ("AND", "OR", "NOT"):
            raise self._wrong()
        return self._take().text


def _checked(comparison: FilterComparison) -> FilterComparison:
    if comparison.operator in ("=~", "!~"):
        try:
            re.compile(comparison.value)
        except re.error:
            message = f'Unparseable filter: "{comparison.value}" is not a valid regular expression'
            raise ValueError(message) from None
    return comparison
