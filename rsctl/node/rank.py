"""Runs one command as a child process, passes signals on, and reports a failure at once.

    python -I -S rank.py [--mpi] -- COMMAND...

torchrun or mpirun starts this once for each rank, instead of the training script. When one rank
fails, its peers fail a moment later with connection errors, and torchrun polls its ranks only now
and then: which one failed FIRST would be lost. The line that this prints carries the time.

It is the time at which the process ended. A rank that raises an exception prints its traceback,
closes its connections, and then ends: on a busy machine a peer may overtake it in that last step.
Where two lines are less than a second apart, the times of the tracebacks decide.

Every rank pays for this file's start, so it starts no thread and imports little. `-I -S` leaves it
without a path to rsctl: what of it not every rank needs is loaded from beside this file, and the
rest of the runtime imports from here.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would cost as much as starting the interpreter
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType
    from typing import NoReturn

    from rsctl.node.soft_stop import SoftStop
    from rsctl.node.stderr_tail import StderrTail
    from rsctl.node.whole_lines import WholeLines

STOP_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
"""The signals that stop a job. torchrun.py passes on the same six."""

FAILURE_FILE = "RSCTL_FAILURE_FILE"
"""The variable with the path of the file from which the platform reads why a node failed."""

EXIT_KEY = "RSCTL_EXIT_KEY"
"""The variable with the key that proves an `exit` line to be the launcher's. No script gets it."""
DEBUG_DIR = "RSCTL_DEBUG_DIR"
"""The variable with the folder by which the ranks of a node can be asked; see last_calls.py."""
PROFILE = "RSCTL_PROFILE"
"""The variable with the profiler of some ranks; see rank_profiler.py."""
RANK_OUTPUT = "RSCTL_RANK_OUTPUT"
"""The variable with the folder of the named pipes that ranks write to; see rank_output.py."""

_AWAITED = (*STOP_SIGNALS, signal.SIGCHLD)
_PR_SET_PDEATHSIG = 1
_CANNOT_RUN = 127
_LONGEST_WAIT_SECONDS = 3600.0  # the kernel takes no infinity


class ExitStatus:
    """How a command ended.

    `code` is its exit code, 128+n if signal n killed it. `signal` is that signal's name, or None.
    `was_stopped` is whether it had been sent a stop signal through us before it ended, `time`
    when it ended, in nanoseconds since 1970. `oom_kills` is how many processes in its memory group
    the kernel has ended meanwhile because memory was exhausted, None if that is unknown.
    """

    def __init__(self, wait_status: int, was_stopped: bool, oom_kills: int | None = None) -> None:
        self.oom_kills = oom_kills
        code = os.waitstatus_to_exitcode(wait_status)
        self.code = code if code >= 0 else 128 - code
        self.signal = None if code >= 0 else _signal_name(-code)
        self.was_stopped = was_stopped
        self.time = time.time_ns()

    @property
    def is_failure(self) -> bool:
        """Whether it failed of its own, and not because it had been stopped."""
        return self.code != 0 and not self.was_stopped


def start(
    command: list[str],
    environ: Mapping[str, str],
    tail: StderrTail | None = None,
    outputs: tuple[int, int] = (1, 2),
) -> int:
    """Start a command in a session of its own and return its process id.

    A session of its own, so that a signal to our process group reaches it once, through `wait`.
    From here on the stop signals are held back until `wait` takes them. On Linux the kernel kills
    the command when this process dies. A command that cannot be run ends with code 126 or
    127. `outputs` are the files that become its stdout and stderr; `tail` keeps the end of what it
    writes to stderr, in place of the second.
    """
    # Some systems forget a SIGCHLD without a handler, even while it is blocked.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    parent = os.getpid()
    _oom_kills_at_start[:] = [oom_kills()]
    child = os.fork()
    if child == 0:
        stdout, stderr = outputs
        _exec(command, environ, parent, (stdout, stderr if tail is None else tail.writer))
    if tail is not None:
        tail.begin()
    return child


def wait(child: int, soft_stop: SoftStop | None = None) -> ExitStatus:
    """Wait for the child that `start` started, and pass the stop signals on to its group.

    Each is passed on once: what a second SIGTERM does to a program that is saving its state is
    seldom what the sender wanted. `soft_stop` may ask the ranks to end instead, and the signal
    follows when that takes too long. Also reaps all other children of this process.
    """
    sent: set[int] = set()
    while True:
        received = _next_signal(None if soft_stop is None else soft_stop.wait_seconds())
        status = _reap(child)
        if status is not None:
            was_asked = soft_stop is not None and soft_stop.was_asked
            return ExitStatus(status, bool(sent) or was_asked, _oom_kills_since_start())
        if received is None or received == signal.SIGCHLD:
            received = None if soft_stop is None else soft_stop.due_signal()
        elif soft_stop is not None:
            received = None if soft_stop.ask() else soft_stop.signal_for(received)
        if received is not None and received not in sent:
            sent.add(received)
            _send(child, received)


def _next_signal(seconds: float | None) -> int | None:
    """The next of the awaited signals; None if none comes in time."""
    if seconds is None or not hasattr(signal, "sigtimedwait"):  # macOS has none
        return signal.sigwait(_AWAITED)
    received = signal.sigtimedwait(_AWAITED, min(seconds, _LONGEST_WAIT_SECONDS))
    return None if received is None else received.si_signo


def oom_kills() -> int | None:
    """The number of processes in this one's memory group that the kernel has killed because memory
    was exhausted.

    None if unknown: outside Linux, or if the groups are not visible. The files are `memory.events`
    of cgroup v2 and `memory.oom_control` of v1 (kernel, cgroup-v2.rst, memory.rst).
    """
    for path in _memory_groups():
        try:
            with open(path, encoding="utf-8") as file:
                for row in file:
                    name, _, count = row.partition(" ")
                    if name == "oom_kill":
                        return int(count)
        except (OSError, ValueError):
            continue
    return None


def _memory_groups() -> list[str]:
    """Where the kernel may count; in a container its own group stands at the top."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            rows = [row.rstrip("\n").split(":", 2) for row in file]
    except OSError:
        return []
    root, paths = "/sys/fs/cgroup", []
    for row in rows:
        if row[1:2] == ["memory"]:
            paths += [f"{root}/memory{group}/memory.oom_control" for group in (row[2], "")]
        elif row[:2] == ["0", ""]:
            paths += [f"{root}{group}/memory.events" for group in (row[2], "")]
    return paths


_oom_kills_at_start: list[int | None] = [None]


def _oom_kills_since_start() -> int | None:
    [before], now = _oom_kills_at_start, oom_kills()
    return None if before is None or now is None else now - before


def die_with_parent(signum: int, parent: int) -> None:
    """Have the kernel send this process a signal when its parent dies. Linux only.

    `parent` is who the parent should be: if that one is dead already, the signal comes at once.
    """
    prctl(_PR_SET_PDEATHSIG, signum)
    if sys.platform == "linux" and os.getppid() != parent:
        os.kill(os.getpid(), signum)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process in the Linux kernel; does nothing on other systems."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _exec(
    command: list[str], environ: Mapping[str, str], parent: int, outputs: tuple[int, int]
) -> NoReturn:
    """Turn this new child into the command."""
    try:
        for stream, file in enumerate(outputs, start=1):
            if file != stream:  # which may be closed
                os.dup2(file, stream)
        os.setsid()
        die_with_parent(signal.SIGKILL, parent)
        if PROFILE in environ:
            _load_beside("rank_profiler").allow_tracing(environ, parent)
        # Python ignores the last two, and a program inherits what is ignored.
        for signum in (*_AWAITED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.execvpe(command[0], command, environ)  # noqa: S606
    except OSError as error:
        code, reason = _load_beside("exec_errors").explain(command, environ, error)
        os.write(2, f"rsctl: cannot run {command[0]}: {reason}\n".encode())
        os._exit(code)
    finally:
        os._exit(_CANNOT_RUN)


def _reap(child: int) -> int | None:
    """Reap all children that have ended, and return the wait status of this one if it has."""
    status = None
    while True:
        try:
            ended, ended_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == child:
            status = ended_status


def _send(child: int, signum: int) -> None:
    try:
        os.killpg(child, signum)
    except OSError:  # It has not made its session yet, or is another user's, as by sudo.
        try:
            os.kill(child, signum)
        except PermissionError:
            return


def _signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:  # Real-time signals have no names.
        return f"SIG{signum}"


def _load_beside(name: str) -> ModuleType:
    """The module of this name beside this file; `-I -S` leaves no other way to it."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    """Run the command as the rank that the environment says; returns its exit code."""
    die_with_parent(signal.SIGKILL, os.getppid())
    command = arguments[arguments.index("--") + 1 :]
    if arguments[0] == "--mpi":
        return _main_of_mpi(command)
    _write_to_own_pipes()
    if os.environ.get("WORLD_SIZE") == "1":
        _leave_store_of_torchrun()
    return _main(command)


def _leave_store_of_torchrun() -> None:
    """Let a rank that is alone have a port and a store of its own.

    A script may start the job's real ranks itself, as with `torch.multiprocessing.spawn`. With
    torchrun's variable no process of PyTorch starts a store, at any address: all would wait.
    """
    if os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None) is None:
        return
    import _socket  # `socket` takes several times as long to import

    probe = _socket.socket()
    probe.bind(("", 0))
    os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
    probe.close()


def _write_to_own_pipes() -> None:
    """Have stdout and stderr be this rank's own pipes, where the node has made them.

    What names a pipe is removed, and the folder with the last of them, unless torchrun may start
    the rank again.
    """
    folder = os.environ.pop(RANK_OUTPUT, None)
    if folder is None:
        return
    is_last = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") == "0"
    for stream in (1, 2):
        path = os.path.join(folder, f"{os.environ['LOCAL_RANK']}.{stream}")
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # there is a reader, or no node
        except OSError:
            continue
        os.set_blocking(pipe, True)
        os.dup2(pipe, stream)
        os.close(pipe)
        if is_last:
            os.remove(path)
    if not is_last:
        return
    try:
        os.rmdir(folder)
    except OSError:
        return  # Other ranks have not opened theirs yet.


def _main_of_mpi(command: list[str]) -> int:
    """As `_main`, with a rank of mpirun's, whose output it passes on in whole lines."""
    _take_rank_from_mpi()
    whole_lines, marks = _load_beside("whole_lines"), _load_beside("rank_marks")
    redraws = _load_beside("redraws")
    is_alone = os.environ["WORLD_SIZE"] == "1"
    replica = os.environ.get("RSCTL_REPLICA")
    mark = b"" if is_alone or not replica else marks.mark_of(replica, os.environ["LOCAL_RANK"])
    streams = [
        whole_lines.WholeLines(
            number, redraws.Redraws(), lambda lines: marks.with_marks(lines, mark)
        )
        for number in (1, 2)
    ]
    return _main(command, streams)


def _main(command: list[str], streams: Sequence[WholeLines] = ()) -> int:
    """Run the command, whose output comes by these streams, and report its end, a failure also to
    a file for the platform if it reads one.

    Others may fail because a rank ends with exit code 0. It reports that where its launcher has a
    key, which means that the lines are read.
    """
    key = os.environ.pop(EXIT_KEY, None)
    _take_shards()
    failure_file = os.environ.get(FAILURE_FILE)
    tail = _load_beside("stderr_tail").StderrTail() if failure_file else None
    profiler, number = _load_beside("rank_profiler") if PROFILE in os.environ else None, -1
    if profiler is not None:
        number = int(os.environ["RANK"])
        command = profiler.wrapped(command, os.environ, number)
    child = start(command, os.environ, tail)
    sampler = profiler and profiler.start_sampler(child, command, os.environ, number)
    for stream in streams:
        stream.begin()
    status = wait(child)
    stderr = tail.end() if tail else ""
    for stream in streams:
        stream.end()
    if status.is_failure or (
        key and not status.was_stopped and os.environ.get("WORLD_SIZE") != "1"
    ):
        _report_own_end(status, key)
    if status.is_failure and DEBUG_DIR in os.environ:
        _load_beside("last_calls").keep_last_calls(os.environ[DEBUG_DIR])
    if status.is_failure and failure_file:
        _write_failure_file(failure_file, status, stderr)
    if profiler is not None:
        profiler.end_sampler(sampler)
    return status.code


def _take_rank_from_mpi() -> None:
    """Give the command the variables that torchrun would set, beside Open MPI's own."""
    for name in ("RANK", "LOCAL_RANK"):
        os.environ[name] = os.environ[f"OMPI_COMM_WORLD_{name}"]
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        scope = name[: -len("WORLD_SIZE")]
        os.environ[name] = os.environ[f"OMPI_COMM_WORLD_{scope}SIZE"]


def _take_shards() -> None:
    """Give the command the files with its own shards, of those with all ranks' of this node."""
    for name in os.environ:
        if name.startswith("RSCTL_INPUT_") and name.endswith("_SHARDS"):
            path = os.environ[name]
            os.environ[name] = path.replace("{local_rank}", os.environ.get("LOCAL_RANK", "0"))


def _report_own_end(status: ExitStatus, key: str | None) -> None:
    """As this rank, and where its output comes into the chief's log, with its own replica."""
    replica = os.environ.get("RSCTL_REPLICA") if "OMPI_COMM_WORLD_RANK" in os.environ else None
    report = _load_beside("structured_lines")  # a rank that starts does not pay for it
    number, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    report.report_end(status, number, local, key, replica)


def _write_failure_file(path: str, status: ExitStatus, stderr: str) -> None:
    stderr_tail = _load_beside("stderr_tail")
    who = f"{os.environ.get('RSCTL_REPLICA', 'this node')}, rank {os.environ['RANK']},"
    stderr_tail.write_failure_file(path, stderr_tail.format_failure(status, who), stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
