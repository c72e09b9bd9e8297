"""Sanitizes text of unknown origin for a terminal: control characters cannot act."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # they change the direction of writing
    "\u2028\u2029"  # they begin a line or a paragraph
    "\ud800-\udfff]"  # they cannot be encoded
)
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_BACK = re.compile("\x08{2,}")
INVISIBLE = (
    "\x80-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The characters that have no width of their own or change the direction of writing, as part of a
character class: Unicode's category Cf and what is `Default_Ignorable_Code_Point`, but for variation
selectors, which emoji have; and the control characters behind ASCII, which JSON can have.
"""

CI_COMMANDS = (
    r"(?:^|(?<=\n))[ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]*:(:)"
    r"|(?:^|(?<=\n))(?:--(-)|\+\+(\+)|~~(~))(?=\s|\Z)"
    r"|(?:^|(?<=\n))\^\^\^[ \t]+\+(\+)"
    r"|##(?i:vso|teamcity|octopus)?(\[)"
    r"|(?:section_(?:start|end)|travis_(?:fold|time))(:)"
)
"""The texts that a CI system obeys; the last group is the character that must not stay.

GitHub Actions obeys `::NAME::` after blanks at the begin of a line, and `##[NAME]` anywhere in one
(actions/runner: `src/Runner.Common/ActionCommand.cs`); Azure Pipelines `##vso[` anywhere
(azure-pipelines-agent: `Command.cs`), TeamCity `##teamcity[`, Octopus Deploy `##octopus[`
(Calamari: `ServiceMessage.cs`), GitLab `section_start:` before a control character, Travis CI
`travis_fold:` and `travis_time:` (travis-build: `travis_fold.bash`, `travis_time_finish.bash`),
Buildkite `--- `, `+++ `, `~~~ ` and `^^^ +++` at the begin of a line.
"""

_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_COMMAND = re.compile(CI_COMMANDS)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def sanitize(text: str) -> str:
    """A text whose control characters cannot act: our own colours stay, the rest is shown escaped.

    Only for texts that rsctl has put together; for a line of a log use `sanitize_line`.
    """
    if not _CONTROL.search(text):
        return text
    parts = re.split(f"({_COLOR.pattern})", text)
    return "".join(p if _COLOR.fullmatch(p) else _CONTROL.sub(_escaped, p) for p in parts)


def sanitize_line(text: str) -> str:
    """A line of a log, or another text of one line, as a terminal may show it.

    Escape sequences are removed, and runs of backspaces, by which a bar writes over itself. Of a
    progress bar's states only the last one that is not blank is kept. Other control characters,
    such as those that change the direction of writing, are shown escaped.
    """
    if text.isprintable():
        return text
    text = text.replace("\n", " ")  # or a job could forge lines
    if not _CONTROL.search(text):
        return text
    text = without_escapes(text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return _CONTROL.sub(_escaped, _BACK.sub("", text))


def without_escapes(text: str) -> str:
    """A line without colours and other escape sequences; control characters stay."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def sanitize_text(text: str) -> str:
    """A text of one line that has names and values of a job beside words of rsctl.

    Like `sanitize_line`, but a carriage return of a name or a value does not remove what is before
    it, such as a verdict.
    """
    return sanitize_line(text.replace("\r", "\\x0d"))


def sanitize_document(text: str) -> str:
    """A text of one line for a file that a CI system shows: see `escape_active`.

    With invisible characters a name could look like another name, or text stand in another order.
    """
    return escape_active(sanitize_text(text))


def escape_active(text: str) -> str:
    """The text with visible escapes in place of invisible characters, and of one character of what
    a CI system obeys in a log; line ends stay.
    """
    return _COMMAND.sub(_inert, escape_invisible(text))


def escape_invisible(text: str) -> str:
    """The text with visible escapes in place of invisible characters."""
    return text if text.isascii() else _INVISIBLE.sub(_escaped, text)


def escape_control(text: str) -> str:
    """The text as of `escape_active`, and without control characters and line ends."""
    return _CONTROL.sub(_escaped, escape_active(text)).replace("\n", "\\n")


def _inert(match: re.Match[str]) -> str:
    at = match.start(match.lastindex or 0) - match.start()
    return f"{match[0][:at]}\\x{ord(match[0][at]):02x}{match[0][at + 1 :]}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
