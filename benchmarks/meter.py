"""Runs one command and prints, as JSON, what it used: `python meter.py STDOUT COMMAND...`.

A program of its own, with few imports, because a new process's peak memory begins with that of
the process that started it. It adopts what the command leaves running, and waits for that too.
"""

import ctypes
import json
import os
import resource
import sys
from time import perf_counter, time

_PR_SET_CHILD_SUBREAPER = 36
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes


def main() -> None:
    """Run, wait, print."""
    stdout, argv = sys.argv[1], sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    to_file = (os.POSIX_SPAWN_OPEN, 1, stdout, flags, 0o600)
    began, clock = time(), perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[to_file])
    _, status, used = os.wait4(pid, 0)
    usage = {
        "began": began,
        "wall": perf_counter() - clock,
        "cpu": _cpu(used),
        "peak": used.ru_maxrss * _MAXRSS_UNIT,
        "left_cpu": _cpu_of_the_rest(),
        "exit_code": os.waitstatus_to_exitcode(status),
    }
    print(json.dumps(usage))


def _cpu_of_the_rest() -> float:
    total = 0.0
    while True:
        try:
            total += _cpu(os.wait4(-1, 0)[2])
        except ChildProcessError:
            return total


def _cpu(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
