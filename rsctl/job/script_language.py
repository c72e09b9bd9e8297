"""Scripts in other languages than Python and commands for a shell, which would fail only when the
machines have started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding, error, warning
from rsctl.job.job import RunBlock, is_shell_script
from rsctl.job.secret_names import public_arguments, public_text
from rsctl.job.shell_words import find_operator, flow_list, is_closed, shell_line, split_line

_OTHERS = {
    ".ipynb": ("a notebook", "convert it: jupyter nbconvert --to script"),
    ".r": ("a script in R", "use command: [Rscript, {}]"),
    ".jl": ("a script in Julia", "use command: [julia, {}]"),
    ".pl": ("a script in Perl", "use command: [perl, {}]"),
    ".js": ("a script in JavaScript", "use command: [node, {}]"),
}

_SHELL_WORDS = ("cd", ".", "source", "export", "set", "unset", "ulimit", "umask", "eval")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def check_shell_words(command: list[str], path: str) -> Iterator[Finding]:
    """Findings on a command without a program, or one that only a shell can run; rsctl starts
    programs by themselves. An operator that may be the value of an option is a warning.
    """
    first = command[0]
    if not first.strip():
        remedy = "begin with a program, such as command: [python, train.py]"
        yield error("command", "the first word of the command is empty", remedy, path)
        return
    is_sure = True
    operator = find_operator(command)
    if operator is not None:
        first, is_sure = operator
    if operator is not None or first in _SHELL_WORDS:
        finding = error if is_sure else warning
        message = f"{first} is for a shell, and rsctl uses none"
        yield finding("command", message, _shell_remedy(shell_line(command)), path)
    elif _ASSIGNMENT.match(first):
        message = f"{public_text(first)} is for a shell, and rsctl uses none"
        yield error("command", message, "set the variable in run.env", path)
    elif " " in first.strip() and "/" not in first.split()[0]:
        message = f"{public_text(first)!r} is one word, the name of a program"
        yield error("command", message, _line_remedy(first, command[1:]), path)


def check_argument_words(arguments: object, path: str) -> Iterator[Finding]:
    """A warning for an operator of a shell in a list of arguments."""
    operator = find_operator(arguments) if isinstance(arguments, list) else None
    if operator is not None:
        message = f"{operator[0]} is for a shell, and the program receives it as an argument"
        remedy = "remove it, or start a shell: run.command: [bash, -c, LINE]"
        yield warning("args", message, remedy, path)


def _line_remedy(line: str, arguments: list[str]) -> str:
    """How to write a command line that is one word."""
    words = split_line(line)
    if words is not None and words[0] not in _SHELL_WORDS:
        shown = flow_list(public_arguments([*words, *arguments]))
        return f"write each word by itself: command: {shown}"
    if not is_closed(line):
        return "close its quotes, and write each word by itself: command: [PROGRAM, ARGUMENT]"
    return _shell_remedy(" ".join([line, *(shell_line([word]) for word in arguments)]))


def _shell_remedy(line: str) -> str:
    """How to start a shell; one whose line ends with & would end before its command does."""
    line = line.strip()
    if line.endswith("&") and not line.endswith("&&"):
        return "remove the &: submit --detach runs a job in the background"
    return f"start one: command: {flow_list(['bash', '-c', public_text(line)])}"


def check_script_language(script: str, path: str) -> Iterator[Finding]:
    """An error if neither Python nor bash can run `script`, the value of the key `path`."""
    for ending, (what, remedy) in _OTHERS.items():
        if script.lower().endswith(ending):
            message = f"{script} is {what}, and Python runs scripts"
            yield error("script", message, remedy.format(script), path)


def check_module_name(module: str, path: str) -> Iterator[Finding]:
    """An error for a file's name as `module`, the value of the key `path`."""
    name, _, ending = module.rpartition(".")
    if ending in ("py", "sh", "bash", "ipynb"):
        block, file = path.rpartition(".")[0], f"{name.replace('.', '/')}.{ending}"
        remedy = f"set {block}.script: {file}"
        remedy += f", or {block}.module: {name}" * (ending == "py")
        yield error("module", f"{module} is the name of a file, not of a module", remedy, path)


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
