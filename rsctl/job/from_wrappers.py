"""Reads what stands before a launcher in a command line: variables, `uv run`, Python's options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rsctl.findings import RsctlError
from rsctl.job.launcher_options import Launched, Options, command_error, spec
from rsctl.job.units import Duration

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
_CONTAINER = spec(
    none="nv rocm nvccli c contain C containall e cleanenv f fakeroot w writable writable_tmpfs "
    "no_home compat u userns p pid i ipc n net uts",
    one="B bind H home pwd cwd W workdir env env_file o overlay S scratch mount app no_mount",
)
_CONTAINERS = ("singularity", "apptainer")
RUNNERS = ("uv", "poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba", "micromamba")
_SINGLE = {
    "nohup": spec(),
    "time": spec("p v portability verbose"),
    "exec": spec(),
    "nice": spec(one="n adjustment"),
    "timeout": spec("foreground preserve_status v verbose", "k kill_after s signal"),
    "env": spec("i ignore_environment", "u unset"),
    "setsid": spec("c f w ctty fork wait"),
    "stdbuf": spec(one="i o e input output error"),
    "ionice": spec("t ignore", "c n class classdata"),
    "shifter": spec("E clearenv", "i image m module V volume e env w workdir"),
    "taskset": spec("a c all_tasks cpu_list"),
    "numactl": spec(
        "a l all localalloc",
        "i p C N m c interleave preferred physcpubind cpunodebind membind cpubind",
    ),
}
SHELLS = ("bash", "sh", "dash", "zsh")
_OF_SHELL = re.compile(r"[^\w\s./,:=@%+'\"-]|^\w+ *\(|\n")
_TIME = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
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

_DOUBLE = ("OO", "bb")
_PYCS = "--check-hash-based-pycs"
_PYTHON_OPTIONS = spec("u O OO B E I s S P q b bb d v i x", "W X c check_hash_based_pycs")


def is_wrapper(words: list[str]) -> bool:
    """Whether something stands before a launcher here."""
    name = Path(words[0]).name
    is_runner = words[1:2] == ["run"] and name in (*RUNNERS, *_CONTAINERS)
    is_runner = is_runner or (words[1:2] == ["exec"] and name in _CONTAINERS)
    return bool(ASSIGNMENT.fullmatch(words[0])) or name in (*_SINGLE, *SHELLS) or is_runner


def unwrapped(words: list[str], read: Read) -> Launched:
    """The program that a command starts behind variables, or behind such as `uv run`."""
    if ASSIGNMENT.fullmatch(words[0]):
        count = next((n for n, w in enumerate(words) if not ASSIGNMENT.fullmatch(w)), len(words))
        env = dict(word.partition("=")[::2] for word in words[:count])
        return _inner(words[count:], words, read).within(env)
    name = Path(words[0]).name
    if name in _SINGLE:
        return _single(name, words, read)
    if name in SHELLS:
        return _inner(_of_shell(name, words[1:]), words, read)
    title = f"{name} {words[1]}"
    if name in _CONTAINERS:
        return _contained(title, words, read)
    if name == "uv":
        options = Options(title, words[2:], _UV, _UV_SHORT)
        inner = ["python", "-m", *options.words] if options.has("module") else options.words
        options.has("script")
    else:
        options = Options(title, words[2:], _CONDA, _CONDA_SHORT)
        inner = options.words
    packages = f"{title}: packages come from image.python, or from the Python of target process"
    return _inner(inner, words, read).within(remarks=[packages, *options.remarks()])


def _contained(title: str, words: list[str], read: Read) -> Launched:
    options = Options(title, words[2:], _CONTAINER)
    options.has("nv")
    image, keys, remarks = "".join(options.words[:1]), {}, options.remarks()
    if image.startswith("docker://"):
        uri = image.removeprefix("docker://")
        keys = {"image.uri": uri, "targets.slurm.container": "apptainer"}
    else:
        remedy = "set image.uri to the image that it has, and targets.slurm.container: apptainer"
        remarks.append(f"{title}: {image} is not an image of docker://: {remedy}")
    return _inner(options.words[1:], words, read).within(keys=keys, remarks=remarks)


def command_behind(words: list[str]) -> list[str]:
    """The command behind variables and wrappers, but not behind a shell; the wrapper's own command
    line if it has an option that rsctl does not know.
    """
    while words and is_wrapper(words) and Path(words[0]).name not in SHELLS:
        try:
            words = unwrapped(words, lambda found: Launched("command", found)).words
        except RsctlError:
            break
    return words


def _single(name: str, words: list[str], read: Read) -> Launched:
    given = words[1:]
    if name == "nice" and given and re.fullmatch(r"--?\d+", given[0]):
        given = ["-n", given[0][1:], *given[1:]]
    options = Options(name, given, _SINGLE[name])
    inner, keys, remarks = options.words, {}, []
    if name == "timeout":
        time = _TIME.fullmatch(inner[0]) if inner else None
        if time is None:
            raise command_error("timeout: its first argument is not a time", "write it as in 2h")
        if float(time[1]):  # 0 means unlimited
            unit = Duration.parse(f"1{time[2] or 's'}")
            keys["limits.timeout"] = str(Duration(float(time[1]) * unit))
        inner = inner[1:]
    elif name == "taskset":
        remarks = [f"taskset: omitted {word}: no key for it" for word in inner[:1]]
        inner = inner[1:]
    return _inner(inner, words, read).within(keys=keys, remarks=[*options.remarks(), *remarks])


def _of_shell(name: str, arguments: list[str]) -> list[str]:
    """The words of the one command that a shell runs with `-c`. Raises RsctlError."""
    is_text = arguments[:1] != [] and re.fullmatch(r"-[elu]*c", arguments[0]) is not None
    text = arguments[1] if is_text and len(arguments) == 2 else ""
    if text and not _OF_SHELL.search(text):
        with suppress(ValueError):  # a quotation mark is open
            return shlex.split(text)
    message = f"{' '.join([name, *arguments[:1]])!r} does not start a script in a way that rsctl "
    message += "supports"
    remedy = "give the command that starts your script; or write a job file with run.command: "
    raise command_error(message, f"{remedy}{[name, *arguments[:1], '...']}".replace("'", ""))


def _inner(inner: list[str], words: list[str], read: Read) -> Launched:
    if not inner:
        raise command_error(f"{' '.join(words[:6])!r} does not start a script", "add SCRIPT.py")
    return read(inner)


def python(arguments: list[str], modules: dict[str, Callable[[list[str]], Launched]]) -> Launched:
    """The arguments of Python; `modules` are launchers by the name of their module."""
    before, words = split_python(arguments)
    options = Options("python", before, _PYTHON_OPTIONS)
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
    if not words:
        raise command_error("python does not start a script", "add SCRIPT.py or -m MODULE")
    if words[0] != "-m":
        launched = Launched("script", words, processes=1)
    elif words[1:2] and words[1] in modules:
        launched = modules[words[1]](words[2:])
    elif words[1:]:
        launched = Launched("module", words[1:], processes=1)
    else:
        raise command_error("python -m requires a module", "complete the command")
    return launched.within(env, {}, remarks)


def split_python(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Python's options, each a word of its own, and the program: `-uWerror -mx` as `-u -W error`
    and `-m x`.
    """
    options: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        letters = "" if word.startswith("--") else word[1:]
        options += [] if letters else [word, *(rest[:1] if word == _PYCS else [])]
        rest = rest[1:] if word == _PYCS else rest
        while letters:
            name = letters[:2] if letters[:2] in _DOUBLE else letters[0]
            letters = letters[len(name) :]
            if name == "m":
                return options, ["-m", *([letters] if letters else []), *rest]
            options.append(f"-{name}")
            if name in ("c", "W", "X"):
                rest = [letters, *rest] if letters else rest
                options += rest[:1]
                rest, letters = rest[1:], ""
            if name == "c":
                return options, []
    return options, rest
