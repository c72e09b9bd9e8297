"""Starts the script of a node that is a process, as AWS's sagemaker-training toolkit does.

`python3 -I -c TEXT RSCTL_START PROGRAM RANKS ARGUMENT…`, with 0 ranks for a program that is started
once. A shell reads the arguments without quotes, as with the toolkit; a program that is not
Python's gets them in single quotes within double quotes. Code with a setup.py is installed below
the node's own root folder, without dependencies, for which it uses this Python's, and its program
is run as a module.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys


def main(rsctl_start: str, program: str, ranks: str, *arguments: str) -> None:
    """Raises CalledProcessError for what cannot be installed."""
    root = os.environ["RSCTL_ROOT"]
    os.chdir(os.path.join(root, "opt/ml/code"))
    search_path = [os.getcwd(), os.environ.get("PYTHONPATH")]
    run, words = ["--python", "--", program], [*arguments]
    has_setup = os.path.exists("setup.py")
    is_command = program.endswith(".sh") or not (has_setup or program.endswith(".py"))
    if is_command:
        os.chmod(program, 0o700)
        run, words = ["--", f"./{program}"], [shlex.quote(each) for each in arguments]
    elif has_setup:
        target = os.path.join(root, "python-packages")
        install(["--no-deps", "--upgrade", "--target", target, "."])
        search_path.insert(0, target)
        run[2:] = ["-m", program[:-3] if program.endswith(".py") else program]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in search_path if path)
    os.environ["RSCTL_TARGET"] = "sagemaker"
    launcher = ["--launcher", "torchrun", "--processes", ranks]
    launch = launcher if int(ranks) else ["--launcher", "once"]
    sys.stdout.flush()
    start = [sys.executable, rsctl_start, "rsctl.node.launch", *launch, *run]
    line = " ".join(["exec", *map(shlex.quote, start), *words])
    if is_command:
        line = f'exec /bin/sh -c "{line}"'
    os.execv("/bin/sh", ["sh", "-c", line])  # noqa: S606


def install(options: list[str]) -> None:
    """By the build tools that are there, if they will do: a rehearsal may be without a network."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    offline = [*command, "--no-build-isolation"]
    if subprocess.call(offline, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        subprocess.check_call(command)


if __name__ == "__main__":
    main(*sys.argv[1:])
