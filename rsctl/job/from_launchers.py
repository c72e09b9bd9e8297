"""Reads the command lines of `accelerate launch` and `deepspeed`.

Options by https://github.com/huggingface/accelerate/blob/main/src/accelerate/commands/launch.py and
https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py. Where nodes meet
is rsctl's to decide, so such options are only named; one that rsctl does not know is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rsctl.job.launcher_options import Launched, Options, command_error, per_node, spec

_ACCELERATE = spec(
    none="cpu multi_gpu module quiet same_network no_python debug",
    one="num_processes num_machines mixed_precision num_cpu_threads_per_process "
    "gradient_accumulation_steps machine_rank main_process_ip main_process_port gpu_ids "
    "rdzv_backend rdzv_conf monitor_interval role tee log_dir max_restarts config_file",
)
_ACCELERATE_SHORT = {"m": "module", "q": "quiet", "t": "tee"}
_ACCELERATE_OURS = (
    *("machine_rank", "main_process_ip", "main_process_port", "rdzv_backend", "rdzv_conf"),
    *("same_network", "multi_gpu"),
)
_DEEPSPEED = spec(
    none="module no_local_rank no_ssh no_ssh_check force_multi save_pid bind_cores_to_rank "
    "no_python",
    one="num_nodes num_gpus num_accelerators include exclude hostfile master_port master_addr "
    "node_rank launcher launcher_args ssh_port comment account enable_each_rank_log "
    "bind_core_list",
)
_DEEPSPEED_OURS = (
    *("master_port", "master_addr", "node_rank", "launcher", "launcher_args", "ssh_port"),
    *("no_ssh", "no_ssh_check", "force_multi"),
)

_ACCELERATE_ENV = {
    "mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "num_cpu_threads_per_process": "OMP_NUM_THREADS",
}
_FROM_CONFIG = ("num_processes", "num_machines", "mixed_precision")
_AS_TORCHRUN = ("NO", "MULTI_GPU", "MULTI_CPU", "None")
"""The `distributed_type` of accelerate's configuration whose ranks are started without more."""

_LARGEST = 1 << 20
_HOST = re.compile(r"(?m)^[ \t]*[\w.:-]+[ \t]+slots=([0-9]{1,4})[ \t]*(?:#.*)?$")
_DEEPSPEED_SHORT = {"H": "hostfile", "i": "include", "e": "exclude"}


def accelerate(arguments: list[str]) -> Launched:
    """The arguments of `accelerate launch`. Raises RsctlError for an option that cannot be said."""
    options = Options("accelerate launch", arguments, _ACCELERATE, _ACCELERATE_SHORT)
    path = options.text("config_file")
    config = _accelerate_config(path) if path else {}
    nodes = options.number("num_machines") or _number(config, "num_machines") or 1
    ranks = options.number("num_processes") or _number(config, "num_processes")
    env: dict[str, str | None] = {}
    for name, variable in _ACCELERATE_ENV.items():
        if value := options.text(name) or config.get(name, ""):
            env[variable] = value
    if options.has("cpu") or "cpu" in config:
        env["ACCELERATE_USE_CPU"] = "true"
    if (gpus := options.text("gpu_ids")) not in ("", "all"):
        env["CUDA_VISIBLE_DEVICES"] = gpus
    keys = {}
    if restarts := options.number("max_restarts"):
        keys["limits.restarts_in_place"] = restarts
    is_multi = options.has("multi_gpu") or "multi_gpu" in config
    is_alone = not ranks and not is_multi and nodes == 1
    each = 1 if is_alone else per_node("accelerate launch", ranks, nodes)
    remarks = tuple(options.remarks(_ACCELERATE_OURS))
    return Launched(_kind(options), options.program(), nodes, each, env, keys, remarks)


def deepspeed(arguments: list[str]) -> Launched:
    """The arguments of `deepspeed`. Raises RsctlError for an option that cannot be said."""
    options = Options("deepspeed", arguments, _DEEPSPEED, _DEEPSPEED_SHORT)
    ranks = options.number("num_gpus") or options.number("num_accelerators")
    remarks = []
    if not options.has("no_local_rank"):
        remarks.append(
            "deepspeed passes --local_rank=N to the script; rsctl sets LOCAL_RANK instead"
        )
    nodes = options.number("num_nodes")
    named = [name for name in ("include", "exclude", "hostfile") if options.text(name)]
    slots = _slots(options.text("hostfile")) if named == ["hostfile"] else []
    if len(set(slots)) == 1:
        nodes, ranks = nodes or len(slots), ranks or slots[0]
    for name in named:
        if not slots or len(set(slots)) > 1:
            value = options.text(name)
            remarks.append(f"--{name} {value}: set workers.count and processes accordingly")
    keys = {}
    if account := options.text("account"):
        keys["targets.slurm.account"] = account
    remarks += options.remarks(_DEEPSPEED_OURS)
    kind, words = _kind(options), options.program()
    return Launched(kind, words, nodes or 1, ranks, {}, keys, tuple(remarks))


def _kind(options: Options) -> str:
    if options.has("no_python"):
        return "command"
    return "module" if options.has("module") else "script"


def _number(config: Mapping[str, str], name: str) -> int:
    text = config.get(name, "0")
    if not text.isdigit():
        raise command_error(
            f"accelerate launch: {name} {text!r} is not a number", "correct --config_file"
        )
    return int(text)


def _accelerate_config(path: str) -> dict[str, str]:
    """The nodes, ranks and precision in the file of `accelerate config`. Raises RsctlError."""
    found = read_accelerate_config(path)
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
        raise command_error(message, remedy)
    options = {name: str(found[name]) for name in _FROM_CONFIG if found.get(name) is not None}
    if found.get("mixed_precision") is False:
        options["mixed_precision"] = "no"
    if found.get("use_cpu") is True:
        options["cpu"] = ""
    if kind.startswith("MULTI"):
        options["multi_gpu"] = ""
    return options


def read_accelerate_config(path: str) -> dict[str, Any]:
    """The content of the file of `accelerate config`.

    Raises RsctlError for a file that cannot be read.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            found: Any = yaml.safe_load(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        message = f"accelerate launch: cannot read {path}: {getattr(problem, 'strerror', '')}"
        raise command_error(message.rstrip(": "), "correct --config_file") from None
    return found if isinstance(found, dict) else {}


def _slots(path: str) -> list[int]:
    """The ranks of each node that a hostfile names; none if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return [int(slots) for slots in _HOST.findall(file.read(_LARGEST))]
    except OSError:
        return []
