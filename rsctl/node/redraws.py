"""Turns the states of progress bars into lines.

A bar draws over its own line, by a carriage return or by moving the cursor to the first column, or
over the lines above, by moving it up. It may do so thousands of times before the line ends. Each
state is a measurement with a time of its own. So states leave as lines of the kind `redraws`:
`states` has all of them with their ages in microseconds, packed, and `lines` has what the log
keeps: at most one state a second, which begins with a carriage return, and the last state of each
line.
`rank.py` loads this file by its path, without a package: it stands alone.
"""

from __future__ import annotations

import re

KIND = "redraws"
MOST_PACKED = 1 << 18
"""The most bytes of the states of one line before they are packed."""

_INTERVAL_SECONDS = 1.0
_MOST_BYTES = 16384
_STATE_OVERHEAD = 16  # bytes of a state besides its text, about
_MOST_STATE_BYTES = 8192
_MOST_ROWS = 32
_LONGEST_MOVE = 8
_MOVE = re.compile(rb"\r*\n|\r|\x1b\[(?:[01]?G|[0-9]{3,4}D)|\x1b\[([0-9]{0,3})([ABEF])")
_BACK = re.compile(rb"\x1b\[(?:[0-9]{0,3}[AF]|[01]?G|[0-9]{3,4}D)")
_MAY_BE_MOVE = re.compile(rb"(?:\r+|\x1b(?:\[[0-9]{0,4})?)\Z")
_OVER = b"\r\b"  # Keras goes back over its bar by backspaces, then by a carriage return
_BEHIND_BAR = re.compile(rb'(?<=.)(?=\{ ?"rsctl" ?: ?"metrics")')
_INVISIBLE = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|[\s\x08]+")


class Redraws:
    """The bars in one stream of output. `held` is its text without an end.

    `now` is always a monotonic time in seconds.
    """

    def __init__(self) -> None:
        self.held = bytearray()
        self._held_at = 0.0
        self._is_bar = False
        self._is_entered = False  # by a line end: the text here does not replace a state
        self._row = 0  # 0 is the lowest line, -1 the line above it
        self._rows: dict[int, bytes] = {}  # the last states, which the log does not have
        self._states: list[tuple[float, bytes]] = []
        self._size = 0
        self._shown, self._shown_at = b"", float("-inf")

    def feed(self, data: bytes, now: float) -> bytes:
        """Take a chunk of output; returns whole lines."""
        if not self._is_bar and not _may_redraw(bytes(self.held[-_LONGEST_MOVE:]) + data):
            end = data.rfind(b"\n") + 1
            lines = bytes(self.held) + data[:end] if end else b""
            self.held = bytearray(data[end:]) if end else self.held + data
            self._held_at = now
            return lines
        return b"".join([*self._moves(data, now), self.tick(now)])

    def _moves(self, data: bytes, now: float) -> list[bytes]:
        old, text = len(self.held), bytes(self.held) + data
        partial = _MAY_BE_MOVE.search(text[-_LONGEST_MOVE:])
        end = len(text) - (len(partial[0]) if partial else 0)
        lines: list[bytes] = []
        begin = 0
        for move in _MOVE.finditer(text, 0, end):
            state, at = text[begin : move.start()], self._held_at if move.start() <= old else now
            begin = move.end()
            is_end = move[0].endswith(b"\n")
            if is_end and (self._row == 0 or _BEHIND_BAR.search(state)):
                lines += self._end_row(state, now)
                continue
            self._is_bar, self._is_entered = True, is_end
            lines += self._add(state, at, now)
            if is_end:
                self._row += 1
            elif move[2] is not None:
                rows = int(move[1] or b"1")
                self._row = min(
                    0, max(self._row + (-rows if move[2] in b"AF" else rows), -_MOST_ROWS)
                )
        if begin or data.strip(b"\r"):
            self._held_at = now
        self._is_bar = self._is_bar or partial is not None
        self.held = bytearray(text[begin:])
        return lines

    def _end_row(self, text: bytes, now: float) -> list[bytes]:
        """The end of the lowest line; where a bar was removed from it, its last state.

        A line of metrics behind a bar, which has no line end of its own, is a line of its own.
        """
        if self._is_bar:
            text = _BEHIND_BAR.sub(b"\n", text, count=1)
        is_removed = 0 in self._rows and not _is_visible(text)
        lines = self._flush(now, is_last=is_removed or self._is_entered)
        return lines if is_removed else [*lines, text.rstrip(_OVER) + b"\n"]

    def wait_seconds(self, now: float) -> float | None:
        """The time until `tick` returns something; None if it has nothing to return."""
        if self._states:
            return max(0.0, self._shown_at + _INTERVAL_SECONDS - now)
        if self._is_bar and _is_visible(self._held_state()) and self._shown != self._held_state():
            return max(0.0, max(self._shown_at, self._held_at) + _INTERVAL_SECONDS - now)
        return None

    def tick(self, now: float) -> bytes:
        """The line with the states until now, if it is due.

        A state that nothing has followed for a second is shown; it counts when its end has come.
        """
        wait = self.wait_seconds(now)
        if wait is None or wait > 0:
            return b""
        newest = self._states[-1][1] if self._states else self._held_state()
        lines = [b"\r" + newest] if newest != self._shown else []
        self._shown, self._shown_at = newest, now
        return self._record(now, lines)

    def flush(self, now: float) -> bytes:
        """All states until now, as the text that is held goes out as it is."""
        return b"".join(self._flush(now, is_last=True))

    def end(self, now: float) -> bytes:
        """Everything that is left, in whole lines."""
        rest, self.held = bytes(self.held).rstrip(_OVER), bytearray()
        lines = self._flush(now, is_last=not _is_visible(rest))
        return b"".join([*lines, rest + b"\n"] if _is_visible(rest) else lines)

    def _add(self, state: bytes, at: float, now: float) -> list[bytes]:
        if not _is_visible(state):
            return []
        text = state[:_MOST_STATE_BYTES].rstrip(_OVER)
        self._rows[self._row] = text
        self._states.append((at, text))
        self._size += len(text) + _STATE_OVERHEAD
        return [self._record(now, [])] if self._size > _MOST_BYTES else []

    def _flush(self, now: float, is_last: bool) -> list[bytes]:
        """The states, then the lines that the bar has left; the lowest one only if `is_last`."""
        rows = {row: text for row, text in self._rows.items() if row < 0 or is_last}
        lines = [self._record(now, [])] if self._states else []
        lines += [self._record(now, [rows[row]]) for row in sorted(rows)]
        self._rows, self._row, self._shown = {}, 0, b""
        self._is_bar = self._is_entered = False
        return lines

    def _held_state(self) -> bytes:
        return bytes(self.held[:_MOST_STATE_BYTES]).rstrip(_OVER)

    def _record(self, now: float, lines: list[bytes]) -> bytes:
        import json
        from base64 import b64encode
        from zlib import compress

        record: dict[str, object] = {"rsctl": KIND, "lines": [_text(line) for line in lines]}
        if self._states:
            states = [(round((now - at) * 1e6), _text(state)) for at, state in self._states]
            record["states"] = b64encode(compress(json.dumps(states).encode())).decode()
        self._states, self._size = [], 0
        return json.dumps(record).encode() + b"\n"


def _may_redraw(data: bytes) -> bool:
    """Whether any of this may be a bar's state; `\\r\\n` is an ordinary end of a line."""
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return True
    return b"\x1b" in data and (_BACK.search(data) or _MAY_BE_MOVE.search(data[-8:])) is not None


def _is_visible(state: bytes) -> bool:
    return bool(_INVISIBLE.sub(b"", state[:_MOST_STATE_BYTES]))


def _text(state: bytes) -> str:
    return state.decode(errors="backslashreplace")
