"""Scripts in other languages than Python and commands for a shell, which would fail only when the
machines have started.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rsctl.findings import Finding, error
from rsctl.job.job import RunBlock, is_shell_script
from rsctl.job.secret_names import public_arguments, public_text

_OTHERS = {
    ".ipynb": ("a notebook", "convert it: jupyter nbconvert --to script"),
    ".r": ("a script in R", "use command: [Rscript, {}]"),
    ".jl": ("a script in Julia", "use command: [julia, {}]"),
    ".pl": ("a script in Perl", "use command: [perl, {}]"),
    ".js": ("a script in JavaScript", "use command: [node, {}]"),
}

_SHELL_WORDS = ("cd", ".", "source", "export", "set", "unset", "ulimit", "umask", "eval")
_OPERATORS = ("&&", "||")


def check_shell_words(command: list[str], path: str) -> Iterator[Finding]:
    """An error for a command that only a shell can run; rsctl starts programs by themselves."""
    first = command[0]
    shown = next((word for word in command if word in _OPERATORS), first)
    if shown != first or first in _SHELL_WORDS:
        line = " ".join(word if word in _OPERATORS else shlex.quote(word) for word in command)
        remedy = f"start one: command: [bash, -c, {public_text(line)!r}]"
        yield error("command", f"{shown} is for a shell, and rsctl uses none", remedy, path)
    elif re.match(r"[A-Za-z_]\w*=", first):
        message = f"{public_text(first)} is for a shell, and rsctl uses none"
        yield error("command", message, "set the variable in run.env", path)
    elif " " in first.strip() and "/" not in first:
        message = f"{public_text(first)!r} is one word, the name of a program"
        words = ", ".join(public_arguments(first.split()))
        yield error("command", message, f"write each word by itself: command: [{words}]", path)


def check_script_language(script: str, path: str) -> Iterator[Finding]:
    """An error if neither Python nor bash can run `script`, the value of the key `path`."""
    for ending, (what, remedy) in _OTHERS.items():
        if script.lower().endswith(ending):
            message = f"{script} is {what}, and Python runs scripts"
            yield error("script", message, remedy.format(script), path)


def check_shell_script(run: RunBlock, script: str, path: str) -> Iterator[Finding]:
    """An error for a shell script if the launcher starts Python with it on each rank.

    AWS's toolkit starts a package's with all but torchrun. Source: aws/sagemaker-training-toolkit,
    torch_distributed.py.
    """
    if not is_shell_script(script) or run.launcher in ("once", "none"):
        return
    if run.package is None:
        message = f"{script} is a shell script, and launcher {run.launcher} starts Python's"
        remedy = "set run.launcher: once, which runs it once on each node with bash; or "
        remedy += f"run.command: [bash, {script}], which starts it for each rank"
        yield error("script", message, remedy, path)
    elif run.launcher == "torchrun":
        message = f"{script} is a shell script, and torchrun in the vendor's image starts Python's"
        remedy = "set run.launcher: none, which starts it once on each node, or use a Python script"
        yield error("script", message, remedy, path)
