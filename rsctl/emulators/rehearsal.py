"""A rehearsed run: its emulator is a process of its own, found by what is in the run's folder.

rehearsal.json  what the emulator was told to play (no secrets)
emulator.json   the variables by which clients find the emulator; for the user only
emulator.lock   held while the emulator lives; its text is the emulator's process id
emulator.log    what the emulator itself had to say; normally empty
emulator/       the emulator's folder; gs/ and s3/ lead to the buckets of all rehearsals

The variables stay when the emulator has ended, so that no command on the run asks the real cloud.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from rsctl.clients import pace as cloud_pace
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.environment import own_environment
from rsctl.runs.home import home, private_folder, run_directory
from rsctl.runs.locks import holder

PACE = 0.05
"""The factor on all waits that are made up, and on those of clients; a cloud has 1."""

_OTHER_CLOUDS = (
    "AWS_",
    "GOOGLE_",
    "CLOUDSDK_",
    "GCE_",
    "STORAGE_EMULATOR_",
    "API_ENDPOINT_OVERRIDE",
)


class Rehearsal(msgspec.Struct, kw_only=True):
    """What an emulator is told: see `clouds.make_emulator`.

    `image` is the job's, for which processes run in `source`. `idle_seconds` is for how long it
    serves on when no job is going on.
    """

    emulator: str
    runner: Literal["docker", "process"]
    image: str
    source: str
    entrypoint: list[str] = []
    place: dict[str, str] = {}
    behaviour: dict[str, Any] = {}
    buckets: list[str] = []
    idle_seconds: float = 300.0


def bucket_folder(location: str) -> Path:
    """The folder that stands for `gs://BUCKET/PATH` or `s3://BUCKET/PATH` in all rehearsals."""
    scheme, _, path = location.partition("://")
    return home() / "rehearsal" / scheme / path.strip("/")


def start(run: str, rehearsal: Rehearsal) -> None:
    """Start the emulator of a run and wait until it answers. Raises RsctlError.

    It lives on when this process ends, until it is told to `end` or has been idle for long.
    """
    folder = run_directory(run)
    try:
        private_folder(folder)
        for bucket in rehearsal.buckets:
            _open_folder(bucket_folder(bucket))
        (folder / "rehearsal.json").write_bytes(msgspec.json.encode(rehearsal))
        log = (folder / "emulator.log").open("ab")
    except OSError as problem:
        raise _not_started(f"cannot write {problem.filename}: {problem.strerror}") from None
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rsctl.emulators.rehearsal_process", run],
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    if not _is_ready(process):
        raise _not_started(_last_words(folder / "emulator.log"))


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    """Wait until the emulator says that it answers; whether it does, or has ended instead."""
    try:
        answer = process.stdout.readline() if process.stdout else b""
        return answer == b"ready\n"
    except BaseException:
        process.terminate()
        raise


def environment_of(run: str) -> dict[str, str] | None:
    """The variables by which a rehearsed run's cloud is found; None if it is not rehearsed."""
    try:
        content = (run_directory(run) / "emulator.json").read_bytes()
        return msgspec.json.decode(content, type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return None


def rehearsal_of(run: str) -> Rehearsal | None:
    """What the emulator of a run plays; None if the run is not rehearsed."""
    try:
        content = (run_directory(run) / "rehearsal.json").read_bytes()
        return msgspec.json.decode(content, type=Rehearsal)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def in_rehearsal(run: str) -> Iterator[None]:
    """Have this process find a rehearsed run's cloud, and no other; nothing for other runs."""
    environment = environment_of(run)
    if environment is None:
        yield
        return
    if is_lost(run):
        from rsctl.emulators.nodes.owner import clear_dead

        clear_dead()
    others = [name for name in os.environ if name.startswith(_OTHER_CLOUDS)]
    with _ENVIRONMENT.having(run, {**dict.fromkeys(others), **environment}):
        yield


class _Environment:
    """This process's variables. Threads that are in the same rehearsal at once share them: the
    first to come sets them, and the last to leave takes them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[str, int] = {}
        self._before: dict[str, dict[str, str | None]] = {}

    @contextmanager
    def having(self, run: str, wanted: Mapping[str, str | None]) -> Iterator[None]:
        with self._lock:
            if not self._inside.setdefault(run, 0):
                self._before[run] = {name: os.environ.get(name) for name in wanted}
                _set(wanted)
            self._inside[run] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside[run] -= 1
                if not self._inside[run]:
                    _set(self._before.pop(run))


_ENVIRONMENT = _Environment()


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


def is_alive(run: str) -> bool:
    """Whether the emulator of a run serves; False for runs that are not rehearsed."""
    return _process(run) is not None


def is_lost(run: str) -> bool:
    """Whether a run was rehearsed by an emulator that has ended; its job has ended with it."""
    return environment_of(run) is not None and not is_alive(run)


def end(run: str) -> None:
    """Tell the emulator of a run to end, with all that runs in it; returns at once."""
    process = _process(run)
    if process is not None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def client_environment(environment: dict[str, str], pace: float) -> dict[str, str]:
    """All that a client's environment is to have, given what the emulator says of itself.

    The user's own profiles are left out, and a proxy is not asked for what is on this machine.
    """
    hosts = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy", ""), "127.0.0.1,localhost"]
    no_proxy = ",".join(filter(None, hosts))
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    ours = {
        cloud_pace.PACE: os.environ.get(cloud_pace.PACE, str(pace)),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }
    return {**nowhere, "AWS_EC2_METADATA_DISABLED": "true", **ours, **environment}


def _process(run: str) -> int | None:
    """The process id of a run's living emulator."""
    return holder(run_directory(run) / "emulator.lock")


def _open_folder(folder: Path) -> None:
    """A folder that the nodes may write to, whichever user they are; what is there is left."""
    if not folder.exists():
        private_folder(home() / "rehearsal")
        folder.mkdir(parents=True)
        folder.chmod(0o777)


def _not_started(why: str) -> RsctlError:
    remedy = "run it again; emulator.log in the run's folder has more"
    message = f"the emulator does not start: {why}"
    return RsctlError(ExitCode.ENVIRONMENT, error("rehearsal", message, remedy))


def _last_words(log: Path) -> str:
    from rsctl.stream.clean import clean_line

    lines = log.read_text(errors="replace").strip().splitlines()
    return clean_line(lines[-1])[:500] if lines else "it ended without a word"
