"""A server whose children begin as copies of one process that has imported torch.

    python fork_server.py

Each line of stdin is a request, a JSON object, and is answered by a line of JSON on stdout:

    {"start": [SCRIPT, ARGUMENT...], "environ": {...}, "folder": ..., "out": FILE, "err": FILE}
    {"wait": PID, "seconds": S}

The first is answered with the child's process id, the second with its exit code (as of a shell for
one that was killed), or with null if it has not ended in that time. A child is set up as a fresh
interpreter would be: its variables, its path, then what `import torch` does at its end (entry
points of `torch.backends`). It saves the 2.5 s of processor that importing torch costs each rank.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import time
from typing import Any

Request = dict[str, Any]


def serve() -> Request:
    """Answer requests; returns in each child, with its request, and ends with stdin."""
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for line in sys.stdin:
        request: Request = json.loads(line)
        if "wait" in request:
            answer = _wait(request["wait"], request["seconds"])
        else:
            answer = os.fork()
            if answer == 0:
                return request
        print(json.dumps(answer), flush=True)
    sys.exit()


def _wait(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if time.monotonic() > end:
            return None
        signal.sigtimedwait([signal.SIGCHLD], max(0.0, end - time.monotonic()))


def run(request: Request) -> None:
    """Be the script that is asked for."""
    import torch

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.setsid()
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(path, flags, 0o600), number)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.argv = request["start"]
    script = sys.argv[0]
    paths = request["environ"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [os.path.dirname(os.path.abspath(script)), *paths]
    torch._import_device_backends()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # each child does it, see `run`
    import torch._dynamo
    import torch.distributed.elastic
    import torch.nn.parallel  # noqa: F401

    gc.collect()
    gc.freeze()  # else each child's end would copy all of these pages, to look for garbage
    run(serve())
