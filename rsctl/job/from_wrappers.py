"""Reads what stands before a launcher in a command line: variables, `uv run`, Python's options."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rsctl.job.launcher_options import Launched, Options, command_error, spec

Read = Callable[[list[str]], Launched]

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
PYTHON = re.compile(r"python[0-9.]*")

_UV = spec(
    none="frozen locked isolated no_sync no_project all_extras all_groups dev no_dev active exact "
    "offline quiet verbose module refresh upgrade no_cache script managed_python native_tls "
    "no_config no_progress no_index no_env_file no_editable",
    one="with with_editable with_requirements python extra group only_group no_group no_extra "
    "project directory env_file package index index_url default_index extra_index_url find_links "
    "config_file cache_dir link_mode color refresh_package upgrade_package python_platform",
)
_UV_SHORT = {"m": "module", "p": "python", "q": "quiet", "v": "verbose", "s": "script", "w": "with"}
_CONDA = spec(
    none="no_capture_output live_stream verbose v debug_wrapper_scripts",
    one="name prefix cwd attach environment manifest_path",
)
_CONDA_SHORT = {"n": "name", "p": "prefix", "e": "environment"}
_RUNNERS = ("poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba", "micromamba")
_SINGLE = {
    "nohup": spec(),
    "time": spec("p v portability verbose"),
    "exec": spec(),
    "nice": spec(one="n adjustment"),
    "timeout": spec("foreground preserve_status v verbose", "k kill_after s signal"),
    "env": spec("i ignore_environment", "u unset"),
}
_FLAGS: dict[str, dict[str, str]] = {
    "u": {},
    "O": {"PYTHONOPTIMIZE": "1"},
    "OO": {"PYTHONOPTIMIZE": "2"},
    "B": {"PYTHONDONTWRITEBYTECODE": "1"},
    "X dev": {"PYTHONDEVMODE": "1"},
    "X faulthandler": {"PYTHONFAULTHANDLER": "1"},
    "X utf8": {"PYTHONUTF8": "1"},
}
"""Python's options with their variables; rsctl itself has what `-u` does."""

_PYTHON_OPTIONS = spec("u O OO B E I s S P q b bb d v i x", "W X c check_hash_based_pycs")


def is_wrapper(words: list[str]) -> bool:
    """Whether something stands before a launcher here."""
    name = Path(words[0]).name
    is_runner = name in ("uv", *_RUNNERS) and words[1:2] == ["run"]
    return bool(ASSIGNMENT.fullmatch(words[0])) or name in _SINGLE or is_runner


def unwrapped(words: list[str], read: Read) -> Launched:
    """The program that a command starts behind variables, or behind such as `uv run`."""
    if ASSIGNMENT.fullmatch(words[0]):
        count = next((n for n, w in enumerate(words) if not ASSIGNMENT.fullmatch(w)), len(words))
        env = dict(word.partition("=")[::2] for word in words[:count])
        return _inner(words[count:], words, read).within(env)
    name = Path(words[0]).name
    if name in _SINGLE:
        return _single(name, words, read)
    title = f"{name} run"
    if name == "uv":
        options = Options(title, words[2:], _UV, _UV_SHORT)
        inner = ["python", "-m", *options.words] if options.has("module") else options.words
        options.has("script")
    else:
        options = Options(title, words[2:], _CONDA, _CONDA_SHORT)
        inner = options.words
    packages = f"{title}: packages come from image.python, or from the Python of target process"
    return _inner(inner, words, read).within(remarks=[packages, *options.remarks()])


def _single(name: str, words: list[str], read: Read) -> Launched:
    options = Options(name, words[1:], _SINGLE[name])
    inner, keys = options.words, {}
    if name == "timeout":
        if not inner or not re.fullmatch(r"\d+[smhd]?", inner[0]):
            raise command_error("timeout: its first argument is not a time", "write it as in 2h")
        keys["limits.timeout"] = inner[0] if inner[0][-1].isalpha() else f"{inner[0]}s"
        inner = inner[1:]
    return _inner(inner, words, read).within(keys=keys, remarks=options.remarks())


def _inner(inner: list[str], words: list[str], read: Read) -> Launched:
    if not inner:
        raise command_error(f"{' '.join(words[:6])!r} does not start a script", "add SCRIPT.py")
    return read(inner)


def python(arguments: list[str], modules: dict[str, Callable[[list[str]], Launched]]) -> Launched:
    """The arguments of Python; `modules` are launchers by the name of their module."""
    count = next((n for n, word in enumerate(arguments) if _is_program(arguments, n)), None)
    if count is None:
        raise command_error("python does not start a script", "add SCRIPT.py or -m MODULE")
    options = Options("python", arguments[:count], _PYTHON_OPTIONS)
    if options.has("c"):
        raise command_error("python -c: its program is not a file", "write it to a script")
    env: dict[str, str | None] = {}
    remarks = []
    for name, variables in _FLAGS.items():
        if " " not in name and options.has(name):
            env |= variables
    for (value,) in options.all("X"):
        env |= _FLAGS.get(f"X {value}", {})
        if f"X {value}" not in _FLAGS:
            remarks.append(f"python: omitted -X {value}: no key for it")
    if warnings := [value for (value,) in options.all("W")]:
        env["PYTHONWARNINGS"] = ",".join(warnings)
    remarks += options.remarks()
    words = arguments[count:]
    if words[0] != "-m":
        launched = Launched("script", words, processes=1)
    elif words[1:2] and words[1] in modules:
        launched = modules[words[1]](words[2:])
    elif words[1:]:
        launched = Launched("module", words[1:], processes=1)
    else:
        raise command_error("python -m requires a module", "complete the command")
    return launched.within(env, {}, remarks)


def _is_program(arguments: list[str], at: int) -> bool:
    """Whether the program begins here: `-m`, or a word that is not the value of an option."""
    word = arguments[at]
    if word == "-m":
        return True
    return not word.startswith("-") and (at == 0 or arguments[at - 1] not in ("-W", "-X", "-c"))
