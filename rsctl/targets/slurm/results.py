"""A run's results for `rsctl get`: read here, or from the login node by ssh."""

from __future__ import annotations

import os
import posixpath
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import ObjectChanged, StoredObject
from rsctl.findings import ExitCode, Finding, RsctlError, error, warning
from rsctl.runs.fetch.sources import DownloadSource, FolderSource
from rsctl.targets.managed.service import answer_of

_PART = 8 << 20
_CHANGED, _MISSING = 9, 8
_VERSION = "%i-%s-%T@"


def result_source(
    run: str, plan: Mapping[str, Any], location: str, endpoints: Endpoints
) -> DownloadSource:
    """The files of a location: on this machine if it sees the run's folder, otherwise by ssh."""
    request = plan["request"]
    connection = str(request.get("connection", "local"))
    folder = str(request.get("folder") or f"{request['shared']}/{run}")
    # The folder has the run's ID, so a folder of this name here is the cluster's.
    if connection == "local" or os.path.isdir(folder):
        return FolderSource(Path(location))
    if connection.startswith("ssh://"):
        from rsctl.targets.slurm.commands import ssh_runner

        return LoginNodeSource(ssh_runner(connection.removeprefix("ssh://")), connection, location)
    return HiddenSource(location, connection, folder)


class HiddenSource(FolderSource):
    """See DownloadSource: files that the run's connection gives no access to."""

    def __init__(self, location: str, connection: str, folder: str) -> None:
        super().__init__(Path(location))
        self._connection, self._run_folder = connection, folder

    def files(self) -> Iterator[StoredObject]:
        """Raises RsctlError."""
        message = (
            f"cannot read {self.location}: {self._connection} gives no access to files, and this "
            f"machine does not see {self._run_folder}"
        )
        remedy = (
            f"mount {posixpath.dirname(self._run_folder)} on this machine, or copy the files from "
            f"a login node, such as `scp -r LOGIN-NODE:{self.location} .`"
        )
        finding = error("results-unreadable", message, remedy, "targets.slurm.connection")
        raise RsctlError(ExitCode.ENVIRONMENT, finding)


class LoginNodeSource:
    """See DownloadSource: the files below a folder of another machine, which has GNU find.

    A link to a file in the folder is that file; other links are left out and shown.
    """

    def __init__(
        self,
        run_program: Callable[[str], subprocess.CompletedProcess[bytes]],
        connection: str,
        folder: str,
    ) -> None:
        self.location, self.findings = f"{connection}{folder}", list[Finding]()
        self.links: dict[str, str] = {}
        self._run, self._folder = run_program, folder
        self._real: dict[str, str] = {}  # of links

    def files(self) -> Iterator[StoredObject]:
        """See DownloadSource. A folder that does not exist has no files."""
        program = (
            f"cd {shlex.quote(self._folder)} 2>/dev/null || exit {_MISSING}\n"
            "printf '%s\\0' \"$(readlink -f .)\"\n"
            f"find . -type f -printf 'f%s {_VERSION} %P\\0'\n"
            "find . -type l -exec sh -c 'for link; do"
            ' printf "l%s\\0%s\\0" "$link" "$(readlink -f "$link")"; done\' sh {} +\n'
        )
        done = self._call(program)
        if done.returncode == _MISSING:
            return
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").strip()[-300:]
            message = f"cannot list {self.location}: {text or 'find failed'}"
            self.findings.append(warning("source", message, "check the permissions there"))
        root, *fields = done.stdout.split(b"\0")[:-1] or [b""]
        yield from self._listed(root, fields)

    def _listed(self, root: bytes, fields: list[bytes]) -> Iterator[StoredObject]:
        found: dict[str, StoredObject] = {}
        links: list[tuple[bytes, bytes]] = []
        rest = iter(fields)
        for field in rest:
            if field.startswith(b"l"):
                links.append((field[1:].removeprefix(b"./"), next(rest, b"")))
                continue
            size, version, name = field[1:].split(b" ", 2)
            if (text := self._text(name)) is not None:
                found[text] = StoredObject(text, int(size), version.decode())
        yield from found.values()
        for link, target in links:
            alias = self._text(link)
            inside = target.removeprefix(root + b"/") if target.startswith(root + b"/") else b""
            real = inside.decode(errors="replace")
            if alias is None:
                continue
            if real in found:
                self._real[alias] = real
                yield found[real]._replace(name=alias)
            elif inside and any(each.startswith(f"{real}/") for each in found):
                self.links[alias] = real
            else:
                self._leave_out(alias, "it is neither a file nor a link to a file in this folder")

    def find(self, name: str) -> StoredObject | None:
        """See DownloadSource."""
        path = shlex.quote(f"./{self._real.get(name, name)}")
        program = (
            f"cd {shlex.quote(self._folder)} || exit\n"
            f"find {path} -maxdepth 0 -type f -printf '%s {_VERSION}\\n'\n"
        )
        size, _, version = self._call(program).stdout.decode().strip().partition(" ")
        return StoredObject(name, int(size), version) if version else None

    def digests(self, found: StoredObject) -> Mapping[str, str]:
        """See DownloadSource: none is known."""
        return {}

    def stream(self, found: StoredObject, offset: int) -> Iterator[bytes]:
        """See DownloadSource. Each part is of the listed version, or ObjectChanged is raised."""
        path = shlex.quote(f"./{self._real.get(found.name, found.name)}")
        same = (
            f'[ "$(find {path} -maxdepth 0 -printf {shlex.quote(_VERSION)} 2>/dev/null)" ='
            f" {shlex.quote(found.version)} ] || exit {_CHANGED}"
        )
        while offset < found.size:
            size = min(_PART, found.size - offset)
            program = (
                f"cd {shlex.quote(self._folder)} || exit {_CHANGED}\n{same}\n"
                f"tail -c +{offset + 1} {path} | head -c {size}\n{same}\n"
            )
            done = self._call(program)
            if done.returncode == _CHANGED:
                raise ObjectChanged(found.name)
            if done.returncode != 0 or len(done.stdout) != size:
                text = done.stderr.decode(errors="replace").strip()[-300:]
                message = f"cannot read {found.name} of {self.location}: {text or 'it ends early'}"
                remedy = "check the permissions there"
                raise RsctlError(ExitCode.ENVIRONMENT, error("source", message, remedy))
            yield done.stdout
            offset += size

    def _call(self, program: str) -> subprocess.CompletedProcess[bytes]:
        return answer_of(lambda: self._run(program))

    def _text(self, name: bytes) -> str | None:
        """A name as text; one that is not UTF-8 is left out."""
        try:
            return name.decode()
        except UnicodeDecodeError:
            self._leave_out(name.decode(errors="backslashreplace"), "its name is not UTF-8")
            return None

    def _leave_out(self, name: str, why: str) -> None:
        message = f"{name[:200]!r} is skipped: {why}"
        self.findings.append(warning("left-out", message, f"see {self.location}"))
