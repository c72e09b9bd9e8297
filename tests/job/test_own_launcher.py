"""Launchers in a command that find each other, and what only looks like a launcher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MEETING = ["--rdzv-backend=c10d", "--rdzv-endpoint=head:29400"]


@pytest.mark.parametrize(
    "words",
    [
        ["torchrun", "--nnodes=2", *MEETING, "train.py"],
        ["torchrun", "--nnodes", "1:4", *MEETING, "-m", "train"],
        ["bash", "-c", "torchrun --nnodes=$NNODES --node-rank=$NODE_RANK train.py"],
        ["accelerate", "launch", "--config_file", "absent.yaml", "train.py"],
        ["sh", "-ec", "accelerate launch --num_machines 2 --machine_rank $NODE_RANK train.py"],
        ["deepspeed", "--hostfile", "/hosts", "train.py"],
        ["mpirun", "-H", "a:2,b:2", "python", "train.py"],
        ["python", "train.py", "--launcher", "torchrun"],
        ["bash", "-c", "echo 'not closed"],
        ["python", "-m", "pkg.torchrun"],
    ],
)
def test_what_may_be_right_passes(read_text: Any, words: list[str]) -> None:
    text = f"name: j\nrun: {{command: {json.dumps(words)}, launcher: once}}\n"
    text += "workers: {count: 2}\n"
    assert [each.message for each in read_text(text).findings if each.is_error] == []


def test_one_node_may_use_its_own_launcher(read_text: Any) -> None:
    text = "name: j\nrun: {command: [torchrun, --nproc-per-node, '2', train.py], launcher: once}\n"
    assert read_text(text).findings == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "num_machines: 1\n",
            "accelerate launch starts ranks on one node and the job has 2 nodes: each would train "
            "separately",
        ),
        (
            "{num_machines: 2, machine_rank: 0}\n",
            "accelerate launch has --machine_rank 0 and the job has 2 nodes: all would wait as "
            "node 0",
        ),
    ],
)
def test_the_file_of_accelerate_config(
    read_text: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text(config)
    text = "name: j\nworkers: {count: 2}\nrun:\n  launcher: once\n"
    text += "  command: [accelerate, launch, --config_file=nodes.yaml, train.py]\n"
    assert [each.message for each in read_text(text).findings if each.is_error] == [message]
