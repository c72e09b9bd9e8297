"""The access token of the page: a new one, or the one in a file, which scrapers can read too."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from pathlib import Path

from rsctl.atomic_file import open_regular
from rsctl.findings import ExitCode, RsctlError, error

_BYTES = 32
_TOKEN = re.compile(rb"[\w-]{32,256}", re.ASCII)


def make_token(file: Path | None = None) -> str:
    """The token of a file; without a file, a new one. A file that does not exist is written, for
    this user alone.

    Raises RsctlError if the file is another user's or all users can read it, or if it has no token.
    """
    new = secrets.token_urlsafe(_BYTES)
    if file is None:
        return new
    try:
        try:
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return _read(file)
        with open(made, "w") as written:
            written.write(f"{new}\n")
    except OSError as problem:
        message = f"cannot use the token file {file}: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("token-file", message)) from None
    return new


def _read(file: Path) -> str:
    with open_regular(file) as content:
        found, text = os.fstat(content.fileno()), content.read(1024).strip()
    if found.st_uid not in (0, os.geteuid()):  # its owner knows the token
        message = f"the token file {file} belongs to another user"
        remedy = "give a file of your own, which a group may read"
        raise RsctlError(ExitCode.ENVIRONMENT, error("token-file", message, remedy))
    if found.st_mode & 0o007:
        remedy = f"chmod o= {shlex.quote(str(file))}"
        message = f"every user of this machine can access the token file {file}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("token-file", message, remedy))
    if not _TOKEN.fullmatch(text):
        message = f"{file} does not contain a token: 32 to 256 letters, digits, - or _"
        remedy = "remove the file, and rsctl ui writes a new one"
        raise RsctlError(ExitCode.ENVIRONMENT, error("token-file", message, remedy))
    return text.decode()
