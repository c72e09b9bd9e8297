"""A server whose children begin as copies of one process that has imported torch.

    python fork_server.py SOCKET

Children take the place of interpreters that a job starts, see forked/sitecustomize.py, or are
processes of a test, see `Child`.

A child is set up as a fresh interpreter would be: its variables, its path, its network, then what
`import torch` does at its end (entry points of `torch.backends`). It saves the 2.5 s of processor
that importing torch costs each rank. FORKED_MODULES has the names of more modules to import.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import importlib.metadata
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

Request = dict[str, Any]
_code: list[int | None] = []
_NETWORK = "/proc/self/ns/net"
_PAGE = 1 << 21
_COLLAPSE = 25  # MADV_COLLAPSE of Linux 6.1; before, it does nothing


@contextmanager
def started(
    folder: Path, python: str | Path = sys.executable, **more: str
) -> Iterator[dict[str, str]]:
    """A server of this Python with a socket in this folder, and these variables; gives those of its
    users, whose Python must be the same.

    Workers of pytest that share the folder share the server.
    """
    kit = Path(__file__).parent
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    with shared(folder, [str(python), str(kit / "fork_server.py")], env=environ) as path:
        # Without the folders before, a job could run by another rsctl than the tests import.
        folders = filter(None, [str(kit / "forked"), os.environ.get("PYTHONPATH")])
        yield {"TORCH_FORKS": str(path), "PYTHONPATH": os.pathsep.join(folders)}


@contextmanager
def shared(folder: Path, command: list[str], **options: Any) -> Iterator[Path]:
    """The socket, in this folder, of a server that this command starts.

    Workers of pytest that share the folder share the server, which ends after the last of them.
    """
    from tests.kit.shared import locked  # the server itself does not find it

    path, users = folder / "socket", folder / "users"
    with locked(folder):
        if not users.exists():
            os.mkfifo(users)
        try:
            user = os.open(users, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no server reads
            path.unlink(missing_ok=True)
            end_of_input = os.open(users, os.O_RDONLY | os.O_NONBLOCK)
            user = os.open(users, os.O_WRONLY)
            server = subprocess.Popen([*command, str(path)], stdin=end_of_input, **options)
            os.close(end_of_input)
            end = time.monotonic() + 300
            while not path.exists() and server.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            server.returncode = 0  # it may outlive this worker, which does not wait for it
    try:
        yield path
    finally:
        os.close(user)


def write_program(program: Path, server: Path, *start: str) -> None:
    """A program that is a copy of the server with this socket, which gets `start` and the
    program's own arguments.
    """
    forked = str(Path(__file__).with_name("forked"))
    program.write_text(
        f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {forked!r})\n"
        f"import sitecustomize as forked\n"
        f"forked.be_forked({str(server)!r}, [*{start}, *sys.argv[1:]])\n"
    )
    program.chmod(0o755)


class Child:
    """A copy of the server, with these open files as its stdin, stdout and stderr, and more.

    It ends with the connection, unless the request has `outlives`.
    """

    def __init__(self, server: str, request: Request, files: Sequence[int]) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(server)
        line = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(self._socket, [line], list(files))
        self._socket.sendall(line[sent:])
        self.pid = self._answer()

    def exit_code(self, seconds: float | None) -> int | None:
        """Its exit code, negative for a signal, if it ends in this time; None waits for ever."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return None
        code = self._answer()
        self.close()
        return code

    def close(self) -> None:
        """End the connection, and with it the process."""
        self._socket.close()

    def _answer(self) -> int:
        """The next number that the server sends. Raises ValueError if the server has ended."""
        text = b""
        while not text.endswith(b"\n") and (byte := self._socket.recv(1)):
            text += byte
        return int(text)


def listen(path: str) -> Request:
    """Fork for each interpreter that connects; returns in each child, and ends with stdin.

    An interpreter sends a request with its own stdin, stdout and stderr, gets the child's process
    id and, when it has ended, its exit code, negative for a signal. If the interpreter is killed,
    so is its child, unless it `outlives` it.
    """
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{path}.new")
    server.listen(64)
    os.rename(f"{path}.new", path)  # who sees it can connect
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    gone: set[int] = set()
    outlive: set[int] = set()
    while True:
        alive = {client: pid for pid, client in children.items() if pid not in gone}
        ready, _, _ = select.select([0, server, woken, *alive], [], [])
        if 0 in ready and _has_no_user():
            for pid in children.keys() - outlive:
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        for client in set(ready) & set(alive):  # nothing comes of it but its end
            if alive[client] not in outlive:
                os.kill(alive[client], signal.SIGKILL)
            gone.add(alive[client])
        if woken in ready:
            os.read(woken, 4096)
            ended = _report_ends(children)
            gone -= ended
            outlive -= ended
        if server in ready:
            client, _ = server.accept()
            request = _receive(client)
            if request is None:
                client.close()
                continue
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for each in (server, client, *children.values()):
                    each.close()
                return request
            for file in request["files"]:
                os.close(file)
            children[pid] = client
            if request.get("outlives"):
                outlive.add(pid)
            with suppress(OSError):
                client.sendall(b"%d\n" % pid)


def _has_no_user() -> bool:
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:  # a worker has just come
        return False


def _receive(client: socket.socket) -> Request | None:
    """An interpreter's request, None if it was killed as it sent it."""
    line, files, _, _ = socket.recv_fds(client, 65536, 8)
    while not line.endswith(b"\n"):
        more = client.recv(65536)
        if not more:
            for file in files:
                os.close(file)
            return None
        line += more
    return {**json.loads(line), "files": files}


def _report_ends(children: dict[int, socket.socket]) -> set[int]:
    """Tell the interpreters whose children have ended; returns these."""
    ended = set()
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        with suppress(OSError), children.pop(pid) as client:
            client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        ended.add(pid)
    return ended


def run(request: Request) -> None:
    """Be the script, or `-m` and a module, that is asked for."""
    import torch

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.setsid()
    for number, file in enumerate(request["files"]):
        os.dup2(file, number)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # ranks are started with -u
    network = request.get("network", _NETWORK)
    if os.readlink(network) != os.readlink(_NETWORK):  # `ip netns exec` has begun its starter
        with open(network) as file:
            ctypes.CDLL(None).setns(file.fileno(), 0)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.argv = request["start"]
    script = sys.argv[0]
    folder = request["folder"] if script == "-m" else os.path.dirname(os.path.abspath(script))
    sys.path[:1] = [folder, *request["environ"].get("PYTHONPATH", "").split(os.pathsep)]
    # Where rsctl does nothing, gloo's threads need this at the end: see gloo_threads.py.
    atexit.register(time.sleep, 0.02)
    sys.excepthook = _print_without_own_frames
    if hasattr(torch, "_import_device_backends"):
        if torch._is_device_backend_autoload_enabled():
            torch._import_device_backends()
    else:  # PyTorch 2.4 loads none by itself: see rsctl/node/run_with_binding.py
        for entry in importlib.metadata.entry_points(group="torch.backends", name="rsctl"):
            entry.load()()
    if script == "-m":
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    else:
        # Its globals live to the end of the interpreter, as those of a script of its own.
        globals()["_script"] = runpy.run_path(script, run_name="__main__")


def _print_without_own_frames(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback as an interpreter of the script's own does."""
    own = (__file__, runpy.run_path.__code__.co_filename)
    while trace and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def be(program: Callable[[], None]) -> None:
    """Run a program to its end, for which `end_without_freeing` was called before the imports."""
    code: int | None = 1
    try:
        program()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except KeyboardInterrupt:
        code = None  # the interpreter ends by the signal
        raise
    finally:
        _code.append(code)


def settle() -> None:
    """Prepare the memory of this process for many copies, once all is imported.

    Pages of 2 MiB make a fork and the end of a copy faster: 13 ms of processor in place of 22.
    """
    gc.collect()
    gc.freeze()  # else a child would copy all of these pages, to look for garbage
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, *_, file = f"{line} -".split(maxsplit=5)[:6]
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p" and file.split()[0] in ("-", "[heap]"):
            for page in range(-(-begin // _PAGE) * _PAGE, end - _PAGE + 1, _PAGE):
                advise(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _COLLAPSE)


def end_without_freeing() -> None:
    """Have this process and its copies end as interpreters do, but without freeing what they have
    imported: that copies 160 MB of torch, which takes each copy 0.35 s of processor.

    Exit handlers run in the reverse order, so that this one is the last.
    """
    atexit.register(_leave)


def _leave() -> None:
    code = _code[0] if _code else None
    if code is None:
        return
    globals().pop("_script", None)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever reads has ended, or the script closed it
            stream.flush()
    os._exit(code & 255)


if __name__ == "__main__":
    end_without_freeing()
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # each child does it, see `run`
    import torch._dynamo
    import torch.distributed.elastic
    import torch.nn.parallel  # noqa: F401

    for name in os.environ.get("FORKED_MODULES", "").split():
        importlib.import_module(name)
    for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
        finalizer.atexit = False  # torch's own unregister its operators: 34 ms for each copy
    settle()
    be(lambda: run(listen(sys.argv[1])))
