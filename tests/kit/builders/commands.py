"""The commands of a build: run one after the other, their output read while it grows."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import threading
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT")
_OF_THIS_MACHINE = frozenset(
    {*_PASSED_ON, "BASH_ENV", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "ENV"} - {"LANG"}
)


def redirecting(names: Iterable[str]) -> str | None:
    """The first variable that would change what a build runs here, or which engine it reaches.

    In the cloud a build has a container of its own; here its programs are this machine's.
    """
    return next((n for n in names if n in _OF_THIS_MACHINE or n.startswith("LD_")), None)


class GrowingLog:
    """Bytes that are appended by one and read by others."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._lock = threading.Lock()

    def write(self, text: str | bytes) -> None:
        """Append."""
        with self._lock:
            self._content += text.encode() if isinstance(text, str) else text

    def read(self) -> bytes:
        """All that there is so far."""
        with self._lock:
            return bytes(self._content)


class BuildCommands:
    """Runs commands one after the other in a folder, until one is to be stopped."""

    def __init__(self, folder: Path, log: GrowingLog) -> None:
        self._folder = folder
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.is_stopped = False

    def run(self, command: list[str], env: Mapping[str, str] | None = None) -> int:
        """Run a command to its end, its output into the log; its exit code."""
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        with self._lock:
            if self.is_stopped:
                return -signal.SIGTERM
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**passed_on, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with self._process as process:
            while process.stdout and (block := process.stdout.read1(1 << 16)):  # type: ignore[attr-defined]
                self._log.write(block)
        return process.returncode

    def stop(self) -> None:
        """End the command that runs, with all that it started, and start no other."""
        with self._lock:
            self.is_stopped = True
            if self._process and self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def unpack(content: bytes, folder: Path) -> None:
    """Unpack a ZIP, the source of a build, into a folder; names cannot leave it. Raises OSError."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as problem:
        raise OSError(f"not a ZIP file: {problem}") from None
