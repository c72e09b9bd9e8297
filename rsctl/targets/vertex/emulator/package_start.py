"""Installs Python packages and becomes their module, as Vertex AI's prebuilt containers do.

It runs in unknown images, on the standard library alone, and must parse on Python 3.7: `python3 -I
-c TEXT MODULE COUNT PACKAGE… ARGUMENT…`. As a process of this machine it has a root folder of its
own, and installs below that: without dependencies, for which it uses this Python's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile


def main(module: str, count: str, *rest: str) -> None:
    """Raises CalledProcessError, which ends the container as a failed installation does there."""
    packages, arguments = rest[: int(count)], rest[int(count) :]
    root = os.environ.get("RSCTL_ROOT")
    os.chdir(tempfile.mkdtemp(prefix="package-", dir=root))
    is_virtual = sys.prefix != sys.base_prefix  # where nothing sees what a user has
    options = [] if is_virtual else ["--user"]
    if root:
        target = os.path.join(root, "python-packages")
        options = ["--no-deps", "--upgrade", "--target", target]
        search_path = [target, os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in search_path if path)
    for package in packages:
        install([*options, package])
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606


def install(options: list[str]) -> None:
    """By the build tools that are there, if they will do: a rehearsal may be without a network."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    offline = [*command, "--no-build-isolation"]
    if subprocess.call(offline, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        subprocess.check_call(command)


if __name__ == "__main__":
    main(*sys.argv[1:])
