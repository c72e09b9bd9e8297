"""The lines that show why a replica failed, from the end of its log: usually one traceback.

A log can have several: of the ranks that write to it, of the program that started them, and of
threads and handlers that fail because the program ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rsctl.runs.stream.diagnosis import TORCHRUN_ERROR, is_of_launcher, known_causes
from rsctl.runs.stream.exceptions import REFERS, find_exception, is_complete
from rsctl.runs.stream.gpu_causes import NCCL
from rsctl.runs.stream.structured import is_structured

_TRACEBACK = "Traceback (most recent call last)"
_IN_ONE_LINE = re.compile(r"([\"']?)(Traceback \(most recent call last\):)(?=\\n)")
"""Where a traceback begins whose line ends are escaped, as in JSON and in a text's `repr`."""

_UP_TO_QUOTE = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*") for quote in "\"'"}
_ESCAPED = re.compile(r"\\([\\'\"/nt])")  # others stay: \u001b would be a control character
_BLANKS = {"n": "\n", "t": "\t"}
_INSIDE_GROUP = re.compile(r"(?:\[rank\d+\]:)?\s+(?:\||\+(?! Exception Group))")
_NOISE = re.compile(
    r"^[DIWE]\d{4} [\d:.]+ .*torch/distributed/"
    r"|Current thread's C stack trace|  Binary file \""  # of a crash, since Python 3.14
)
_CRASH = "Fatal Python error: "
_OF_CRASH = re.compile(
    rf"{_CRASH}|(?:T|Current t)hread 0x|  File \"|  <[\w ]+>$|Extension modules: "
)
_STARTER = re.compile(r"/(?:accelerate/commands|torch/distributed|deepspeed/launcher)/")
_REFERS = re.compile(REFERS)
_MAX_LINES = 30
_MOST_KEPT = 600  # the lines of a tail, and those of a traceback inside one of them
_PLAIN_LINES = 10
_MOST_RANKS = 8
_BETWEEN = 4
_BESIDE_LINES = 2
_BESIDE = re.compile(
    r"Exception ignored in|Error in atexit|--- Logging error ---|exception was never retrieved"
    r"|Exception in (?:thread|user callback|callback) "
)
"""How Python announces an exception that does not end the program."""

_RULE = re.compile(r"(?:^|[\s:>])-{60,80}$")
_MARK = re.compile(r"\[rank\d{1,6}\]: ")
_OF_RANK = re.compile(r"\[rank\d{1,6}\]: ?(?=Traceback \(most recent call last\))")
_OF_ANOTHER = frozenset(
    {NCCL, "distributed", "peer", "pipe", "rendezvous", "rendezvous-lost", "signal", "timeout"}
)
"""The causes that the failure of another rank has, too."""
_STOPPED = re.compile(r": (?:KeyboardInterrupt|EOFError|[\w.]{0,100}SignalException)\b")


def failure_lines(lines: Iterable[str]) -> list[str]:
    """The end of a failed replica's log: its last traceback, otherwise its last lines.

    If that rank only lost another one that writes to the same log, it is the other rank's
    traceback. Leaves out torchrun's own messages. A traceback inside one line becomes lines.
    """
    own = (line for line in lines if not _is_noise(line))
    kept = [part for line in own for part in _unfolded(line)][-_MOST_KEPT:]
    last = _last_failure(kept)
    others = [other for other in islice(_other_failures(kept), _MOST_RANKS) if other != last]
    marks = {match[0] for line in last if (match := _MARK.match(line))}
    if not others or (len(marks) < 2 and not _follows_another(last)):
        return last
    return next((other for other in others if not _follows_another(other)), last)


def _unfolded(line: str) -> list[str]:
    """The line; if a traceback is inside it, with the traceback as lines."""
    match = _IN_ONE_LINE.search(line)
    if match is None:
        return [line]
    start = match.start(2)
    inside = _UP_TO_QUOTE[match[1]].match(line, start) if match[1] else None
    end = inside.end() if inside else len(line)
    text = _ESCAPED.sub(lambda found: _BLANKS.get(found[1], found[1]), line[start:end])
    return [*filter(None, [line[:start]]), *text.splitlines(), *filter(None, [line[end:]])]


def _last_failure(kept: list[str]) -> list[str]:
    """The last traceback of a log, otherwise its last lines."""
    starts = [i for i, line in enumerate(kept) if _begins_traceback(line)]
    while starts and (header := _beside(kept, starts)):
        kept = kept[:header]
        starts.pop()
    while starts and _is_of_starter(kept[starts[-1] :]):
        before = kept[: starts[-1]]
        if len(starts) == 1 and not known_causes(_plain_end(before), 1, None):
            break
        kept = before
        starts.pop()
    if not starts:
        return _plain_end(kept)
    while len(starts) > 1 and not is_complete(kept[starts[-1] :]):
        starts.pop()  # a rank that was ended while it wrote
    if starts[-1] and not is_complete(kept[starts[-1] :]):
        starts[-1] = max(0, starts[-1] - _PLAIN_LINES)
    block = kept[_first_of_chain(kept, starts) :]
    if len(block) <= _MAX_LINES:
        return block
    end, half = _end_of_traceback(block), _MAX_LINES // 2
    if not 2 < end <= len(block) - _MAX_LINES:
        return [block[0], "...", *block[-_MAX_LINES:]]
    # The exception has a long message.
    return [block[0], "...", *block[max(1, end - half) : end + 1], "...", *block[-half:]]


def _plain_end(kept: list[str]) -> list[str]:
    """The last lines; if they begin inside a message that MPI puts between two rules, all of it.

    If they begin inside a report of `faulthandler`, its thread that crashed.
    """
    start = max(0, len(kept) - _PLAIN_LINES)
    crashes = [i for i, line in enumerate(kept[:start]) if _CRASH in line]
    frames = [i for i, line in enumerate(kept) if _OF_CRASH.search(line)]
    if crashes and frames[-1] >= start:
        crash, last = crashes[-1], frames[-1]
        frames = frames[frames.index(crash) + 1 :]
        first = next((i for i in frames if "Current thread" in kept[i]), frames[0])
        before = kept[max(0, crash - _PLAIN_LINES) : crash + 1]
        return [*before, *kept[first : last + 1][:_MAX_LINES], *kept[last + 1 :]]
    rules = [i for i in range(max(0, len(kept) - _MAX_LINES), len(kept)) if _RULE.search(kept[i])]
    inside = sum(i >= start for i in rules) % 2 == 1
    return kept[max([i for i in rules if i < start], default=start) if inside else start :]


def _beside(kept: list[str], starts: list[int]) -> int:
    """Where a last traceback begins that Python prints as the program ends by the one before it; 0
    if it is another.
    """
    block = kept[starts[-2] if len(starts) > 1 else 0 : starts[-1]]
    header = next(
        (i for i, line in enumerate(block[-_BESIDE_LINES:]) if _BESIDE.search(line)), None
    )
    if header is None or not is_complete(block):
        return 0
    is_near = len(block) - _end_of_traceback(block) <= _BETWEEN + _BESIDE_LINES
    return starts[-1] - min(len(block), _BESIDE_LINES) + header if is_near else 0


def _is_of_starter(block: Sequence[str]) -> bool:
    """Whether a traceback is the report of a program that a process which it started failed."""
    if any(line.startswith(TORCHRUN_ERROR) for line in block):
        return True
    raised = find_exception(block)
    if raised is None or not is_of_launcher(raised):
        return False
    return bool(_STARTER.search(raised.raiser) or _REFERS.search(raised.text))


def _follows_another(lines: Sequence[str]) -> bool:
    """Whether the end of a rank's log is what another rank's failure causes, or says nothing."""
    found = known_causes(lines, 1, None)
    return all(each.code in _OF_ANOTHER or _STOPPED.search(each.message) for each in found)


def _other_failures(kept: list[str]) -> Iterator[list[str]]:
    """The tracebacks of ranks that share a log, in the order in which they begin.

    PyTorch marks the traceback that ends a rank as `[rank3]: `. Without marks, they are the
    tracebacks that follow each other at the end of the log.
    """
    ranks = dict.fromkeys(match[0] for line in kept if (match := _OF_RANK.match(line)))
    for mark in ranks:
        yield _last_failure([line for line in kept if line.startswith(mark)])
    if ranks:
        return
    starts = [i for i, line in enumerate(kept) if _begins_traceback(line)]
    together: list[list[str]] = []
    while len(starts) > 1:
        end = starts[-1]
        starts = starts[: starts.index(_first_of_chain(kept, starts))]
        if not starts:
            break
        block = kept[starts[-1] : end]
        if not is_complete(block) or len(block) - _end_of_traceback(block) > _BETWEEN:
            break
        together.append(kept[_first_of_chain(kept, starts) : end])
    yield from reversed(together)


def _end_of_traceback(block: list[str]) -> int:
    """The number of lines up to the exception that ends a traceback, without its continuation."""
    last = max(i for i, line in enumerate(block) if line.lstrip().startswith("File ") or i == 0)
    return next((i + 1 for i in range(last + 1, len(block)) if block[i][:1].strip()), len(block))


def has_traceback(lines: Iterable[str]) -> bool:
    """Whether a traceback of Python is among the lines."""
    return any(_TRACEBACK in line for line in lines)


def _is_noise(line: str) -> bool:
    return is_structured(line) or _NOISE.search(line) is not None


def _begins_traceback(line: str) -> bool:
    """Whether a traceback begins here that is not inside an exception group's traceback."""
    return _TRACEBACK in line and not _INSIDE_GROUP.match(line)


def _first_of_chain(lines: list[str], starts: list[int]) -> int:
    """The last traceback, with the tracebacks of its causes."""
    chosen = starts[-1]
    for start in reversed(starts[:-1]):
        between = "\n".join(lines[start:chosen])
        if not re.search(r"above exception was|During handling of the above", between):
            break
        chosen = start
    return chosen
