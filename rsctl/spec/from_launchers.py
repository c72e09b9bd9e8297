"""Reads the command lines of `accelerate launch` and `deepspeed` as torchrun's.

Options by https://github.com/huggingface/accelerate/blob/main/src/accelerate/commands/launch.py and
https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py. Where nodes meet
is rsctl's to decide, so such options are left out; one that says how the script trains and has no
counterpart is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rsctl.findings import ExitCode, RsctlError, error

_ACCELERATE = {
    **dict.fromkeys(("num_processes", "num_machines", "mixed_precision"), True),
    **dict.fromkeys(("num_cpu_threads_per_process", "gradient_accumulation_steps"), True),
    **dict.fromkeys(("cpu", "multi_gpu", "module", "quiet", "same_network"), False),
    **dict.fromkeys(("machine_rank", "main_process_ip", "main_process_port", "gpu_ids"), True),
    **dict.fromkeys(("rdzv_backend", "rdzv_conf", "monitor_interval", "role", "tee"), True),
    **dict.fromkeys(("log_dir", "max_restarts"), True),
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

_DEEPSPEED_SHORT = {"H": "hostfile", "i": "include", "e": "exclude"}


class Launched(NamedTuple):
    """What a launcher starts: `words` are the script or module with its arguments.

    `processes` are ranks on each node, 0 where the command line does not say how many; `remarks`
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
    nodes = _number(options, "num_machines") or 1
    ranks = _number(options, "num_processes")
    if ranks % nodes:
        message = (
            f"accelerate launch: {ranks} processes are not the same number on {nodes} machines"
        )
        raise _error(message, "let --num_processes be a multiple of --num_machines")
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
        remarks.append("deepspeed gives the script --local_rank=N; here LOCAL_RANK has it instead")
    for name in ("include", "exclude", "hostfile"):
        if name in options:
            remarks.append(f"--{name} {options[name]}: set workers.count and processes accordingly")
    is_module = "module" in options
    return Launched(words, is_module, _number(options, "num_nodes") or 1, ranks, {}, tuple(remarks))


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
            remedy = "set it up in the script or in run.env, and leave the option out here"
            raise _error(
                f"{launcher}: {written.partition('=')[0]} has no key in a job file", remedy
            )
        if known[name] and not separator:
            if not rest:
                raise _error(f"{launcher}: {written} wants a value", "complete the command")
            value = rest.pop(0)
        options[name] = value
    if not rest:
        raise _error(f"{launcher} starts no script", "give the script or module after the options")
    return options, rest


def _number(options: Mapping[str, str], name: str) -> int:
    """A number of things, 0 where it is not given. deepspeed's -1 is not given."""
    text = options.get(name, "0")
    try:
        return max(0, int(text))
    except ValueError:
        raise _error(f"--{name} {text!r} is not a number", "correct the command") from None


def _error(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("command", message, remedy))
