"""The exception that ended a program, from the end of its log: what was raised, and where.

It is the answer where no cause is known, so it covers what programs of a training print as they
end: tracebacks of Python with chains, groups and those of other processes, exceptions of C++,
panics of Rust, failed assertions, damaged heaps, and errors of shells.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple, Optional

from rsctl.runs.stream.advice import find_advice

_LONGEST = 300
_LONGEST_LINE = 4096
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^ *File \"[^\"]+\", line \d+")
_PREFIX = re.compile(
    r"(?:\[(?:rank|default)\d{1,6}\]: ?|std(?:err|out): ?"
    r"|\[\d{1,6},(?:mpirank:)?\d{1,6}(?:,[\w-]{1,40})?\]<std(?:err|out)>: ?"
    r"|\([\w=, -]{1,60}(?:\([\w-]{1,60}\) )?pid=\d{1,9}(?:, ip=[\da-fA-F.:\[\]]{2,50})?\) ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d) ?"
    r"|(?:[\w.-]{0,60}algo-\d{1,3}-\w{5}|[\w.-]{1,60}[-_]\d{1,4}) {1,9}\| ?"
    r"|\d{1,5}: ?(?=[A-Z ]|[a-z_]\w{0,60}\.|$))"
)
_BOX = re.compile(r"[\u2500-\u257f]")
_BOX_FRAME = re.compile(r" *(/[^:\n]{1,300}\.py):(\d{1,7}) in ([\w<>]{1,100})(?: |$)")
_HEADER = "Traceback (most recent call last):"
_MEMBER = re.compile(r" *\+[-+]{3,60} \d{1,4} -{3}")
_GROUP_MARGIN = re.compile(r" *(?:\| ?|\+[-+ ]*(?:\d{1,4} -+)?)")
_FRAME = re.compile(r'\s*File "([^"\n]{1,300})", line (\d{1,7})(?:, in ([^\n]{1,100}))?$')
_RAISED = re.compile(
    r"((?:[A-Za-z_]\w{0,60}\.){0,8}_?[A-Z]\w{0,80}"
    r"|(?:[A-Za-z_]\w{0,60}\.){1,8}[a-z]{0,8}(?:error|timeout))"
    r"(?: {0,40}: ?(.{0,4096}))?$"
)
"""An exception's line; ranks that write at the same time put spaces before its colon."""

_ENDS = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|Fault|Failed|Group)$"
)
_STATUS = re.compile(
    r"\.(?:[A-Z]\w{0,60})?(?:NotFound|Forbidden|Unauthorized|Denied|Exceeded|Exhausted|Unavailable"
    r"|Conflict|Refused|Expired|Closed|Aborted|Cancelled|Disconnected|Invalid\w{0,20}|Missing)$"
    r"|^omegaconf\.errors\."
)
"""Exceptions with their module whose names do not say that they are one."""

_IN_WORKER = re.compile(
    r"Caught (\w{1,80}) in (?:[\w ]{1,80} process|replica \d{1,4} on device \d.*\.$)"
)
_NOT_OWN = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<|/rsctl/(?:node|transport)/"
    r"|/torchinductor_|/torch/distributed/|/tensorflow_core/|/bin/[\w-]{1,80}$"
    r"|pyx$|pxi$"
)
_OF_PACKAGE = re.compile(r"(?:.*/(?:site|dist)-packages/|(?=[\w/]{1,200}\.p(?:yx|xi)$))(.+)")
_Frame = tuple[str, str, str, str]
"""The path, line, function and source of a frame of a traceback."""

_MISSING_TEXT = re.compile(r"\.{0,3}\s*$")
_RAISES = re.compile(r"\s*raise ((?:\w{1,60}\.){0,8}[A-Z]\w{0,80})\(f?([\"'])([^\n]{1,300}?)\2")
_PASSES_ON = re.compile(
    r"__getattr__ |(?:_(?:wrapped_)?call_impl|_?wrapper|wrapped(?:_f(?:u?nc|n))?|inner"
    r"|decorate_\w{1,30}) (?!raise |assert )"
)
"""The functions of packages, with the failed line, that only call another one, or look up a name,
for their caller.
"""

_FETCHES = "torch/utils/data/_utils/"
_NO_END = "its text is missing, as the log ends in its traceback"
_MOST_LINES = 8
_RECORD = re.compile(
    r"\[?\d{2,4}[-/:]\d\d[-/:]\d\d|[DIWEF]\d{4} |\[[DIWEF] ?\d{0,4} |\[?(?:ERROR|WARNING|WARN|INFO"
    r"|DEBUG|CRITICAL)\b|[\w.-]{1,40}: (?:error|warning|ERROR|WARNING)\b|[=\-*]{8}"
    r"|(?:[^|\n]{0,40}: )? {0,3}\d{1,3}%\|"
)
_MARKED = re.compile(
    r'([^"\n]{1,120}?)(?=Traceback \(most recent call last\)|  File "[^"\n]{1,300}", line \d)'
)
_DIGITS = re.compile(r"\d+")
_MOST_MARKS = 5
_NEAR_END = 40
_TOGETHER = 5
_ERROR_LINE = re.compile(
    r"(?:^|[\]\s])error: |(?:^|[\s\[(|>:])(?:ERROR|FATAL|CRITICAL|[Ff]atal(?: error)?"
    r"|E\d{4} [\d:.]{8,20})(?:[\]):| ]|$)"
    r"|^\s*(?:An? )?[Ee]rror(?:[: ]|$)|^Exception: "
    r"|(?:^|\s)[\w./+-]{1,60}: (?:fatal |internal )?[Ee]rror:? "
    r"|_ERROR_LOG: |\b[A-Z]\w{1,40}(?:Error|Exception)\b: |^\S{0,60}: (?:cannot|failed to) "
    r"|^(?:[\w. ]{1,40} )?[Ff]ailed (?:to |\d{1,3} times)|[Ff]ailed \d{1,3} times"
)
_BELOW_ERROR = re.compile(
    r"(?:\[[^\]]{1,20}\]:? ?|> )?(?:[DIW]\d{4} \d\d:\d\d:|\[W\d{0,4} (?!\S{1,30} TCPStore)"
    r"|\d{4}-\d\d-\d\d[ T][\d:.,]{8,20}:? [DIW] (?!tensorflow/core/framework/op_kernel)"
    r"| ?\[?(?:DEBUG|INFO|WARNING)\b|[Ww]arning: |xla_bridge\.py:\d"
    r"|libibverbs: Warning: couldn't load driver"
    r"|\S{1,300}\.py:\d{1,7}: \w{0,40}Warning: "
    r"|\[?\d{4}-\d\d-\d\d[ T][\d:.,]{5,20}Z?[\]\s|-]{1,5}"
    r"(?:\[?[\w.:]{1,80}[\]\s|-]{1,5}){0,5}\[?WARNING\b(?! {0,2}\| fairseq|\s+worker\.py))"
)
_HELP_MESSAGE = re.compile(r"(?m:^)-{60,80}\n((?:(?!-{60})[^\n]{0,200}\n){1,25})-{60,80}(?:\n|\Z)")
_NO_FAILURE = re.compile(
    r"(?i:warning|exitcode|no_other_failures|will be (?:used instead|ignored)|lower performance"
    r"|primary job|child job|mpirun (?:detected|noticed))"
)
_SENTENCE = re.compile(
    r"\b(?:must be|must have|cannot|can not|could not|couldn't|can't|unable to|not found"
    r"|does not exist|not supported|is required|is missing|[Ii]nvalid|[Aa]bort(?:ed|ing)"
    r"|[Dd]enied|[Rr]efused|(?:[Tt]raining|script|Script) (?:has )?failed"
    r"|Exception (?:during|while)"
    r"|[Pp]lease (?:set|specify|provide|give|use|choose|select|check|make|install))\b"
)
_NO_SENTENCE = re.compile(
    r"^bash: |^(?:For|To) |INFO|[Pp]lugin|[Ii]f |hook|help message|MCA parameter"
    r"|Setting|[Uu]sing|[Ff]alling back"
    r"|[Dd]efault|[Ii]gnor|[Pp]roceed|[Ss]kip|instead"
)
_LAST_LINES = 3
REFERS = (
    r"(?:[Ss]ee|[Cc]heck|[Ii]nspect)(?: above\b|\b[^.\n]{0,60}(?:previous error|above for\b"
    r"|for (?:the )?root cause|(?:cause|error|exception|failure|log|output|trace|traceback)s? above"
    r"|above (?:error|exception|failure|log|output|trace)))"
)
"""The words of an exception that refers to an error of another process, before it in the log."""

_NO_ERROR_LINE = re.compile(
    rf"{REFERS}"
    r"|[Ww]arning|WARN(?!.{0,40}ERROR)|NCCL INFO|[Rr]etrying|will retry|trying again"
    r"|\b[Ii]gnor(?:ing|ed)\b|\b[Ss]kipp(?:ing|ed)\b"
    r"|^\[?W\d{0,4}[ \]]|exit(?:ed|s)? ?(?:with|code)|exitcode"
    r"|dependency resolver does not|TrainingFailedError|RayTaskError\.as_|Trials did not complete"
    r"|restarting failed container|coredump_hook|crash data gathering"
    r"|Error executing job with overrides|failed to run torchrun|conda\.cli\.main_run"
    r"|return(?:ed)? (?:code|non-zero)|(?:slurmstepd|srun): |make(?:\[\d{1,3}\])?: \*\*\*"
    r"|Error caught was|, defaulting to|not a git repository|cannot set terminal process|elastic/"
    r"|\b(?:0|no|without) errors?\b"
    r"|[Ee]rror[_ ](?:rate|file|log)|^\s*at "
)
_PROSE = re.compile(r"\"[^\"]*\"|'[^']*'|#.*")
_MARKS = re.compile(r"[\s~^]*$")
_USER_CODE = "in user code:"
_BELOW_STACKS = re.compile(
    r"(?m:^)(?:encountered:|Error Message Summary:\n-{10,40})\n\s{0,4}"
    r"(\S[^\n]{0,400}(?:\n[^\n]{1,200})?)"
)
"""Where DALI and Paddle write what is wrong, below the stacks that they show first."""

_STACKS = ", which was used in the pipeline definition with the following traceback"
_MOST_STACKS = 300
_LISTS = re.compile(r"(?:[:,]|\d validation errors? for \S{1,120})\s*$")
"""A message that the next line continues: after a colon, a comma, or pydantic's count."""

_NATIVE = (
    re.compile(
        r"terminate called after throwing an instance of "
        r"(?!'std::exception'\s{1,20}what\(\): {1,4}std::exception)'([^'\n]{1,120})'"
        r"(?:\s{1,20}what\(\): {1,4}([^\n]{1,400}))?"
    ),
    re.compile(
        r"thread '([^'\n]{1,80})' (?:\(\d{1,9}\) )?panicked at ([^\n]{1,200}?):?\n([^\n]{1,300})"
        r"|thread '[^'\n]{1,80}' panicked at '([^\n]{1,300})', ([\w./-]{1,200}:\d{1,7})"
    ),
    re.compile(
        r"(?m:^)[^\n:]{1,120}: ([\w./+-]{1,200}:\d{1,7}): ([^\n]{1,300}?): "
        r"(Assertion [`'][^\n]{1,200}' failed)"
    ),
    re.compile(r"(Check failed: [^\n]{1,300})"),
    re.compile(
        r"(?m:^)(?:F\d{4} [\d:.]{8,25} {1,9}\d{1,15} |\d{4}-\d\d-\d\d [\d:.]{8,15}: F )"
        r"([^\s\]]{1,200}:\d{1,7}\] [^\n]{1,300})"
    ),
    re.compile(r"(Fatal Python error: (?!Segmentation|Aborted|Bus)[^\n]{1,160})"),
    re.compile(
        r"(double free or corruption[^\n]{0,40}|free\(\): [a-z ]{3,40}|malloc\(\): [a-z ]{3,60}"
        r"|malloc_consolidate\(\): [a-z ]{3,60}|realloc\(\): [a-z ]{3,60}"
        r"|corrupted (?:size vs\. prev_size|double-linked list)[^\n]{0,40}|munmap_chunk\(\): [a-z "
        r"]{3,40}"
        r"|\*\*\* stack smashing detected \*\*\*)"
    ),
)
_SHELL = re.compile(
    r"(?m:^)((?:[\w./-]{1,200}|(?:ba|da|z)?sh): (?:-c: )?(?:line )?\d{1,6}: (?!.{0,80}"
    r"(?:[Cc]ommand not found|not found$|Killed|Terminated))[^\n]{1,200}"
    r"(?:syntax error|unbound variable|No such file|bad substitution|parameter (?:null|not set)"
    r"|ambiguous redirect|numeric argument|too many arguments|unexpected)[^\n]{0,120})"
)


class Raised(NamedTuple):
    """An exception: its text in one line, the position in the program's own code as
    `train.py:9 in main`, whether only code of packages or native code is known, whether its
    traceback has no end, the file that raised it, the advice in its message, whether a data
    loader of torch called the code, or a package failed while the script imported it, the place
    in a package that raised it, the source of the line at `position` if that is the program's own
    code, and whether the line is in a handler of an earlier exception.
    """

    text: str
    position: Optional[str]
    is_native: bool = False
    is_cut: bool = False
    raiser: str = ""
    advice: str = ""
    is_of_data: bool = False
    is_importing: bool = False
    inside: str = ""
    call: str = ""
    is_handler: bool = False


def find_exception(lines: Sequence[str]) -> Optional[Raised]:
    """The exception of Python that ended the program; None if the lines contain none.

    Of a chain it is the last one with the first one as its origin; of a group its first member; of
    an exception that another process raised, or that was raised again, the place of the first.
    """
    whole = _whole_frames(unwrapped([line[:_LONGEST_LINE] for line in lines]))
    clean = _unmarked([_plain(line) for line in whole])
    chain = _raised(clean) or _without_traceback(clean)
    if not chain:
        return _cut_off(clean)
    is_group = ["sub-exception" in each.text for each in chain]
    if True in is_group and False in is_group[is_group.index(True) :]:
        chain = chain[: is_group.index(False, is_group.index(True)) + 1]
    same = [each for each in chain if each.text == chain[-1].text and is_own(each.position)]
    last, first = (same or chain[-1:])[0], chain[0]
    text = last.text
    if first.text != last.text and first.text.partition(":")[0] not in text:
        text = f"{text}; after {_short(first.text)}"
    placed = [each for each in (last, *reversed(chain)) if each.position] or [last]
    place = next((each for each in placed if is_own(each.position)), placed[0])
    return last._replace(
        text=text, position=place.position, call=place.call, is_handler=place.is_handler
    )


def find_native_error(lines: Sequence[str]) -> Optional[Raised]:
    """The error of native code or of a shell that ended the program; None if there is none."""
    text = "\n".join(line[:_LONGEST_LINE] for line in lines)
    for pattern in _NATIVE:
        if match := pattern.search(text):
            parts = [part.strip() for part in match.groups() if part]
            return Raised(_short(": ".join(parts)), None, is_native=True)
    if match := _SHELL.search(text):
        return Raised(_short(match[1]), None)
    return None


def is_below_error(line: str) -> bool:
    """Whether glog, TensorFlow or Python's logging marks a line as a warning or less.

    The operations that TensorFlow logs as failed, as warnings, do not count.
    """
    return _BELOW_ERROR.match(line) is not None


def find_error_line(lines: Sequence[str]) -> Optional[str]:
    """The first of the errors that the end of a log reports together, with the lines that
    continue it; None if its end reports none. Errors of launchers, which follow another, and
    warnings do not count.
    """
    near = [line for line in lines[-_NEAR_END:] if not is_below_error(line)]
    end = _unmarked([_plain(line[:_LONGEST_LINE]) for line in near])
    text = "\n".join(end) + "\n"
    for match in _HELP_MESSAGE.finditer(text):
        if not _NO_FAILURE.search(match[1]):
            return _short(match[1].split("\n\n")[0])
    end = _HELP_MESSAGE.sub("", text).splitlines()
    errors = [number for number, line in enumerate(end) if _reports_error(line)]
    if not errors:
        last = (line for line in end[-_LAST_LINES:] if _is_sentence(line))
        return next((_short(line) for line in last), None)
    first = errors.pop()
    while errors and first - errors[-1] <= _TOGETHER:
        first = errors.pop()
    text = end[first].strip()
    for line in end[first + 1 : first + _MOST_LINES]:
        if not line.strip() or _RECORD.match(line) or _reports_error(line):
            break
        text = f"{text} {line.strip()}"
    return _short(text)


def _is_sentence(line: str) -> bool:
    """Whether a line of a program says that something is wrong."""
    return bool(_SENTENCE.search(line)) and not (
        _NO_ERROR_LINE.search(line) or _RECORD.match(line) or _NO_SENTENCE.search(line)
    )


def _reports_error(line: str) -> bool:
    return _ERROR_LINE.search(line) is not None and not _NO_ERROR_LINE.search(line)


def unwrapped(lines: Sequence[str]) -> list[str]:
    """The lines with each message below a traceback of rich in one line, which rich wraps at the
    width of its box.
    """
    found: list[str] = []
    width = 0
    is_first = is_open = False
    for line in lines:
        bare = _PREFIX.sub("", line.rstrip(), count=1)
        if bare.startswith("\u2570"):  # the box ends
            width, is_open, is_first = len(bare), True, True
            found.append(line)
            continue
        if is_open and found[-1].rstrip() and not is_first:
            is_open = len(bare) >= width * 2 // 3 and len(found[-1]) < _LONGEST_LINE
            found[-1] = f"{found[-1].rstrip()} {bare}"
        else:
            is_open = is_open and len(bare) >= width * 2 // 3
            found.append(line)
        is_first = False
    return found


def _whole_frames(lines: Sequence[str]) -> list[str]:
    """The lines with each path of a traceback of rich in one line, which rich wraps, too."""
    found: list[str] = []
    path = ""
    for line in lines:
        bare = _PREFIX.sub("", line.rstrip(), count=1)
        content = _BOX.sub("", bare).strip() if bare.startswith("\u2502") else ""
        if path and content and len(path) < _LONGEST:
            path += (" " if path[-1].isdigit() else "") + content
            found[-1] = f"\u2502 {path}"
        else:
            path = content if content.startswith("/") else ""
            found.append(line)
        path = "" if _BOX_FRAME.match(path) else path
    return found


def _unmarked(lines: Sequence[str]) -> list[str]:
    """The lines without what a logger puts before each line of a traceback."""
    marks = dict.fromkeys(
        _DIGITS.sub(r"\\d+", re.escape(match[1]))
        for line in lines
        if (match := _MARKED.match(line)) and match[1].strip()
    )
    for mark in list(marks)[:_MOST_MARKS]:
        pattern = re.compile(mark)
        lines = [line[m.end() :] if (m := pattern.match(line)) else line for line in lines]
    return list(lines)


def is_complete(lines: Sequence[str]) -> bool:
    """Whether a traceback at the beginning of the lines ends with its exception."""
    return bool(_raised(_unmarked([_plain(line[:_LONGEST_LINE]) for line in lines])))


def without_marks(lines: Sequence[str]) -> list[str]:
    """The lines without the marks that launchers put before them, and loggers before a traceback's
    lines.
    """
    return _unmarked([_without_prefix(line) for line in lines])


def _without_prefix(line: str) -> str:
    line = line.rstrip()
    while match := _PREFIX.match(line):
        line = line[match.end() :]
    return line


def _plain(line: str) -> str:
    """A line without the marks that launchers, groups and terminals put before it."""
    line = _without_prefix(line)
    if _BOX.search(line[:3]):  # a traceback of rich
        line = _BOX.sub("", line)
        return _box_frame(line)
    if _MEMBER.match(line):
        return _HEADER
    margin = _GROUP_MARGIN.match(line)
    return line[margin.end() :] if margin and line.lstrip()[:1] in "|+" else line


def _box_frame(line: str) -> str:
    """A line of a traceback in a box as Python writes it, if it names a frame."""
    match = _BOX_FRAME.match(line)
    return f'  File "{match[1]}", line {match[2]}, in {match[3]}' if match else f"  {line.strip()}"


def _without_traceback(lines: Sequence[str]) -> list[Raised]:
    """The last line that has the form of an exception, of a log without its traceback."""
    for number, line in reversed(list(enumerate(lines))):
        match = _RAISED.match(line) if not line.startswith(("Error:", "Exception:")) else None
        is_named = match and (_ENDS.search(match[1]) or _STATUS.search(match[1]))
        if match and match[2] and is_named and not match[1].endswith("Warning"):
            following = lines[number + 1 : number + 1 + _MOST_LINES]
            text = _whole_text(line, following)
            return [Raised(_short(text), None, advice=find_advice(text))]
        if asserted := _asserted(line, lines[:number]):
            return [Raised(_short(f"AssertionError: {asserted}"), None)]
    return []


def _raised(lines: Sequence[str]) -> list[Raised]:
    """The exceptions of all tracebacks in the order of the lines."""
    found: list[Raised] = []
    frames: list[_Frame] = []
    inside, depth = False, 1
    is_handler = False
    for number, line in enumerate(lines):
        if "Traceback (most recent call last)" in line:
            inside, frames, depth = True, [], _indent(line) + 1
        elif "he above exception" in line:
            is_handler = True
        elif match := _FRAME.match(line):
            inside, depth = True, max(1, _indent(line))
            source = "".join(lines[number + 1 : number + 2])
            is_source = _indent(source) > _indent(line) and not _FRAME.match(source)
            frames.append((match[1], match[2], match[3] or "", source.strip() * is_source))
        elif inside and _indent(line) < depth and (match := _RAISED.match(line.lstrip())):
            kind, message = match[1], match[2] or ""
            if not (_ENDS.search(kind) or frames):
                continue
            following = _dedented(lines[number + 1 : number + 1 + _MOST_LINES], _indent(line))
            position, call = _position(frames)
            if in_worker := _IN_WORKER.match(message):
                kind, message = in_worker[1], ""
                inside = True  # its own traceback follows
                found.append(Raised(kind, position, call=call))
                continue
            message = _of_user_code(message, lines[number + 1 :])
            if not message.strip() or _MISSING_TEXT.fullmatch(message):
                message = _next_text(following, has_colon=match[2] == "")
                message = message or _asserted(kind, lines[:number])
            else:
                message = _whole_text(message, following)
            message = _with_summary(message, lines[number + 1 : number + 1 + _MOST_STACKS])
            text = _short(f"{kind}: {message}" if message else kind)
            while len(frames) > 1 and _passes_on(*frames[-1]):
                frames.pop()
            found.append(
                Raised(
                    text,
                    position,
                    raiser=frames[-1][0] if frames else "",
                    advice=find_advice(message),
                    is_of_data=any(_FETCHES in path for path, *_ in frames),
                    is_importing=_is_importing(frames),
                    inside=_inside(frames),
                    call=call,
                    is_handler=is_handler,
                )
            )
            inside, frames, is_handler = False, [], False
    return found


def _passes_on(path: str, _: str, function: str, source: str) -> bool:
    return not is_own(path) and _PASSES_ON.match(f"{function} {source}") is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedented(lines: Sequence[str], indent: int) -> list[str]:
    """The lines without the indentation of the exception that they follow."""
    return [line if line[:indent].strip() else line[indent:] for line in lines]


def without_prose(lines: Sequence[str]) -> list[str]:
    """The lines without the sentences and comments in a traceback's source code: these name errors
    that did not occur.
    """
    found, depth = [], 0
    for line in lines:
        if _FRAME.match(line):
            depth = _indent(line) + 1
        elif depth and line.strip() and _indent(line) >= depth:
            line = _PROSE.sub(lambda part: "" if " " in part[0] else part[0], line)
        else:
            depth = 0
        found.append(line)
    return found


def _is_importing(frames: Sequence[_Frame]) -> bool:
    """Whether a module of a package failed while another module imported it."""
    functions = [function for _, _, function, _ in frames]
    is_import = ("<module>", "<module>") in itertools.pairwise(functions)
    return is_import and _NOT_OWN.search(frames[-1][0]) is not None


def _of_user_code(message: str, following: Sequence[str]) -> str:
    """The message of the exception that Keras shows, indented, below its own "in user code:"."""
    if message.strip().lower() != _USER_CODE:
        return message
    own = itertools.takewhile(lambda line: not line.strip() or line[:1].isspace(), following)
    raised = [match[2] for line in own if (match := _RAISED.match(line.strip())) and match[2]]
    return raised[-1] if raised else message


def _with_summary(message: str, following: Sequence[str]) -> str:
    """The message of Paddle, which is below its stacks, and of DALI, which continues below them."""
    before, stacks, _ = message.partition(_STACKS)
    if message and not stacks:
        return message
    match = _BELOW_STACKS.search("\n".join(following))
    summary = " ".join(match[1].split()) if match else ""
    return ": ".join(filter(None, (before, summary)))


def _next_text(lines: Sequence[str], has_colon: bool) -> str:
    """The first words of a message that begins on the next line."""
    for line in lines[:3]:
        if line.strip() and not line.startswith("Traceback") and not _FRAME.match(line):
            is_more = line[:1].isspace() or (has_colon and not _RECORD.match(line))
            return line.strip() if is_more else ""
    return ""


def _asserted(kind: str, before: Sequence[str]) -> str:
    """The condition of an assertion without a text, which stands above the exception."""
    source = (line.strip() for line in reversed(before[-2:]) if not _MARKS.fullmatch(line))
    line = next(source, "") if kind == "AssertionError" else ""
    return line if line.startswith("assert ") else ""


def _whole_text(message: str, following: Sequence[str]) -> str:
    """A message with the lines that continue it: indented ones, those between them, and what
    stands after a colon, a comma, or pydantic's count of errors, at its end.
    """
    parts = [message]
    for line, after in zip(following, (*following[1:], ""), strict=False):
        if not line.strip() or "Traceback" in line or _FRAME.match(line) or _RECORD.match(line):
            break
        is_between = len(parts) > 1 and after[:1].isspace() and after.strip() != ""
        if not (line[:1].isspace() or is_between or _LISTS.search(parts[-1])):
            break
        parts.append("" if _MARKS.fullmatch(line) else line.strip())
    return " ".join(filter(None, parts))


def _cut_off(lines: Sequence[str]) -> Optional[Raised]:
    """A traceback without its exception, at the end of a log that ends in it."""
    starts = [number for number, line in enumerate(lines) if _HEADER in line]
    if not starts and any(_FRAME.match(line) for line in lines[-_LAST_LINES:]):
        starts = [0]  # its head is missing, too
    elif not starts:
        return None
    frames = [match for line in lines[starts[-1] :] if (match := _FRAME.match(line))]
    if not frames:
        return None
    position, _ = _position([(m[1], m[2], m[3] or "", "") for m in frames])
    last = next(line for line in reversed(lines) if line.strip())
    if asserted := _asserted("AssertionError", [last]):
        return Raised(f"AssertionError: {asserted}", position)
    if raises := _RAISES.match(last):
        return Raised(f"{raises[1]}: {raises[3]}", position)
    return Raised(_NO_END, position, is_cut=True, raiser=frames[-1][1])


def is_own(place: Optional[str]) -> bool:
    """Whether a path, or a position, is in the program's own code."""
    return place is not None and _NOT_OWN.search(place.partition(":")[0]) is None


def _position(frames: Sequence[_Frame]) -> tuple[Optional[str], str]:
    """The last frame in the program's own code, and its source; otherwise the last frame alone."""
    own = [frame for frame in frames if is_own(frame[0])]
    if not frames:
        return None, ""
    path, line, function, source = (own or frames)[-1]
    return _place(path, line, function), source if own else ""


def _inside(frames: Sequence[_Frame]) -> str:
    """The last frame, from the folder of its package on; empty if it is not in a package."""
    match = _OF_PACKAGE.match(frames[-1][0]) if frames else None
    return _place(match[1], *frames[-1][1:3]) if match else ""


def _place(path: str, line: str, function: str) -> str:
    name = f" in {function}" if function and function != "<module>" else ""
    return f"{path}:{line}{name}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
