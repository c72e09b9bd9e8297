"""Every interpreter with this folder in PYTHONPATH imports this first: see `fork_server.listen`.

One that is to be torchrun or a script has a copy of the server be that in its place. It lives on
for whoever started it: it passes signals on, and ends as the copy has ended.
"""

import os
import sys

_WORDS = [word for word in getattr(sys, "orig_argv", [])[1:] if word != "-u"]  # from 3.10 on


def be_forked(path: str, start: "list[str]") -> None:
    import contextlib
    import json
    import signal
    import socket

    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    request = {"start": start, "environ": dict(os.environ), "folder": os.getcwd()}
    request.update(kept=[], blocked=[], outlives=False, network=f"/proc/{os.getpid()}/ns/net")
    line = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(server, [line], [0, 1, 2])
    server.sendall(line[sent:])
    answers = server.makefile()
    pid = int(answers.readline())

    def pass_on(received: int, _: object) -> None:
        # Once it has ended, an error would have this interpreter run the script itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, received)

    for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
        signal.signal(signal.Signals[f"SIG{name}"], pass_on)
    code = int(answers.readline() or 1)  # nothing comes from a server that has ended
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if "TORCH_FORKS" in os.environ and (
    _WORDS[1:2] in (["rsctl.node.torchrun"], ["torch.distributed.run"])
    or (_WORDS and _WORDS[0].endswith(".py") and not _WORDS[0].endswith("rsctl_start.py"))
):
    be_forked(os.environ["TORCH_FORKS"], _WORDS)
