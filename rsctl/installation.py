"""Commands that install packages, such as those of an extra of rsctl."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rsctl.findings import ExitCode, RsctlError, error

DISTRIBUTION = "rsctl-train"
"""The distribution name of rsctl. The distribution called rsctl on PyPI is another project."""

_OF_EXTRA = r"""(?P<package>[^;]+?)\s*;.*\bextra\s*==\s*['"](?P<extra>[\w-]+)['"]"""


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra of rsctl into the running Python."""
    # Imported here: it costs a `plan` that needs no such command 10 ms.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        named = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        named = []
    found = [match for text in named if (match := re.fullmatch(_OF_EXTRA, text))]
    packages = [match["package"] for match in found if match["extra"] == extra]
    if not packages:
        return f"pip install '.[{extra}]' in a checkout of rsctl"
    return pip_install(*packages)


def pip_install(*arguments: str) -> str:
    """The command that installs packages into the running Python.

    It uses uv where pip is not installed, as in the environments that uv creates.
    """
    from importlib.util import find_spec

    command = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:
        command = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*command, *arguments])


@contextmanager
def needs_extra(extra: str, code: str, message: str, remedy: str = "{}") -> Iterator[None]:
    """Imports of the packages of an extra. If one fails, raises RsctlError with a remedy, in which
    `{}` stands for the command that installs the extra.
    """
    try:
        yield
    except ImportError:
        finding = error(code, message, remedy.format(install_command(extra)))
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
