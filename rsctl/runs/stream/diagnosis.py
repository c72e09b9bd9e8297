"""The diagnosis of a failed replica from its log: the known causes of its failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from rsctl.findings import Finding, note
from rsctl.known_errors import KnownError, find_known_error, find_known_errors
from rsctl.runs.stream.accelerator_causes import HARMLESS_WARNING
from rsctl.runs.stream.advice import advised, find_advice
from rsctl.runs.stream.causes import CAUSES, GENERAL_CAUSES
from rsctl.runs.stream.cluster_causes import MODULE_CAUSES, PLATFORM_CAUSES, SETUP_CAUSES
from rsctl.runs.stream.end_causes import REPORT_CAUSES, SIGNAL_CAUSES, first_report
from rsctl.runs.stream.ends import LOST_PEER, Killer, signal_name
from rsctl.runs.stream.exception_kinds import (
    ASSERTED,
    EXCEPTION_KINDS,
    IMPORT_KIND,
    OWN_CHECK,
    OWN_KINDS,
    PACKAGE_FAILED,
    PACKAGE_REFUSED,
    PLAIN_KINDS,
    REFUSED,
    SAMPLE_KIND,
    UNKNOWN,
)
from rsctl.runs.stream.exceptions import (
    REFERS,
    Raised,
    find_error_line,
    find_exception,
    find_native_error,
    is_below_error,
    is_own,
    unwrapped,
    without_marks,
    without_prose,
)
from rsctl.runs.stream.gpu_causes import NCCL
from rsctl.runs.stream.memory_causes import DATA_WORKER, LESS_MEMORY
from rsctl.runs.stream.message_kinds import MESSAGE_KINDS
from rsctl.runs.stream.nccl_kinds import NCCL_KINDS
from rsctl.runs.stream.raiser_kinds import PLACES
from rsctl.runs.stream.script_causes import SCRIPT_CAUSES

_LAUNCHER = "torch/distributed/"
TORCHRUN_ERROR = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
"""How torchrun's report of a failed rank begins."""

_LONGEST_LINE = 4096
_MOST_TEXT = 200_000  # characters: all rules together take about a second for each 100,000
_SHORT_LINE = 200
_LONGEST_CALL = 80
_SCRIPT_LINE = "the script's line in the traceback"  # of the remedies
_SCRIPT = "the script"
_SETTINGS = f"{_SCRIPT}, its configuration or run.args"
_END_OF_PACKAGE = re.compile(r"[/.]|-\d")  # apex-0.1-py3.8.egg/apex
_EARLIER = "an earlier error of its log may be the reason: "
_LONGEST_ERROR = 1024
_MOST_ERRORS = 60
_RETRIED = re.compile(
    r"\(ignored\)\s*$|^(?:[^\n]{0,60}[|\]:] {0,2})?[Ss]kipping [^\n:]{1,200}: "
    r"|Retrying \(Retry\(|[Rr]etrying (?:in \d|after |because )"
    r"|thrown while requesting [A-Z]{3,6} |\b[Ss]kipping [^\n:]{1,200} because "
    r"|retryable exception: |^(?:[^\n]{0,60}[|\]:] {0,2})?[Ii]gnor(?:ing|ed) |, skipped: "
)
"""A failure that the program survived: a request that it made again raises an exception if the last
one fails, too.
"""
_EFFECTS = frozenset(
    {NCCL, LOST_PEER, DATA_WORKER, "container-start", "gpu-start", "mpi-call", "mpi-daemons"}
    | {"pipe", "ray-worker"}
)
_STRONGER = frozenset({"disk", "memory", "node-lost", "shared-memory"})
"""The causes that end a program although it logged an exception before."""

_GENERAL = frozenset({"exception", "setting"})
_MORE = re.compile(
    r"(?!terminate called |double free |Segmentation |Exception |\d)[\w@.'\"<`-]{1,80} \w"
)
"""A line that may continue the message of an exception of a general kind."""

_CONTINUED = re.compile(
    r"\b(?:[Ss]tep|[Ee]poch|[Ii]ter(?:ation)?|[Ll]oss)s?\W{1,4}\d|Check failed|Assertion "
    r"|\b(?:[Rr]eceived|[Cc]aught|Got|got) (?:signal )?(?:15\b|SIG(?:TERM|USR))"
)
"""A line that a program writes which survived its exception, or a check of native code."""

_CUDA_CODE = re.compile(
    r"(?:(?i:CUDA (?:driver|runtime) error)|Triton Error \[\w{3,4}\](?!: invalid arg)"
    r"|\bcudaError[A-Z]\w{1,60}"
    r"|CUDA_ERROR_\w{1,60}): (?=\w)"
)
"""The words of CuPy, Triton, XLA and TensorFlow before the text of an error of CUDA."""

_NO_GPU = "failed call to cuInit: "
"""TensorFlow's search for a GPU in its log: it continues on the CPU."""

_OF_GPU = re.compile(r"(?i:gpu|cuda|device)")
_SPAWNED = r"ProcessRaisedException: [^\n]{0,80}following error:?$"
"""The report on a process of torch.multiprocessing, if its own traceback is missing."""

_REFERRING = rf"\w{{1,80}}: [^\n]{{0,200}}{REFERS}"

_VAGUE = re.compile(
    rf"(?:[\w.]{{0,100}}\.)?(?:{_SPAWNED}|{_REFERRING}|CalledProcessError|ChildFailedError"
    r"|SystemExit|ProcessExitedException"
    r"|TrainingFailedError|TuneError|TypeError: RayTaskError\.|DistBackendError"
    r"|AcceleratorError|DatasetGenerationError|CancelledError|[^\n]{0,200}ExecuteUserScriptError"
    r"|RuntimeError: The following operation failed in the TorchScript interpreter"
    r"|ValueError: Not able to read records in the JSON file"
    r"|[\w.]{1,80}Error: Graph execution error|AssertionError(?:: assert |$))"
)
_OWN_END = re.compile(r"AssertionError|(?:subprocess\.)?CalledProcessError")
_A_FRAME = re.compile(r"File \"[^\"\n]{1,300}\", line \d|\u2502")
"""A frame of a traceback, or a line in the box that rich draws around one."""

_MOST_ENDS = 32
_AT_EXIT = frozenset({"SIGABRT", "SIGSEGV"})
_SENT = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"})
_OF_LAUNCHER = re.compile(
    rf"(?:[\w.]{{0,100}}\.)?(?:{_SPAWNED}|{_REFERRING}|ChildFailedError|SystemExit"
    r"|ProcessExitedException|TrainingFailedError|TuneError|TypeError: RayTaskError\."
    r"|CalledProcessError: Command \W{0,3}[^' ]{0,200}(?:python[\d.]{0,5}|torchrun|accelerate"
    r"|deepspeed|mpirun|mpiexec|srun|bash|sh)(?:\.exe)?[' ])"
)
_ERROR = re.compile(
    r"NCCL WARN|[Ee]rror|ERROR|FATAL|CRITICAL|NVRM|[Ff]ailed|Assertion|terminate called|panicked"
    r"|[Cc]annot|[Rr]efused|[Dd]enied|[Cc]ould not|[Cc]ouldn't|[Uu]nable|not found|Not found"
    r"|No such|got completion with|[Kk]illed|application crash on|OOM|oom[_-]kill|exceeded"
    r"|\d: E [a-z]\w{1,30}/|[Dd]isconnected|[Ll]ost (?:contact|connection|communication)"
    r"|[Aa]borted|[Mm]ismatch|\b(?:died|dead)\b"
)
_NCCL_WARNING = re.compile(
    rf"(?:NCCL|\.(?:cu|cc|h):\d{{1,5}}) WARN (?!{HARMLESS_WARNING})([^\n]{{1,160}})"
)
_LOGGED = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL)\b[^\n]{0,60}?[\]:\s|-](?=(?:\w{1,40}\.){0,8}[A-Z]\w{1,60}Error: )"
)
"""Marks that a logger puts before the text of an exception."""

_NCCL_LAST_ERROR = re.compile(r"Last error:\s{0,9}\n(?:\[rank\d+\]: )?([^\n]{1,160})")
_WARNING = re.compile(r"^\[?W\d{0,4}[ \]]|[Ww]arning|WARNING|NCCL INFO|[Rr]etry")
_LINK = frozenset(
    {"certificate", "clock", "tls", "name-resolution", "proxy", "ssh-nodes"}
    | {"service-unavailable", "hub-limit"}
)
_EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "network": _LINK | {"cloud-call", "download", "git", "requirements"},
    "certificate": frozenset({"clock", "download", "git", "requirements"}),
    "connection-lost": _LINK | {"network", "download", "git", "requirements"},
    LOST_PEER: frozenset({"container-image", "download", "git"}),
    "ssh-nodes": frozenset({"git"}),
    "configuration": frozenset({"arguments"}),
    "command": frozenset({"container-engine", "git", "gpu-container"}),
    "gpu-container": frozenset({"driver"}),
    "hub-access": frozenset({"hub-write"}),
    "ray-worker": frozenset({"node-lost"}),
    "tls": frozenset({"certificate", "clock"}),
    "credentials-invalid": frozenset({"clock", "credentials"}),
    "container-storage": frozenset({"container-image", "mount"}),
    "storage-denied": frozenset({"credentials"}),
    "checkpoint-mismatch": frozenset({"sharded-tensor"}),
    "collate": frozenset({"checkpoint"}),
    "data-file": frozenset({"file-lock"}),
    "disk": frozenset({"shared-memory"}),
    "file-missing": frozenset({"file-lock", "checkpoint-missing"}),
    "shared-memory": frozenset({"shared-memory-denied"}),
    "file-permission": frozenset({"container-image", "shared-memory-denied"}),
    "mpi-start": frozenset({"mpi-folder", "mpi-pmi"}),
    "mpi-call": frozenset({"mpi-daemons", "mpi-network", "mpi-pmi", "mpi-start", "mpi-version"}),
    "container-start": frozenset(
        {"container-image", "container-mount", "container-storage", "container-engine"}
        | {"container-cgroup", "container-network", "user-namespaces"}
    ),
    "slurm-launch": frozenset({"slurm-credential"}),
    "start-method": frozenset({"pickle"}),
    "slurm-request": frozenset({"slurm-credential"}),
    "neuron-compile": frozenset({"library"}),
    "neuron-load": frozenset({"neuron-memory"}),
    "neuron-run": frozenset({"neuron-device", "neuron-load", "neuron-memory"}),
    "pipe": frozenset({"tracker-failed", DATA_WORKER, "memory", "shared-memory", "disk"}),
    "module": frozenset({"module-name"}),
    "toolkit-program": frozenset({"module", "module-name"}),
    "nccl-ib": frozenset({"locked-memory"}),
    "ucx": frozenset({"locked-memory"}),
    "binary": frozenset({"gpu-libraries"}),
    "gpu-fault": frozenset({"gpu-start", "gpu-hardware"}),
    "gpu-start": frozenset({"gpu-libraries"}),
    "compile": frozenset({"gpu-binary"}),
    "library": frozenset({"gpu-container"}),
    "tensor-shape": frozenset({"checkpoint-mismatch"}),
    "hub-version": frozenset({"module"}),
    "nccl-network": frozenset({"tcpx"}),
    NCCL: frozenset({"gpu-memory", "tcpx"}),
}
"""The causes that explain each cause, and replace it."""
_MISSING = {"module", "command"}
_WITHOUT_COMMAND = frozenset({126, 127})
_FAULT_HANDLER = (
    "set PYTHONFAULTHANDLER=1 in run.env: the log then contains the position of the crash"
)
_ENDINGS: Mapping[int | str, Finding] = {
    "SIGSEGV": note("crash", "native code crashed", _FAULT_HANDLER),
    "SIGABRT": note(
        "abort",
        "native code aborted (SIGABRT), as after a failed assertion or a watchdog's timeout",
        f"see the last lines of the log; {_FAULT_HANDLER}",
    ),
    "SIGFPE": note("crash", "native code divided by zero or overflowed (SIGFPE)", _FAULT_HANDLER),
    "SIGALRM": note(
        "signal",
        "a timer that the program had set ended it (SIGALRM)",
        "look for signal.alarm or setitimer in the script and its packages: give it more time, or "
        "find out what took so long",
    ),
    124: note(
        "signal",
        "the command `timeout` ended the program at its limit (exit code 124)",
        "raise the limit of `timeout` in run.command, or let the program end before: fewer steps",
    ),
    2: note(
        "arguments",
        "the program ended with exit code 2, as parsers of command lines do for invalid arguments",
        "see the end of its log, and correct run.args; Python gives it too for a file that does "
        "not exist",
    ),
    128: note(
        "start",
        "the container could not be started",
        "check run.command, and that the image contains it and is for the machine's architecture",
    ),
    126: note(
        "executable",
        "a command is not executable, or a folder (exit code 126)",
        "make it executable (`chmod +x`), or start it with its interpreter; check that it is for "
        "the machine's architecture",
    ),
    127: note(
        "command",
        "a command was not found (exit code 127)",
        "correct run.command, or install the program: in the image, or on this machine",
    ),
}
"""The cause that a signal or an exit code alone shows.

126 and 127 come from a shell and from container engines; 128 comes from a container that did not
start on Vertex AI (StartError).
"""


_CONDITION = re.compile(r"[Cc]heck failed|Assert|^(?:\w{1,60}::){1,4}\w{1,60}: ")
_OF_CONDITION = "compare the condition with the program's settings and data"
_OF_NATIVE = (
    "look for the package that it comes from: its version must fit the packages that use it, and "
    "the driver of the GPU or TPU"
)
_MINUS_ONE = 255
_EXIT = note(
    "exit",
    "the program ended with exit code 255, as after sys.exit(-1), and its log does not say why",
    "print the reason where the program exits, such as at exit(-1); in a shell script, `set -x` "
    "prints the last command; ssh ends so if it cannot connect",
)
"""The cause of a failure with this exit code that has no other one."""


def known_causes(
    lines: Sequence[str],
    exit_code: int,
    signal: str | None,
    killer: Killer | None = None,
    reported: Sequence[str] = (),
    earlier: Sequence[str] = (),
) -> list[Finding]:
    """Known causes of a failure, the most specific first, each with a remedy.

    `reported` is the target's own error text about the replica. It counts if `lines`, the end of
    the log, have no known cause: a container that never started has no log. A SIGKILL says more
    than a text that only names who has reported an error. The errors among the `earlier` lines of
    the log count if `lines` say only that something failed. Where no cause is known, the exception
    that ended the program is one.
    """
    raised = find_exception(lines)
    if raised and not _OF_GPU.search(raised.text + raised.call):
        lines, earlier = ([each for each in of if _NO_GPU not in each] for of in (lines, earlier))
    killer = killer or Killer()
    ended_by = signal or signal_name(exit_code - 128)  # as in shells and container engines
    if end := _end_of_exception(lines, exit_code, ended_by):
        found = known_causes(lines[:end], 1, None, killer, reported, earlier)
        is_general = any(each.code in _GENERAL for each in found)
        is_open = is_general and _MORE.match("".join(lines[end : end + 1]))
        if not is_open and not any(map(_is_effect, found)):
            return found
    texts = [_text(lines), _text(reported)]
    whole = earlier or lines
    whole_text = _text(earlier) if earlier else texts[0]
    if ended := _causes(PLATFORM_CAUSES, whole_text):
        return ended
    found = [_ended_by(killer.command)] if killer.command else []
    found += _first_causes([CAUSES], texts)
    if killer.out_of_memory and any(each.code == DATA_WORKER for each in found):
        found.insert(0, _sigkill(True, False))
    if found and all(map(_is_effect, found)):  # the reason stands before them
        found = _causes(CAUSES, _errors_in(earlier)) or found
    found = _most_specific(found, exit_code)
    is_vague = _is_vague(raised)
    if not {each.code for each in found}.isdisjoint(_MISSING) or not found:
        tables = SETUP_CAUSES if not found and not is_vague else (*SETUP_CAUSES, *MODULE_CAUSES)
        found = _causes(tables, whole_text) + found
    if found:
        return _with_warning(found, whole)
    signal = ended_by
    if signal == "SIGKILL" or killer.out_of_memory:
        return [_sigkill(killer.out_of_memory, signal == "SIGKILL")]
    found = _first_causes([SCRIPT_CAUSES], texts)
    found = [_advised(each) if each.code == "compile" else each for each in found]
    found = _most_specific(found, exit_code)
    if not found and is_vague:
        errors = _errors_in(earlier)
        found = _most_specific(_first_causes([CAUSES, SCRIPT_CAUSES], [errors]), exit_code)
        texts.append(errors)
        if _ends_by_itself(raised, whole):
            found = [note(each.code, f"{_EARLIER}{each.message}", each.remedy) for each in found]
    general = _first_causes([GENERAL_CAUSES], texts)
    if not is_vague or (raised and raised.text.startswith("AssertionError")):
        general = [each for each in general if each.code != "script-failed"]
    found = found or [_advised(each) for each in general[:1]]
    found = [note(each.code, each.message, _at_line(each.remedy, raised)) for each in found]
    known = _ENDINGS.get(signal or exit_code) or next(
        iter(_causes(SIGNAL_CAUSES, f"<Signals.{signal}:")), None
    )
    found = _with_warning(found, whole) or _unknown(lines, reported, earlier, signal, known)
    return found or _ended_from_outside(signal) or ([_EXIT] if exit_code == _MINUS_ONE else [])


def _end_of_exception(lines: Sequence[str], exit_code: int, signal: str | None) -> int:
    """The number of lines up to the end of a clear exception of Python that ended the program, if
    other lines follow or it crashed at its end: lines that are only logged then are not the cause.

    0 without one, or if the lines behind it show that the program continued, or that the node was
    lost or had no memory or disk space left.
    """
    raised = find_exception(lines)
    if raised is None or not raised.raiser or _is_vague(raised) or is_of_launcher(raised):
        return 0
    last = max((n for n, line in enumerate(lines) if _A_FRAME.search(line)), default=len(lines))
    ends = (n for n in range(last + 2, len(lines)) if not lines[n][:1].isspace())
    near = islice(ends, _MOST_ENDS)
    end = next((n for n in near if find_exception(lines[:n]) == raised), len(lines))
    behind = lines[end:]
    is_sent = signal in _SENT  # it may have survived the exception, or not ended after it
    is_last = not behind and signal not in _AT_EXIT
    is_survived = exit_code != 1 and any(map(_CONTINUED.search, behind))
    if is_sent or is_last or is_survived or raised.text.startswith("KeyboardInterrupt"):
        return 0
    codes = {each.code for each in _causes(CAUSES, _text(behind))}
    return 0 if codes & _STRONGER else end


def _is_effect(cause: Finding) -> bool:
    """Whether a cause has an earlier one; a data loader's worker that was killed says it itself."""
    return cause.code in _EFFECTS and not cause.message.endswith(": Killed")


def _most_specific(found: list[Finding], exit_code: int) -> list[Finding]:
    """The causes without those that another one explains, and without a command that was not found
    while the script continued.
    """
    codes = {each.code for each in found}
    once = {each.code: each for each in reversed(found)}  # the first of each code
    kept = [
        each
        for each in found
        if once[each.code] is each and not codes & _EXPLAINED_BY.get(each.code, frozenset())
    ]
    kept.sort(key=lambda each: each.code in _EFFECTS)
    if exit_code in _WITHOUT_COMMAND:
        return kept
    return [each for each in kept if each.code != "command"] or kept


def _with_warning(found: list[Finding], lines: Iterable[str]) -> list[Finding]:
    """The causes; NCCL's failure with its first warning, and as the only cause with the cause and
    the remedy of that kind of warning.
    """
    of_nccl = next((each for each in found if each.code == NCCL), None)
    reason = _nccl_reason(lines) if of_nccl else None
    if of_nccl is None or reason is None:
        return found
    line, said = reason
    kind = find_known_error(NCCL_KINDS, line) if len(found) == 1 else None
    code, message, remedy = of_nccl.code, of_nccl.message, of_nccl.remedy
    if kind is not None:
        code, message, remedy = kind.code, kind.summary or message, kind.remedy
    told = note(code, f"{message}: {said}", remedy)
    return [told if each is of_nccl else each for each in found]


def _nccl_reason(lines: Iterable[str]) -> tuple[str, str] | None:
    """The line and the text of NCCL's first warning, or of the error that PyTorch repeats."""
    lines = [line[:_LONGEST_LINE] for line in lines]
    for line in lines:
        if match := _NCCL_WARNING.search(line):
            return line, match[1]
    match = _NCCL_LAST_ERROR.search("\n".join(lines))
    return (match[1], match[1]) if match else None


def _unknown(
    lines: Sequence[str],
    reported: Sequence[str],
    earlier: Sequence[str],
    signal: str | None,
    known: Finding | None,
) -> list[Finding]:
    """The end of a program for which no cause is known: an error of native code, the exception
    that Python raised, or only the way it ended.
    """
    native = find_native_error(lines) or find_native_error(reported)
    if signal == "SIGABRT":
        native = native or find_native_error(earlier)
    raised = find_exception(lines) or find_exception(reported)
    if native and not (raised and native.text in raised.text):
        return [_native(native, known)]
    if _is_vague(raised):
        raised = find_exception(_before_torchrun(earlier)) or raised
    is_launcher = raised is not None and is_of_launcher(raised)
    report = first_report(earlier or lines)
    ended = _causes(SIGNAL_CAUSES, report)[:1] if is_launcher or raised is None else []
    if ended and known is None:
        return ended
    is_shown = raised and signal is None and (raised.position or not (known or reported))
    if raised and is_shown and not is_launcher:
        return [_exception(raised)]
    is_limit = known is _ENDINGS[124]
    is_guess = known is None or known.code == "arguments" or is_limit
    error = find_error_line(earlier or lines) if is_guess and not signal else None
    if error and (logged := _LOGGED.search(error)):
        return known_causes([error[logged.end() :]], 1, None)
    told = [_error(error)] if error else []
    if known and (is_limit or not told):
        told.append(known)
    if told:
        return told
    ended = _causes(REPORT_CAUSES, report)[:1]
    return ended or ([_exception(raised)] if raised and is_shown else [])


def _error(text: str) -> Finding:
    kind = find_known_error(MESSAGE_KINDS, text)
    told = kind and kind.fill(call=_SCRIPT, where=_SETTINGS, package="the program")
    remedy = told.remedy if told and told.remedy else "correct what it names"
    return note(
        "error",
        f"the log reports an error near its end: {text}",
        advised(f"{remedy}; `rsctl logs RUN` shows the lines around it", find_advice(text)),
    )


def _before_torchrun(lines: Sequence[str]) -> Sequence[str]:
    """The lines before torchrun's own traceback; none if there is none."""
    ends = [number for number, line in enumerate(lines) if line.startswith(TORCHRUN_ERROR)]
    starts = [n for n, line in enumerate(lines[: ends[-1]]) if _LAUNCHER in line] if ends else []
    return lines[: starts[0]] if starts else []


def _advised(found: Finding) -> Finding:
    """A cause with the advice in the part of the error that it repeats."""
    remedy = advised(found.remedy or "", find_advice(found.message))
    return note(found.code, found.message, remedy)


def _exception(raised: Raised) -> Finding:
    where = f", at {raised.position}" if raised.position else ""
    if raised.inside and not where.endswith(raised.inside):
        where += f"; raised at {raised.inside}"
    kind = _kind_of(raised)
    remedy = advised(_at_line(kind.remedy, raised) or "", raised.advice)
    return note(kind.code, f"{kind.summary}: {raised.text}{where}", remedy)


def _kind_of(raised: Raised) -> KnownError:
    """The kind of an exception; a general one names the package and the script's call, or the
    script's own check.
    """
    kind = next(find_known_errors(EXCEPTION_KINDS, raised.text, source=raised.raiser))
    if raised.is_of_data and kind.code in PLAIN_KINDS:
        return SAMPLE_KIND
    if raised.is_importing and kind.code in PLAIN_KINDS:
        return IMPORT_KIND
    settings = find_known_error(PLACES, raised.text, source=raised.raiser)
    checks = "assert " if kind is UNKNOWN else ("raise ", "assert ")
    is_check = not (raised.is_handler or raised.inside) and raised.call.startswith(checks)
    is_general = kind in (REFUSED, UNKNOWN)
    is_of_value = kind in MESSAGE_KINDS and kind.code in ("setting", "package-versions")
    if is_general and (settings or (raised.inside and kind is REFUSED)):
        kind = PACKAGE_REFUSED
    elif raised.inside and (kind in (ASSERTED, UNKNOWN) or kind.code == "name-undefined"):
        kind = PACKAGE_FAILED
    elif is_check and not settings and (is_general or is_of_value):
        kind = OWN_CHECK
    elif kind is UNKNOWN:
        kind = find_known_error(OWN_KINDS, raised.text) or kind
    package = _END_OF_PACKAGE.split(raised.inside)[0]
    place = raised.position or ""
    call = raised.call + "..." * raised.call.endswith("(")
    call = f"`{call}`" if 0 < len(call) <= _LONGEST_CALL else "the line"
    call = f"{call} at {place}"
    if not is_own(raised.position):
        call = f"the call of {package}" if package else _SCRIPT
    where = f"{call}, or the settings and data behind it"
    if call == _SCRIPT:
        where = _SETTINGS
    if settings:
        where = f"{call}, or {settings.remedy}"
    user = package if raised.inside else _SCRIPT
    values = {"call": call, "place": place, "where": where, "user": user}
    kind = kind.fill(raised.text, package=package or "the package", **values)
    if settings and kind.code == "setting":
        kind = msgspec.structs.replace(kind, code=settings.code)
    return kind


def _at_line(remedy: str | None, raised: Raised | None) -> str | None:
    """A remedy with the position of the script's line, unless that only handles an exception."""
    place = raised.position if raised and not raised.is_handler else None
    return remedy and remedy.replace(_SCRIPT_LINE, place or _SCRIPT_LINE)


def _native(raised: Raised, known: Finding | None) -> Finding:
    if not raised.is_native:
        return note(
            "shell-script",
            f"a shell script failed: {raised.text}",
            "correct that line of the script; `set -euo pipefail` ends it at its first error",
        )
    is_condition = _CONDITION.search(raised.text)
    return note(
        known.code if known else "abort",
        f"native code ended the program: {raised.text}",
        advised(
            f"{_OF_CONDITION if is_condition else _OF_NATIVE}; {_FAULT_HANDLER}",
            find_advice(raised.text),
        ),
    )


def _is_vague(raised: Raised | None) -> bool:
    """Whether an exception, or none, says only that something else failed."""
    return raised is None or raised.is_cut or _VAGUE.match(raised.text) is not None


def _ends_by_itself(raised: Raised | None, lines: Sequence[str]) -> bool:
    """Whether the end of a log may have another reason than the errors before it: the script's own
    check or command failed, or the script ended without an exception or a launcher's report.
    """
    if raised is None:
        return not _causes(REPORT_CAUSES, first_report(lines))
    return _OWN_END.match(raised.text) is not None and not is_of_launcher(raised)


def _errors_in(lines: Iterable[str]) -> str:
    """The first and the last lines that report an error, as far as their wording shows it."""
    short = (line[:_LONGEST_ERROR] for line in lines)
    found = [line for line in short if _ERROR.search(line) and not _WARNING.search(line)]
    half = _MOST_ERRORS // 2
    return _text(found if len(found) <= _MOST_ERRORS else found[:half] + found[-half:])


def is_of_launcher(raised: Raised) -> bool:
    """Whether an exception is a launcher's report that another process failed, or was cut off."""
    return raised.is_cut or _OF_LAUNCHER.match(raised.text) is not None


def causes_in(lines: Iterable[str]) -> list[Finding]:
    """Known causes in a text, the most specific first, each with a remedy."""
    return _first_causes([CAUSES, SCRIPT_CAUSES, GENERAL_CAUSES], [_text(lines)])


def _text(lines: Iterable[str]) -> str:
    short = [line for line in _shortened(list(lines)) if not _RETRIED.search(line)]
    short = [line for line in short if not is_below_error(line)]
    text = "\n".join(without_prose(without_marks(unwrapped(short))))
    return _CUDA_CODE.sub("CUDA error: ", text)


def _shortened(lines: Sequence[str]) -> list[str]:
    """Lines of the longest length, and shorter ones before as many of these as rules can read."""
    short, left = [], _MOST_TEXT
    for line in reversed(lines):
        short.append(line[: _LONGEST_LINE if left > 0 else _SHORT_LINE])
        left -= len(short[-1])
    return short[::-1]


def _first_causes(tables: Iterable[Sequence[KnownError]], texts: Sequence[str]) -> list[Finding]:
    """The causes by the first table and text that have some."""
    found = (_causes(table, text) for table in tables for text in texts)
    return next(filter(None, found), [])


def _causes(table: Sequence[KnownError], text: str) -> list[Finding]:
    found = (known.fill(text) for known in find_known_errors(table, text))
    return [note(cause.code, cause.summary or "", _of_option(cause)) for cause in found]


def _of_option(cause: KnownError) -> str | None:
    """The remedy; what is called None has no name, as an option of the script is not set."""
    if not (cause.summary or "").endswith(": None"):
        return cause.remedy
    return f"set the option that it comes from, such as in run.args; otherwise {cause.remedy}"


def _ended_by(command: str) -> Finding:
    return note(
        "killed",
        f"its container was ended through docker ({command}); it did not fail itself",
        "find out who ended it: a user or a script; only rsctl cancel ends a run as cancelled",
    )


def _ended_from_outside(signal: str | None) -> list[Finding]:
    """The cause for a signal that another program has sent, as programs rarely send their own."""
    if signal not in _SENT - {"SIGKILL"}:
        return []
    return [
        note(
            "signal",
            f"it was ended by {signal} and did not fail itself; the sender is unknown",
            "find out who sent it: a user, a script, a time limit or a preemption; only rsctl "
            "cancel ends a run as cancelled",
        )
    ]


def _sigkill(out_of_memory: bool | None, is_killed: bool) -> Finding:
    """The cause for a SIGKILL whose sender is unknown."""
    if out_of_memory:
        how = "it was killed by SIGKILL, and " if is_killed else ""
        return note(
            "memory",
            f"out of memory: {how}the kernel killed processes there because memory was exhausted",
            f"{LESS_MEMORY}, or raise the memory limit",
        )
    if out_of_memory is False:
        return note(
            "killed",
            "it was killed by SIGKILL; the sender is unknown, but the kernel killed no process "
            "there to free memory",
            "find out who kills processes there: a user, a script, the platform",
        )
    return note(
        "killed",
        "it was killed by SIGKILL; the sender is unknown",
        "most often memory was exhausted: the node's memory in `rsctl metrics` and `dmesg` on its "
        f"machine show it; then {LESS_MEMORY}, load the model on one rank of a node at a time, or "
        "raise the memory limit",
    )
