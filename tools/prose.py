"""Checks that docs, help, messages and docstrings keep to STYLE.md.

    python tools/prose.py            checks the whole project; exit code 1 if it finds anything
    python tools/prose.py FILE...    checks only these files

Each line of output is FILE:LINE:COLUMN, the matched words, and what to write instead.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

from prose_patterns import PATTERNS

ROOT = Path(__file__).parents[1]
CHECKED = (
    *("*.md", "skills/**/*.md", "docs/**/*.md", "docs/*.yaml"),
    *("rsctl/**/*.py", "rsctl/**/*.yaml"),
)
NOT_CHECKED = ("STYLE.md", "docs/reference/*.md")
"""STYLE.md quotes what it advises against; docs/reference is made from the code."""

VENDORS_WORDS = ("emulator", "testing")
"""Folders whose string literals repeat what a cloud answers; their docstrings are checked."""

_CODE = re.compile(
    r"^```.*?^```|`[^`\n]*`|^(?: {4}|\t)[^\n]*$|<!--.*?-->|https?://\S+", re.M | re.S
)
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main(names: list[str]) -> int:
    """Print all hits; 1 if there are any."""
    skipped = {path for pattern in NOT_CHECKED for path in ROOT.glob(pattern)}
    paths = [Path(name).resolve() for name in names] or [
        path for pattern in CHECKED for path in sorted(ROOT.glob(pattern)) if path not in skipped
    ]
    hits = [hit for path in paths for hit in check(path)]
    print(*hits, sep="\n", end="\n" if hits else "")
    return 1 if hits else 0


def check(path: Path) -> Iterator[str]:
    """The hits in a file, in the order of its lines."""
    source = path.read_text()
    passages = _of_python(source, path) if path.suffix == ".py" else [(1, source)]
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for first_line, text in sorted(set(passages)):
        for match, advice in _matches(text):
            line, column = _position(source, first_line, match)
            found = " ".join(match[0].split())
            yield f"{name}:{line}:{column}: {found!r}: {advice}"


def _matches(text: str) -> Iterator[tuple[re.Match[str], str]]:
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "\x00", code[0]), text)
    for pattern, advice in PATTERNS:
        for match in pattern.finditer(prose):
            yield match, advice


def _position(source: str, first_line: int, match: re.Match[str]) -> tuple[int, int]:
    """Where the match is; in a literal of several parts, the line that has its first word."""
    line = first_line + match.string.count("\n", 0, match.start())
    lines = source.splitlines()
    for text in (match[0], match[0].split()[0]):
        for number in range(line, min(line + 12, len(lines)) + 1):
            if text in lines[number - 1]:
                return number, lines[number - 1].index(text) + 1
    return line, 1


def _of_python(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, comments, and string literals that read like prose, with their first lines."""
    # Tokens take longer than all else, so only where a comment may have a hit.
    if any(any(_matches(text)) for text in re.findall(r"(?=(#.*))", source)):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    tree = ast.parse(source)
    ours = not set(VENDORS_WORDS) & set(path.parts)
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith(("compile", "execute")):
            skipped |= {id(part) for part in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            skipped |= {id(part) for part in node.values}
            parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            if ours:
                yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
            if isinstance(node.value.value, str):
                yield node.lineno, _without_indentation(node.value.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ours:
            yield from [] if id(node) in skipped else [(node.lineno, node.value)]


def _name(function: ast.expr) -> str:
    """The last part of its name; empty if it has none."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _without_indentation(docstring: str) -> str:
    """As `inspect.cleandoc`, with all lines kept: what is indented beyond the others is code."""
    first, _, rest = docstring.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
