"""Known errors: how an error of a service, a program or a job is recognised, and its remedy.

Each package has its own tables; a text that several of them look for stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Optional, Union

import msgspec

from rsctl.findings import ExitCode

_compiled = cache(re.compile)
"""`re` itself keeps 512 patterns, and all causes of a failure together come near that."""

_MAX_NAMES = 5
_MAX_MATCHES = 100
_TEMPLATE = re.compile(r"\{\w{1,40}\}.*[\"']\)?$")
"""A message as it stands in a line of code, in a traceback that also has it with its values."""

NO_SPACE = r"[Nn]o space left on device|[Dd]isk quota exceeded"
NO_MEMORY = (
    r"(?<!OutOf)MemoryError\b(?!: std::bad_alloc: )"
    r"|std::bad_alloc(?!: (?:out_of|RMM |CUDA |cuda))|[Cc](?:annot|an't) allocate memory"
)
NO_IMAGE = r"manifest unknown|manifest for \S+ not found|[Nn]o such image"
PULL_DENIED = r"pull access denied"
OTHER_REGION = (
    r"is in location `(\S{1,60}?)`\. It must be in the same regional location"
    r"|Cannot move files across regions"
)
WRONG_ARCHITECTURE = r"[Ee]xec format error|cannot execute binary file"


class KnownError(msgspec.Struct, frozen=True):
    """An error that users meet: its patterns, and the content of its finding.

    No `codes` of a service stand for any, no `pattern` for any text, no `source` for text of any
    origin. `pattern` is compiled at its first use if it is a text, since few processes look for
    the errors of a long table; `holds` decides on its match. `source` is matched from the
    beginning, say of the Dockerfile's instruction that printed the text. `summary` is the problem,
    if the text itself does not say it. `path` is the field that it is about, None if the caller
    knows. `is_transient` says that the same may succeed a little later. In `summary` and `remedy`,
    `{names}` stands for the groups of the pattern; the table defines all other names.
    """

    code: str
    remedy: Optional[str]
    path: Optional[str] = None
    exit_code: ExitCode = ExitCode.REFUSED
    codes: frozenset[str] = frozenset()
    pattern: Optional[Union[str, re.Pattern[str]]] = None
    holds: Optional[Callable[[re.Match[str]], bool]] = None
    source: Optional[re.Pattern[str]] = None
    summary: Optional[str] = None
    is_transient: bool = False

    def fits(self, codes: Iterable[str], text: str, source: str = "") -> bool:
        """Whether an error with these codes and this text, printed by `source`, is the one."""
        has_code = not self.codes or not self.codes.isdisjoint(codes)
        has_source = self.source is None or self.source.match(source) is not None
        return has_code and has_source and self._fits_text(text)

    def _fits_text(self, text: str) -> bool:
        match = None if self.pattern is None else _compiled(self.pattern).search(text)
        if match is None:
            return self.pattern is None
        return self.holds is None or self.holds(match)

    def fill(self, text: str = "", **values: str) -> KnownError:
        """The same with the displayed `summary` and `remedy`.

        An empty `{names}` at the end of the summary takes the colon before it along.
        """
        values = {"names": ", ".join(self._names(text)), **values}
        summary = self.summary and self.summary.format(**values).rstrip(" :")
        remedy = self.remedy and self.remedy.format(**values)
        return msgspec.structs.replace(self, summary=summary, remedy=remedy)

    def _names(self, text: str) -> list[str]:
        """The texts that the pattern captures, without duplicates; in quotes if a comma ends it."""
        matches = (
            islice(_compiled(self.pattern).finditer(text), _MAX_MATCHES) if self.pattern else ()
        )
        found = (next(filter(None, match.groups()), "") for match in matches)
        names = [each for each in dict.fromkeys(found) if each and not _TEMPLATE.search(each)]
        names = names[:_MAX_NAMES]
        return [repr(name) if name.endswith(",") else name for name in names]


def find_known_error(
    table: Iterable[KnownError], text: str, *codes: str, source: str = ""
) -> Optional[KnownError]:
    """The first row of a table that fits; None if nothing is known of the error."""
    return next(find_known_errors(table, text, *codes, source=source), None)


def find_known_errors(
    table: Iterable[KnownError], text: str, *codes: str, source: str = ""
) -> Iterator[KnownError]:
    """All rows of a table that fit."""
    return (known for known in table if known.fits(codes, text, source))
