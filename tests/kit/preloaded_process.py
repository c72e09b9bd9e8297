"""Programs that begin as copies of one process, which has imported what they need.

    python preloaded_process.py MODULE...

Each line of stdin is a request, a JSON object:

    {"argv": [MODULE, ARGUMENT...], "environ": {...}, "folder": ..., "out": FILE, "err": FILE}

It is answered by the exit code of `python -m` with these arguments.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from contextlib import redirect_stdout
from typing import Any


def run(request: dict[str, Any]) -> None:
    """Be the program that is asked for."""
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags, 0o600), number)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.argv = request["argv"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def serve() -> dict[str, Any] | None:
    """Answer requests; returns in each child, with its request, and at the end of stdin."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return dict(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # as `python -m` has it
    from tests.kit.fork_server import be, end_without_freeing, settle

    end_without_freeing()
    with redirect_stdout(sys.stderr):  # standard output is for answers
        for name in sys.argv[1:]:
            importlib.import_module(name)
    settle()
    if (asked := serve()) is not None:
        be(lambda: run(asked))
