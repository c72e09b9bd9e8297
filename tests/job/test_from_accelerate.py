"""`accelerate launch` with its plugins: the variables are those that accelerate itself sets."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.job.from_command import read_command

PACKAGES = os.environ.get("FRAMEWORKS", "")

ACCELERATE = """
import contextlib, json, os, sys
from unittest.mock import patch
from accelerate.commands import launch
from accelerate.utils import launch as variables

found = {}

def simple(args):
    found.update(variables.prepare_simple_launcher_cmd_env(args)[1])

def multi(args):
    found.update(variables.prepare_multi_gpu_env(args))

def deepspeed(args):
    found.update(variables.prepare_deepspeed_cmd_env(args)[1])

launchers = {"simple_launcher": simple, "multi_gpu_launcher": multi}
launchers["deepspeed_launcher"] = deepspeed
with patch.multiple(launch, **launchers), patch.object(variables, "is_fp8_available", lambda: True):
    for line in json.load(sys.stdin):
        found.clear()
        launch.launch_command(launch.launch_command_parser().parse_args(line))
        new = {name: value for name, value in found.items() if os.environ.get(name) != value}
        print("found", json.dumps(new))
"""

FSDP2 = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_version: 2
machine_rank: 0
main_process_ip: 10.0.0.1
main_process_port: 29511
main_training_function: main
mixed_precision: bf16
num_machines: 2
num_processes: 16
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""
ZERO3 = """
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  offload_optimizer_device: none
  offload_param_device: cpu
  zero3_init_flag: true
  zero3_save_16bit_model: true
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
COMPILED = """
distributed_type: MULTI_GPU
dynamo_config:
  dynamo_backend: INDUCTOR
  use_fullgraph: true
debug: true
enable_cpu_affinity: true
gpu_ids: 0,1
num_processes: 2
mixed_precision: fp16
"""
MEGATRON = """
distributed_type: MEGATRON_LM
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_gradient_clipping: 0.5
  megatron_lm_sequence_parallelism: true
num_processes: 4
"""
PARALLEL = """
distributed_type: FSDP
fsdp_config: {version: 2, state_dict_type: SHARDED_STATE_DICT}
parallelism_config: {parallelism_config_tp_size: 2, parallelism_config_dp_shard_size: 2}
num_processes: 4
"""
CONFIGS = {
    "fsdp2": FSDP2,
    "zero3": ZERO3,
    "compiled": COMPILED,
    "megatron": MEGATRON,
    "parallel": PARALLEL,
}
LINES = [
    *(f"--config_file {name}.yaml train.py" for name in CONFIGS),
    "--use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --fsdp_offload_params True"
    " --fsdp_transformer_layer_cls_to_wrap BertLayer --num_processes 4 train.py",
    "--use_deepspeed --deepspeed_config_file ds.json --num_processes 4 train.py",
    "--use_deepspeed --zero_stage 2 --zero3_init_flag False --num_processes 4 train.py",
    "--config_file fsdp2.yaml --fsdp_version 1 --fsdp_backward_prefetch BACKWARD_PRE"
    " --num_processes 4 --num_machines 1 train.py",
    "--config_file zero3.yaml --gradient_accumulation_steps 2 train.py",
    "--multi_gpu --num_processes 2 --mixed_precision fp8 --fp8_backend te"
    " --fp8_format E4M3 train.py",
    "--multi_gpu --num_processes 2 --dynamo_backend inductor --dynamo_mode max-autotune train.py",
    "--cpu --num_processes 1 --enable_cpu_affinity train.py",
]
UNSET = ("ACCELERATE_DYNAMO_", "ACCELERATE_FP8_")
DEFAULTS = {("ACCELERATE_MIXED_PRECISION", "no"), ("ACCELERATE_USE_CPU", "False")}
DEFAULTS |= {("ACCELERATE_CONFIG_DS_FIELDS", "")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "train.py").touch()
    for name, text in CONFIGS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.skipif(
    not PACKAGES and os.environ.get("CI") != "true", reason="FRAMEWORKS: see .ci/frameworks"
)
def test_the_variables_of_the_real_accelerate(folder: Path, torch_forks: dict[str, str]) -> None:
    """Without its defaults, which `Accelerator()` has without the variables too."""
    path = f"{torch_forks['PYTHONPATH']}{os.pathsep}{PACKAGES}"
    environ = {**os.environ, **torch_forks, "PYTHONPATH": path, "HOME": str(folder)}
    (folder / "launch.py").write_text(ACCELERATE)
    done = subprocess.run(
        [sys.executable, str(folder / "launch.py")],
        input=json.dumps([shlex.split(line) for line in LINES]),
        env={name: value for name, value in environ.items() if name != "OMP_NUM_THREADS"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    theirs = [json.loads(line[6:]) for line in done.stdout.splitlines() if line[:6] == "found "]
    assert len(theirs) == len(LINES)
    for line, its in zip(LINES, theirs, strict=True):
        ours = read_command(["accelerate", "launch", *shlex.split(line)]).env
        about = ("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_", "CUDA_")
        its = {name: value for name, value in its.items() if name.startswith(about)}
        lacking = {n: v for n, v in its.items() if n not in ours and not n.startswith(UNSET)}
        assert not set(lacking.items()) - DEFAULTS, line
        assert {n: v for n, v in ours.items() if its.get(n, "").lower() != str(v).lower()} == {}


def test_nodes_ranks_and_what_is_omitted() -> None:
    found = read_command(["accelerate", "launch", "--config_file", "fsdp2.yaml", "train.py"])
    assert (found.nodes, found.processes, found.remarks) == (2, 8, ())
    assert found.env["FSDP_TRANSFORMER_CLS_TO_WRAP"] == "LlamaDecoderLayer"


def test_a_key_of_a_configuration_that_has_no_counterpart_is_named(folder: Path) -> None:
    (folder / "a.yaml").write_text("mpirun_config: {mpirun_hostfile: hosts}\ndowncast_bf16: yes\n")
    found = read_command(["accelerate-launch", "--config_file", "a.yaml", "train.py"])
    assert found.remarks == (
        "accelerate launch: omitted mpirun_hostfile: hosts, downcast_bf16: True of a.yaml: no key "
        "for it",
    )


def test_without_an_option_the_default_configuration_counts(folder: Path) -> None:
    (folder / "hf" / "accelerate").mkdir(parents=True)
    path = folder / "hf" / "accelerate" / "default_config.yaml"
    path.write_text(ZERO3)
    found = read_command(["accelerate", "launch", "train.py"])
    assert (found.nodes, found.processes) == (1, 8)
    assert found.env["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == "3"
    assert found.remarks == (f"accelerate launch: read its default configuration {path}",)
    assert read_command(["accelerate", "launch", "--cpu", "train.py"]).env == {
        "ACCELERATE_USE_CPU": "true"
    }


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("distributed_type: XLA", "distributed_type: XLA in a.yaml"),
        ("compute_environment: AMAZON_SAGEMAKER", "compute_environment: AMAZON_SAGEMAKER in a"),
    ],
)
def test_kinds_that_torchrun_cannot_start(folder: Path, config: str, named: str) -> None:
    (folder / "a.yaml").write_text(config)
    with pytest.raises(RsctlError, match=f"the job file has no key for {named}"):
        read_command(["accelerate", "launch", "--config_file", "a.yaml", "train.py"])
