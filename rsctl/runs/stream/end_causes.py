"""How a process of a job ended, as its launcher, its shell or its container engine reports it.

The answer where the log has no other cause: torchrun, accelerate, deepspeed, mpirun (Open MPI and
hydra), srun, shells and engines report an exit code or a signal, and not why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rsctl.runs.stream.exceptions import REFERS
from rsctl.runs.stream.memory_causes import LESS_MEMORY, NO_ACCESS, NO_ACCESS_REMEDY
from rsctl.runs.stream.service_causes import cause

_MOST_LINES = 200
_LONGEST_LINE = 4096
_BEFORE_CODE = (
    r"(?:(?i:exit[ _-]?(?:code|status)|return ?code|status code)s?"
    r"|[Nn]on-zero (?:exit )?(?:status|code)(?: of)?|(?:(?:[Ee]xited|[Tt]erminated|[Ff]ailed"
    r"|[Ff]inished|[Dd]ied) with(?: (?:code|status))?"
    r"|Error)(?!\W{1,8}\d{1,3} (?!after|at|by|in|on)[a-z])) {0,3}[:=]? {0,3}\(?"
)
_FIRST_FAILURE = re.compile(
    r"Root Cause \(first observed failure\):[^\n]*\n((?:(?!={9})[^\n]*\n?){1,12})"
)

_ENDED_BY_TORCHRUN = re.compile(r"exitcode {1,3}: -\d[^\n]*|Signal \d{1,2} \([^\n]*")


def _by_signal(number: int, name: str, words: str) -> str:
    """The pattern of reports that a signal ended a process; `words` is how shells name it."""
    return (
        rf"{_BEFORE_CODE}(?:-{number}|{128 + number})\b"
        rf"|\(signal {number}\)|[Rr]eceived {number} death signal|(?:on|with|by|from"
        rf"|got) signal:? {{0,2}}(?:{number}\b|{name}\b)"
        rf"|<Signals\.{name}\b|[Rr]eceived (?!SIGUSR){name}\b|Signal {number} \({name}\)"
        rf"|\*\*\* {name} (?:\(@|received by PID)|\b{name}\({{1,2}}-?{number}\)|{words}"
    )


SIGNAL_CAUSES = (
    cause(
        "crash",
        _by_signal(11, "SIGSEGV", r"[Ss]egmentation fault"),
        "a process crashed in native code (SIGSEGV), as its launcher reports",
        "set PYTHONFAULTHANDLER=1 in run.env: the log then contains the position of the crash; "
        "extensions must be built for the torch and CUDA of the image",
    ),
    cause(
        "shared-memory",
        _by_signal(7, "SIGBUS", r"[Bb]us error"),
        NO_ACCESS,
        NO_ACCESS_REMEDY,
    ),
    cause(
        "processor",
        _by_signal(4, "SIGILL", r"[Ii]llegal instruction"),
        "native code contains an instruction that the machine's processor does not support "
        "(SIGILL)",
        "install builds for older processors (without AVX-512), or use a newer machine type",
    ),
    cause(
        "crash",
        _by_signal(8, "SIGFPE", r"[Ff]loating point exception"),
        "native code divided by zero or overflowed (SIGFPE), as its launcher reports",
        "set PYTHONFAULTHANDLER=1 in run.env: the log then contains the position of the crash",
    ),
    cause(
        "abort",
        _by_signal(6, "SIGABRT", r"\bAborted(?: \(core dumped\)|$)|: Aborted\b"),
        "a process aborted (SIGABRT), as after a watchdog's timeout, a CUDA error or a failed "
        "assertion",
        "see the first error of that process before its end, also in the logs of the other "
        "replicas; PYTHONFAULTHANDLER=1 in run.env shows the position",
    ),
    cause(
        "signal",
        _by_signal(10, "SIGUSR1", r"User defined signal 1")
        + "|"
        + _by_signal(12, "SIGUSR2", r"User defined signal 2"),
        "a process was ended by a signal of its scheduler or launcher (SIGUSR1 or SIGUSR2), which "
        "the script does not handle",
        "Slurm sends it before the time limit (--signal): raise the limit, and let the script "
        "handle the signal (signal.signal), write a checkpoint and end, or remove the option",
    ),
    cause(
        "signal",
        _by_signal(24, "SIGXCPU", r"CPU time limit exceeded(?!,)"),
        "a process used more CPU time than its limit permits (SIGXCPU)",
        "raise the limit (`ulimit -t`, resource.setrlimit), or use fewer threads and workers",
    ),
    cause(
        "system-call",
        _by_signal(25, "SIGXFSZ", r"File size limit exceeded(?!:)"),
        "a process wrote a larger file than its limit permits (SIGXFSZ)",
        "raise the limit (`ulimit -f`), or write smaller files: sharded checkpoints, "
        "max_shard_size",
    ),
    cause(
        "system-call",
        _by_signal(31, "SIGSYS", r"Bad system call"),
        "a process made a call that the container or the node forbids (SIGSYS)",
        "give the container the call (docker --security-opt seccomp=...), or use a newer container "
        "engine on the node, which knows the calls of the image's system",
    ),
    cause(
        "killed",
        _by_signal(
            9,
            "SIGKILL",
            r"(?m:^Killed$)|: Killed\b|line \d{1,6}: {1,4}\d{1,9} Killed\b"
            r"|(?m:^)\[\d{1,3}\] {1,4}(?:[+-] {1,4})?\d{1,9} killed ",
        ),
        "a process was killed by SIGKILL, most often because the node's memory was exhausted",
        f"compare the node's memory in `rsctl metrics`; {LESS_MEMORY}, and load the model on one "
        "rank of a node at a time, or raise the memory limit",
    ),
)
"""Signals that say what kind of failure it was, the clearest first."""

REPORT_CAUSES = (
    cause(
        "command",
        rf"{_BEFORE_CODE}127\b",
        "a command was not found (exit code 127), as its launcher reports",
        "correct run.command, or add the program to the image",
    ),
    cause(
        "script-failed",
        rf"{_BEFORE_CODE}((?!(?:2[6-9]|[3-9]\d)\d\b|0\b|15\b|143\b|130\b|129\b)\d{{1,3}})\b"
        r"|returned (?:a )?non-zero(?: exit status)? ?((?!143\b)\d{0,3})"
        r"|1 process returned\s{1,3}a non-zero exit code()|failed with a non-zero exit code()"
        r"|failed to run torchrun ()|conda\.cli\.main_run[^\n]{0,300} failed()",
        "a launcher says only that a process failed, by its exit code: {names}",
        "see that process's own error: above, in the logs of the other replicas, or in its error "
        "file; with torchrun, `record` of torch.distributed.elastic.multiprocessing.errors on the "
        "script's main function brings its traceback",
    ),
    cause(
        "signal",
        _by_signal(1, "SIGHUP", r"(?m:(?:^|: )Hangup$)"),
        "a process was ended by SIGHUP, as its terminal or connection was closed, and did not fail "
        "itself",
        "start it so that it outlives the terminal: with rsctl, by sbatch, or in tmux",
    ),
    cause(
        "signal",
        _by_signal(2, "SIGINT", r"(?m:^KeyboardInterrupt$|: Interrupt$)"),
        "a process was interrupted (SIGINT, as by Ctrl-C), and did not fail itself",
        "find out who sent it: a user, a notebook or service that stops its programs so, or the "
        "launcher after the failure of another process, whose log then has the reason",
    ),
    cause(
        "signal",
        _by_signal(15, "SIGTERM", r"(?m:^Terminated$)|: Terminated\b"),
        "a process was ended by SIGTERM and did not fail itself",
        "find out who sent it: a user, a time limit, a preemption, or the launcher after the "
        "failure of another process, whose log then has the reason",
    ),
    cause(
        "script-failed",
        r"forcefully exit\w{1,6} via|closing signal SIG\w{3,5}|exiting improperly|without calling "
        r"\"finalize\"|Killing subprocess \d{1,9}",
        "a launcher ended its processes because one of them failed; the reason stands elsewhere",
        "see the first error above, in the logs of the other replicas, or in the error file of the "
        "process",
    ),
    cause(
        "script-failed",
        r"Error executing job with overrides",
        "hydra says only that the script failed",
        "set HYDRA_FULL_ERROR=1 in run.env, with which hydra shows the whole traceback; without "
        "one, a signal or the script itself ended it: see the node's memory in `rsctl metrics`",
    ),
    cause(
        "script-failed",
        r"TrainingFailedError\b|[Tt]rials did not complete|RayTaskError\.as_instanceof_cause",
        "Ray says only that a worker or a trial failed",
        "see that worker's own exception: above, in the logs of the other nodes, or in error.txt "
        "below its folder in ray_results",
    ),
    cause(
        "script-failed",
        rf"(\w[^\n:]{{0,80}})\. {REFERS}",
        "a program says only that a process which it started failed: {names}",
        "see that process's own error: above, in the logs of the other replicas, or in its own "
        "log, with Ray in /tmp/ray/session_latest/logs/worker-*.err of its node",
    ),
    cause(
        "script-failed",
        r"[Bb]ack-off \S{1,12} restarting failed container|CrashLoopBackOff",
        "a container failed several times, and Kubernetes waits before it starts the container "
        "again",
        "see the log of its last run (`kubectl logs --previous`) and its exit code "
        "(`kubectl describe pod`)",
    ),
    cause(
        "slurm-step",
        r"\*\*\* (STEP \S{1,30} ON \S{1,100}) CANCELLED AT \S{1,30} \*\*\*",
        "a step of the job was cancelled: {names}",
        "see the first error in the logs of its tasks, as srun cancels a step after a task has "
        "failed; without one, `sacct -j` shows the user that cancelled it",
    ),
    cause(
        "slurm-step",
        r"\*\*\* JOB \d{1,12} ON \S{1,100} CANCELLED AT \S{1,30} \*\*\*"
        r"|Force Terminated job",
        "the job was cancelled, and did not fail itself",
        "`sacct -j` shows the user that cancelled it: the owner of the job, or an administrator",
    ),
)
"""Ends that say nothing about their reason."""


def first_report(lines: Sequence[str]) -> str:
    """The text in which to look for the end of the process that failed first.

    That is torchrun's section about the first failure, as its other processes end by its signals.
    """
    text = "\n".join(line[:_LONGEST_LINE] for line in lines[-_MOST_LINES:])
    match = _FIRST_FAILURE.search(text)
    if match is None:
        return text
    return match[1] if _is_report(match[1]) else _ENDED_BY_TORCHRUN.sub("", text)


def _is_report(text: str) -> bool:
    return any(known.fits((), text) for known in (*SIGNAL_CAUSES, *REPORT_CAUSES))
