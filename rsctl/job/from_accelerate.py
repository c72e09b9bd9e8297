"""Reads the command line of `accelerate launch` with its configuration.

`accelerate launch` starts ranks as torchrun does, and passes its plugins to `Accelerator()` by
variables. Source of options, defaults and variables: src/accelerate/commands/launch.py and
src/accelerate/utils/launch.py in https://github.com/huggingface/accelerate/tree/v1.15.0. Where
nodes meet is rsctl's to decide, so such options are only named; one that rsctl does not know is an
error.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from rsctl.job.launcher_options import RENDEZVOUS, Launched, Options, command_error, per_node, spec

_NAME = "accelerate launch"


def _table(names: str, prefix: str = "", default: str = "") -> dict[str, str]:
    """Settings with one default; an empty one means that no variable is set."""
    return {f"{prefix}{name}": default for name in names.split()}


_FSDP = {
    "fsdp_version": "1",
    "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_reshard_after_forward": "true",
    "fsdp_offload_params": "false",
    "fsdp_min_num_params": "100000000",
    "fsdp_forward_prefetch": "false",
    "fsdp_use_orig_params": "true",
    "fsdp_cpu_ram_efficient_loading": "true",
    "fsdp_sync_module_states": "true",
    "fsdp_activation_checkpointing": "false",
    "fsdp_activation_checkpointing_offload": "false",
    **_table(
        "auto_wrap_policy transformer_layer_cls_to_wrap backward_prefetch state_dict_type "
        "ignored_modules",
        "fsdp_",
    ),
}
"""The settings of a plugin with the values that `accelerate launch` sets where none is given."""

_DEEPSPEED = _table(
    "zero_stage gradient_accumulation_steps gradient_clipping zero3_init_flag "
    "offload_optimizer_device offload_param_device zero3_save_16bit_model deepspeed_config_file "
    "deepspeed_moe_layer_cls_names"
)
_MEGATRON = {
    "megatron_lm_tp_degree": "1",
    "megatron_lm_pp_degree": "1",
    "megatron_lm_gradient_clipping": "1.0",
    **_table(
        "use_custom_fsdp no_load_optim eod_mask_loss no_save_optim optimizer_cpu_offload "
        "use_precision_aware_optimizer overlap_cpu_optimizer_d2h_h2d",
        "megatron_lm_",
        "False",
    ),
    **_table(
        "num_micro_batches sequence_parallelism decoder_last_pipeline_num_layers "
        "recompute_activations use_distributed_optimizer recompute_granularity recompute_method "
        "recompute_num_layers attention_backend expert_model_parallel_size context_parallel_size "
        "attention_dropout hidden_dropout attention_softmax_in_fp32 expert_tensor_parallel_size "
        "calculate_per_token_loss use_rotary_position_embeddings",
        "megatron_lm_",
    ),
}
_PARALLELISM = {
    **_table("dp_replicate_size dp_shard_size tp_size cp_size sp_size", "parallelism_config_", "1"),
    "parallelism_config_cp_backend": "torch",
    "parallelism_config_sp_backend": "deepspeed",
    **_table(
        "cp_comm_strategy sp_seq_length sp_seq_length_is_variable sp_attn_implementation",
        "parallelism_config_",
    ),
}
_DYNAMO = {
    "dynamo_backend": "",
    "dynamo_mode": "default",
    **_table("fullgraph dynamic regional_compilation", "dynamo_use_", "False"),
}
_FP8 = _table(
    "backend use_autocast_during_eval margin interval format opt_level amax_history_len "
    "amax_compute_algo enable_fsdp_float8_all_gather pad_inner_dim",
    "fp8_",
)
_PREFIXES = {"fsdp_config": "fsdp_", "fp8_config": "fp8_", "dynamo_config": "dynamo_"}
"""Prefixes of the keys of a block, whether a configuration writes them or not."""

_VARIABLES = {
    "fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP",
    "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
    "zero3_init_flag": "ACCELERATE_DEEPSPEED_ZERO3_INIT",
    "zero3_save_16bit_model": "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
    "offload_optimizer_device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
    "offload_param_device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
}
"""Variables whose names do not follow from the setting's, which is in capitals for FSDP and others,
behind ACCELERATE_ for the rest."""

_PLAIN = ("fsdp_", "megatron_lm_", "parallelism_config_")
_FLAGS = "use_deepspeed use_fsdp use_megatron_lm use_parallelism_config cpu multi_gpu debug "
_FLAGS += "enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic "
_FLAGS += "dynamo_use_regional_compilation fp8_use_autocast_during_eval"
_OURS = (
    *RENDEZVOUS,
    *("same_network", "deepspeed_hostfile", "deepspeed_exclusion_filter"),
    *("deepspeed_inclusion_filter", "deepspeed_multinode_launcher"),
)
_TABLES = (_FSDP, _DEEPSPEED, _MEGATRON, _PARALLELISM, _DYNAMO, _FP8)
_SPEC = spec(
    none=f"module quiet same_network no_python {_FLAGS}",
    one="num_processes num_machines mixed_precision num_cpu_threads_per_process machine_rank "
    "main_process_ip main_process_port gpu_ids rdzv_backend rdzv_conf monitor_interval role tee "
    "log_dir max_restarts config_file offload_optimizer_nvme_path offload_param_nvme_path "
    "deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter "
    "deepspeed_multinode_launcher "
    + " ".join(name for table in _TABLES for name in table if name not in _FLAGS.split()),
)
_SHORT = {"m": "module", "q": "quiet", "t": "tee"}
_KINDS = {"FSDP": "use_fsdp", "DEEPSPEED": "use_deepspeed", "MEGATRON_LM": "use_megatron_lm"}
_AS_TORCHRUN = ("NO", "MULTI_GPU", "MULTI_CPU", "None")
"""The `distributed_type` of a configuration whose ranks are started without more."""

_WITHOUT_EFFECT = ("compute_environment", "distributed_type", "main_training_function")
_OFF = ("", "no", "false", "none", "[]")
_LARGEST = 1 << 20


class _Settings:
    """The options of the command line, and behind them the keys of a configuration."""

    def __init__(self, options: Options) -> None:
        self.options = options
        path = options.text("config_file")
        self.path = path = path or ("" if options.has("cpu") else _default_file())
        self.config = _flat(path, read_accelerate_config(path)) if path else {}
        self._used: set[str] = set()

    def text(self, name: str) -> str:
        """A value; empty if it is not given."""
        self._used.add(name)
        if given := self.options.all(name):
            return given[-1][0] if given[-1] else "True"
        return self.config.get(name, "")

    def is_on(self, name: str) -> bool:
        """Whether a flag is set."""
        return self.text(name).lower() == "true"

    def number(self, name: str) -> int:
        """A number of things; 0 if it is not given. Raises RsctlError."""
        text = self.text(name) or "0"
        if not text.isdigit():
            given = "the command" if self.options.has(name) else "--config_file"
            raise command_error(f"{_NAME}: {name} {text!r} is not a number", f"correct {given}")
        return int(text)

    def remarks(self) -> list[str]:
        """Lines that name what was not taken."""
        found = self.options.remarks(_OURS)
        rest = [
            f"{name}: {value}"
            for name, value in self.config.items()
            if name not in (*self._used, *_OURS, *_WITHOUT_EFFECT) and value.lower() not in _OFF
        ]
        if rest:
            found.append(f"{_NAME}: omitted {', '.join(rest)} of {self.path}: no key for it")
        if self.path and not self.options.has("config_file"):
            found.append(f"{_NAME}: read its default configuration {self.path}")
        return found


def accelerate(arguments: list[str]) -> Launched:
    """The arguments of `accelerate launch`. Raises RsctlError for an option that cannot be said."""
    options = Options(_NAME, arguments, _SPEC, _SHORT)
    settings = _Settings(options)
    nodes, ranks = settings.number("num_machines") or 1, settings.number("num_processes")
    keys = {}
    if restarts := options.number("max_restarts"):
        keys["limits.restarts_in_place"] = restarts
    is_multi, env = _plugins(settings)
    env = {**_basics(settings), **env}
    # Without a configuration it takes all GPUs.
    is_alone = not ranks and not is_multi and nodes == 1
    is_alone = is_alone and (bool(settings.path) or options.has("cpu"))
    each = 1 if is_alone else per_node(_NAME, ranks, nodes)
    kind = options.program_kind()
    return Launched(kind, options.program(), nodes, each, env, keys, tuple(settings.remarks()))


def read_accelerate_config(path: str) -> dict[str, Any]:
    """The content of the file of `accelerate config`.

    Raises RsctlError for a file that cannot be read.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            found: Any = yaml.safe_load(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        message = f"{_NAME}: cannot read {path}: {getattr(problem, 'strerror', '')}"
        raise command_error(message.rstrip(": "), "correct --config_file") from None
    return found if isinstance(found, dict) else {}


def _default_file() -> str:
    """The configuration that `accelerate launch` reads if none is given; empty without one."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    for name in ("default_config.yaml", "default_config.json"):
        path = os.path.expanduser(f"{folder}/accelerate/{name}")
        if os.path.isfile(path):
            return path
    return ""


def _flat(path: str, config: dict[str, Any]) -> dict[str, str]:
    """A configuration's values as text, those of its blocks by the names of options.

    Raises RsctlError for a kind of training that torchrun cannot start.
    """
    kind = config.get("distributed_type", "NO")
    kind = "NO" if kind is False else str(kind)  # what YAML reads of a plain `NO`
    where = str(config.get("compute_environment", "LOCAL_MACHINE"))
    if kind not in (*_AS_TORCHRUN, *_KINDS) or where != "LOCAL_MACHINE":
        is_elsewhere = where != "LOCAL_MACHINE"
        key = f"compute_environment: {where}" if is_elsewhere else f"distributed_type: {kind}"
        message = f"{_NAME}: the job file has no key for {key} in {path}"
        remedy = "give --num_machines and --num_processes here instead of --config_file"
        raise command_error(message, remedy)
    found: dict[str, str] = {}
    for name, value in config.items():
        block = value if isinstance(value, dict) else {name: value}
        prefix = _PREFIXES.get(str(name), "") if isinstance(value, dict) else ""
        for key, each in block.items():
            if each is not None:
                full = key if str(key).startswith(prefix) else f"{prefix}{key}"
                found[str(full)] = str(each)
    if config.get("mixed_precision") is False:
        found["mixed_precision"] = "no"
    if kind in _KINDS:
        found[_KINDS[kind]] = "True"
    if kind.startswith("MULTI"):
        found["multi_gpu"] = "True"
    if config.get("parallelism_config"):
        found["use_parallelism_config"] = "True"
    if fields := config.get("deepspeed_config"):
        given = [*fields, *(["mixed_precision"] if config.get("mixed_precision") else [])]
        found["config_ds_fields"] = ",".join(map(str, given))
    return found


def _basics(settings: _Settings) -> dict[str, str | None]:
    env: dict[str, str | None] = {}
    for name, variable in (
        ("mixed_precision", "ACCELERATE_MIXED_PRECISION"),
        ("gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"),
        ("num_cpu_threads_per_process", "OMP_NUM_THREADS"),
    ):
        if value := settings.text(name):
            env[variable] = value
    if settings.is_on("cpu") or settings.is_on("use_cpu"):
        env["ACCELERATE_USE_CPU"] = "true"
    if settings.is_on("debug"):
        env["ACCELERATE_DEBUG_MODE"] = "true"
    if settings.options.has("enable_cpu_affinity"):  # accelerate ignores the key
        env["ACCELERATE_CPU_AFFINITY"] = "1"
    if (gpus := settings.text("gpu_ids")) not in ("", "all"):
        env["CUDA_VISIBLE_DEVICES"] = gpus
    if settings.text("dynamo_backend").lower() not in _OFF:
        env |= _variables(settings, _DYNAMO)
        env["ACCELERATE_DYNAMO_BACKEND"] = settings.text("dynamo_backend").upper()
    if env.get("ACCELERATE_MIXED_PRECISION") == "fp8":
        env |= _variables(settings, _FP8)
    return env


def _plugins(settings: _Settings) -> tuple[bool, dict[str, str | None]]:
    """Whether there are several ranks by default, and the variables of FSDP and others."""
    if settings.is_on("cpu"):
        return settings.is_on("multi_gpu"), {}
    chosen = [flag for flag in _KINDS.values() if settings.options.has(flag)]
    chosen = chosen or [flag for flag in _KINDS.values() if settings.is_on(flag)]
    is_multi = settings.is_on("multi_gpu") or bool(chosen)
    env: dict[str, str | None] = {}
    if "use_fsdp" in chosen:
        env["ACCELERATE_USE_FSDP"] = "true"
        env |= _variables(settings, _FSDP, lowers=True)
    elif "use_deepspeed" in chosen:
        env["ACCELERATE_USE_DEEPSPEED"] = "true"
        if fields := settings.text("config_ds_fields"):
            env["ACCELERATE_CONFIG_DS_FIELDS"] = fields
        env |= _variables(settings, _DEEPSPEED, lowers=True)
    elif "use_megatron_lm" in chosen:
        env["ACCELERATE_USE_MEGATRON_LM"] = "true"
        env |= _variables(settings, _MEGATRON)
    if chosen and settings.is_on("use_parallelism_config"):
        env["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true"
        env |= _variables(settings, _PARALLELISM)
    return is_multi, env


def _variables(
    settings: _Settings, defaults: dict[str, str], *, lowers: bool = False
) -> dict[str, str | None]:
    """The variables of a plugin. `lowers` is whether accelerate writes true and false in lower
    case.
    """
    env: dict[str, str | None] = {}
    for name, default in defaults.items():
        value = settings.text(name) or default
        if lowers and value in ("True", "False"):
            value = value.lower()
        if value:
            plain = name.upper() if name.startswith(_PLAIN) else f"ACCELERATE_{name.upper()}"
            env[_VARIABLES.get(name, plain)] = value
    return env
