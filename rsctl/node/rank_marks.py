"""Names the rank that wrote a line, where several ranks share their node's output.

A plain line begins with the mark: `[worker-0/3] loss 0.41`. A line that is a JSON object gets a
last key instead, since Cloud Logging parses such lines and takes their severity from them:
`{"loss": 0.41, "rsctl_rank": "worker-0/3"}`. Lines of the runtime itself stay as they are, but
for metrics and the states of progress bars. `rank.py` loads this file by its path, without a
package: it stands alone.
"""

from __future__ import annotations

JSON_KEY = "rsctl_rank"
"""The key that names the rank in a line that is a JSON object."""

_RUNTIME = b'{"rsctl": "'
_OF_RANKS = (b'{"rsctl": "metrics"', b'{"rsctl": "redraws"')


def mark_of(replica: str, local_rank: int | str) -> bytes:
    """How lines of a rank begin: `[worker-0/3] `."""
    return f"[{replica}/{local_rank}] ".encode()


def with_marks(lines: bytes, mark: bytes) -> bytes:
    """Whole lines, each with the mark of the rank that wrote it; an empty mark adds nothing."""
    if not mark or not lines:
        return lines
    if lines[:2] != b'{"' and b'\n{"' not in lines:
        return mark + lines[:-1].replace(b"\n", b"\n" + mark) + lines[-1:]
    return b"\n".join(_marked(line, mark) for line in lines[:-1].split(b"\n")) + lines[-1:]


def _marked(line: bytes, mark: bytes) -> bytes:
    end = line.rstrip()
    if not line.startswith(b'{"') or not end.endswith(b"}"):
        return mark + line
    if line.startswith(_RUNTIME) and not line.startswith(_OF_RANKS):
        return line
    who = mark[1:-2].decode()
    return end[:-1] + f', "{JSON_KEY}": "{who}"}}'.encode()
