"""Reads the command lines of `accelerate launch` and `deepspeed` as torchrun's.

Options by https://github.com/huggingface/accelerate/blob/main/src/accelerate/commands/launch.py and
https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py. Where nodes meet
is rsctl's to decide, so such options are left out; one that says how the script trains and has no
counterpart is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rsctl.findings import ExitCode, RsctlError, error

_ACCELERATE = {
    **dict.fromkeys(("num_processes", "num_machines", "mixed_precision"), True),
    **dict.fromkeys(("num_cpu_threads_per_process", "gradient_accumulation_steps"), True),
    **dict.fromkeys(("cpu", "multi_gpu", "module", "quiet", "same_network"), False),
    **dict.fromkeys(("machine_rank", "main_process_ip", "main_process_port", "gpu_ids"), True),
    **dict.fromkeys(("rdzv_backend", "rdzv_conf", "monitor_interval", "role", "tee"), True),
    **dict.fromkeys(("log_dir", "max_restarts", "config_file"), True),
}
_ACCELERATE_SHORT = {"m": "module", "q": "quiet", "t": "tee"}
_DEEPSPEED = {
    **dict.fromkeys(("num_nodes", "num_gpus", "num_accelerators", "include", "exclude"), True),
    **dict.fromkeys(("hostfile", "master_port", "master_addr", "node_rank", "launcher"), True),
    **dict.fromkeys(("launcher_args", "ssh_port", "comment", "account"), True),
    **dict.fromkeys(("enable_each_rank_log",), True),
    **dict.fromkeys(("module", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi"), False),
    **dict.fromkeys(("save_pid", "bind_cores_to_rank"), False),
}
"""The options that can be read, and whether a value follows them."""

_FROM_CONFIG = ("num_processes", "num_machines", "mixed_precision")
_AS_TORCHRUN = ("NO", "MULTI_GPU", "MULTI_CPU", "None")
"""The `distributed_type` of accelerate's configuration whose ranks are started without more."""

_LARGEST = 1 << 20
_HOST = re.compile(r"(?m)^[ \t]*[\w.:-]+[ \t]+slots=([0-9]{1,4})[ \t]*(?:#.*)?$")
_DEEPSPEED_SHORT = {"H": "hostfile", "i": "include", "e": "exclude"}


class Launched(NamedTuple):
    """The program that a launcher starts: `words` are the script or module with its arguments.

    `processes` are ranks on each node, 0 if the command line does not set their number; `remarks`
    are lines for the job file.
    """

    words: list[str]
    is_module: bool
    nodes: int
    processes: int
    env: dict[str, str] = {}
    remarks: tuple[str, ...] = ()


def accelerate(arguments: list[str]) -> Launched:
    """The arguments of `accelerate launch`. Raises RsctlError for an option that cannot be said."""
    options, words = _options("accelerate launch", arguments, _ACCELERATE, _ACCELERATE_SHORT)
    if path := options.get("config_file"):
        options = {**_accelerate_config(path), **options}
    nodes = _number(options, "num_machines") or 1
    ranks = _number(options, "num_processes")
    if ranks % nodes:
        message = f"accelerate launch: {ranks} processes are not divisible by {nodes} machines"
        raise _error(message, "set --num_processes to a multiple of --num_machines")
    env = {}
    if "mixed_precision" in options:
        env["ACCELERATE_MIXED_PRECISION"] = options["mixed_precision"]
    if "gradient_accumulation_steps" in options:
        env["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = options["gradient_accumulation_steps"]
    if "cpu" in options:
        env["ACCELERATE_USE_CPU"] = "true"
    if "num_cpu_threads_per_process" in options:
        env["OMP_NUM_THREADS"] = options["num_cpu_threads_per_process"]
    is_alone = not ranks and "multi_gpu" not in options and nodes == 1
    return Launched(words, "module" in options, nodes, 1 if is_alone else ranks // nodes, env)


def deepspeed(arguments: list[str]) -> Launched:
    """The arguments of `deepspeed`. Raises RsctlError for an option that cannot be said."""
    options, words = _options("deepspeed", arguments, _DEEPSPEED, _DEEPSPEED_SHORT)
    ranks = _number(options, "num_gpus") or _number(options, "num_accelerators")
    remarks = []
    if "no_local_rank" not in options:
        remarks.append(
            "deepspeed passes --local_rank=N to the script; rsctl sets LOCAL_RANK instead"
        )
    nodes = _number(options, "num_nodes")
    named = [name for name in ("include", "exclude", "hostfile") if options.get(name)]
    slots = _slots(options["hostfile"]) if named == ["hostfile"] else []
    if len(set(slots)) == 1:
        nodes, ranks = nodes or len(slots), ranks or slots[0]
    for name in named:
        if not slots or len(set(slots)) > 1:
            remarks.append(f"--{name} {options[name]}: set workers.count and processes accordingly")
    is_module = "module" in options
    return Launched(words, is_module, nodes or 1, ranks, {}, tuple(remarks))


def _accelerate_config(path: str) -> dict[str, str]:
    """The nodes, ranks and precision in the file of `accelerate config`. Raises RsctlError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            found: Any = yaml.safe_load(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        message = f"accelerate launch: cannot read {path}: {getattr(problem, 'strerror', '')}"
        raise _error(message.rstrip(": "), "correct --config_file") from None
    found = found if isinstance(found, dict) else {}
    kind = found.get("distributed_type", "NO")
    kind = "NO" if kind is False else str(kind)  # what YAML reads of a plain `NO`
    if kind not in _AS_TORCHRUN:
        message = (
            f"accelerate launch: the job file has no key for distributed_type: {kind} in {path}"
        )
        remedy = (
            "configure the plugin of Accelerator() in the script, and give --num_machines and "
            "--num_processes here instead of --config_file"
        )
        raise _error(message, remedy)
    options = {name: str(found[name]) for name in _FROM_CONFIG if found.get(name) is not None}
    if found.get("mixed_precision") is False:
        options["mixed_precision"] = "no"
    if found.get("use_cpu") is True:
        options["cpu"] = ""
    if kind.startswith("MULTI"):
        options["multi_gpu"] = ""
    return options


def _slots(path: str) -> list[int]:
    """The ranks of each node that a hostfile names; none if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return [int(slots) for slots in _HOST.findall(file.read(_LARGEST))]
    except OSError:
        return []


def _options(
    launcher: str, arguments: list[str], known: Mapping[str, bool], short: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        written = rest.pop(0)
        name, separator, value = written.lstrip("-").partition("=")
        name = short.get(name, name.replace("-", "_"))
        if name not in known:
            remedy = "set it in the script or in run.env, and omit the option here"
            raise _error(
                f"{launcher}: the job file has no key for {written.partition('=')[0]}", remedy
            )
        if known[name] and not separator:
            if not rest:
                raise _error(f"{launcher}: {written} requires a value", "complete the command")
            value = rest.pop(0)
        options[name] = value
    if not rest:
        raise _error(
            f"{launcher} does not start a script", "give the script or module after the options"
        )
    return options, rest


def _number(options: Mapping[str, str], name: str) -> int:
    """A number of things, 0 if it is not given. deepspeed's -1 is not given."""
    text = options.get(name, "0")
    try:
        return max(0, int(text))
    except ValueError:
        raise _error(f"--{name} {text!r} is not a number", "correct the command") from None


def _error(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("command", message, remedy))
