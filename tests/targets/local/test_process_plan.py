"""Target process: whole plans of jobs on a machine of our choice. Nothing is asked of this one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rsctl_start
from rsctl.targets.base import Target
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.process import ProcessTarget

from .planning import JOB, Render, a_host
from .planning import document as document
from .planning import plan as plan

FULL = """\
name: job
image: {source: src}
run:
  script: train.py
  args: {epochs: 3, lr: 2.0e-5, amp: true, debug: false, dims: [1, 2], name: a b, money: $5}
  env: {A: "1", PASS: "${TOKEN}", API_KEY: plain}
workers: {count: 2, accelerator: "l4:4"}
inputs: {train: data}
outputs: out
checkpoints: /ckpt
"""


def test_a_whole_plan(plan: Render, tmp_path: Path) -> None:
    common = {
        "OMP_NUM_THREADS": "2",
        "A": "1",
        "PASS": None,
        "API_KEY": None,
        "RSCTL_INPUT_TRAIN": f"{tmp_path}/data",
        "RSCTL_OUTPUT_DIR": f"{tmp_path}/out",
        "RSCTL_CHECKPOINT_DIR": "/ckpt",
    }
    words = ["--epochs", "3", "--lr", "2e-05", "--amp", "--dims", "1", "2", "--name", "a b"]
    launch = ["/venv/bin/python", rsctl_start.__file__, "rsctl.node.launch"]
    launch += ["--launcher", "torchrun", "--processes", "4", "--python", "--"]

    def command(index: int, gpus: str) -> dict[str, Any]:
        cluster = {
            "role": "worker",
            "index": index,
            "workers": ["127.0.0.1", "127.0.0.1"],
            "reducers": [],
            "interface": "lo",
        }
        return {
            "replica": f"worker-{index}",
            "role": "worker",
            "argv": [*launch, "train.py", *words, "--money", "$5"],
            "cwd": f"{tmp_path}/src",
            "env": {
                **common,
                "RSCTL_RUN": "job-1",
                "RSCTL_TARGET": "process",
                "RSCTL_ROLE": "worker",
                "RSCTL_REPLICA": f"worker-{index}",
                "RSCTL_CLUSTER": json.dumps(cluster),
                "CUDA_VISIBLE_DEVICES": gpus,
            },
        }

    shown = plan(FULL, ProcessTarget(a_host(gpus=8)))
    assert [finding["code"] for finding in shown.pop("findings")] == ["secret"]
    assert shown == {
        "run": "job-1",
        "target": "process",
        "image": {"tag": None, "transport": "none"},
        "pools": [
            {
                "role": "worker",
                "count": 2,
                "machine": None,
                "accelerator": "gpu:4",
                "gbps": None,
            }
        ],
        "world_size": 8,
        "env": common,
        "inputs": [
            {
                "name": "train",
                "mode": "mount",
                "location": f"{tmp_path}/data",
                "path": f"{tmp_path}/data",
                "by": "not copied: a path on this machine",
            }
        ],
        "request": {"commands": [command(0, "0,1,2,3"), command(1, "4,5,6,7")]},
    }


def test_reducers_have_variables_of_their_own(plan: Render) -> None:
    text = (
        "name: job\nrun: {command: [a], launcher: once, env: {A: worker}}\nworkers: {count: 2}\n"
        "reducers: {count: 1, env: {A: reducer}}\ncomm: {backend: rsctl}\n"
    )
    commands = plan(text, ProcessTarget(a_host()))["request"]["commands"]
    assert [command["env"]["A"] for command in commands] == ["worker", "worker", "reducer"]


def test_without_locations_the_runs_folder_has_them(plan: Render) -> None:
    assert plan(JOB)["env"] == {
        "OMP_NUM_THREADS": "16",
        "RSCTL_OUTPUT_DIR": "/home/runs/job-1/outputs",
        "RSCTL_CHECKPOINT_DIR": "/home/runs/job-1/checkpoints",
    }


@pytest.mark.parametrize(
    ("gpus", "workers", "processes", "devices", "world", "threads", "reported"),
    [
        (8, "count: 2, accelerator: l4:4", 4, ["0,1,2,3", "4,5,6,7"], 8, "2", ""),
        (8, "count: 3, accelerator: l4:4", 2, ["0,1", "2,3", "4,5"], 6, "2", "each node gets 2"),
        (8, "count: 2, accelerator: l4:2", 2, ["0,1", "2,3"], 4, "4", ""),
        (8, "count: 2, accelerator: l4", 1, ["0", "1"], 2, "8", ""),
        (8, "count: 2", 1, ["", ""], 2, "8", ""),
        (1, "count: 2, accelerator: l4:4", 1, ["", ""], 2, "8", "the job runs on the CPU"),
        (0, "count: 1, accelerator: l4:8", 1, [None], 1, "16", "the job runs on the CPU"),
        (0, "count: 2, accelerator: l4:4, processes: 4", 4, [None] * 2, 8, "2", "runs on the CPU"),
        (8, "count: 2, accelerator: l4:4, processes: 2", 2, ["0,1,2,3", "4,5,6,7"], 4, "4", ""),
        (0, "count: 40", 1, [None] * 40, 40, "1", ""),
    ],
)
def test_gpus_ranks_and_threads_are_shared_out(
    plan: Render,
    gpus: int,
    workers: str,
    processes: int,
    devices: list[str | None],
    world: int,
    threads: str,
    reported: str,
) -> None:
    text = JOB.replace("once", "torchrun") + f"workers: {{{workers}}}\n"
    shown = plan(text, ProcessTarget(a_host(gpus)))
    commands = shown["request"]["commands"]
    assert [c["env"].get("CUDA_VISIBLE_DEVICES") for c in commands] == devices
    assert all(c["argv"][5:7] == ["--processes", str(processes)] for c in commands)
    assert shown["world_size"] == world
    assert shown["env"]["OMP_NUM_THREADS"] == threads
    notes = [finding["message"] for finding in shown["findings"]]
    assert len(notes) == bool(reported)
    assert all(reported in note for note in notes)


def test_who_chooses_gpus_in_the_job_has_them(plan: Render) -> None:
    text = JOB.replace("once", "once, env: {CUDA_VISIBLE_DEVICES: '7'}")
    [command] = plan(text, ProcessTarget(a_host(gpus=8)))["request"]["commands"]
    assert command["env"]["CUDA_VISIBLE_DEVICES"] == "7"


@pytest.mark.parametrize(
    ("run", "argv"),
    [
        ("script: train.py, launcher: once", ["--launcher", "once", "--python", "--", "train.py"]),
        (
            "module: pkg.train, launcher: once",
            ["--launcher", "once", "--python", "--", "-m", "pkg.train"],
        ),
        (
            "command: [bash, -c, 'echo $A'], launcher: once",
            ["--launcher", "once", "--", "bash", "-c", "echo $A"],
        ),
        (
            "script: train.py",
            ["--launcher", "torchrun", "--processes", "1", "--python", "--", "train.py"],
        ),
        (
            "command: [python, x.py], args: [--a, '']",
            ["--launcher", "torchrun", "--processes", "1", "--", "python", "x.py", "--a", ""],
        ),
    ],
)
def test_the_launcher_gets_the_command(plan: Render, run: str, argv: list[str]) -> None:
    text = JOB.replace("script: train.py, launcher: once", run)
    [command] = plan(text)["request"]["commands"]
    assert command["argv"] == ["/venv/bin/python", rsctl_start.__file__, "rsctl.node.launch", *argv]


def test_launcher_none_runs_the_command_as_it_is(plan: Render) -> None:
    run = "command: [echo, $A], args: {n: 1}, launcher: none"
    [command] = plan(JOB.replace("script: train.py, launcher: once", run))["request"]["commands"]
    assert command["argv"] == ["echo", "$A", "--n", "1"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("{}", []),
        ("[]", []),
        ("[--a, b c, 1, '-x']", ["--a", "b c", "1", "-x"]),
        ("{a: 1.0e-5, b: 10000000000000000}", ["--a", "1e-05", "--b", "10000000000000000"]),
        ("{c: 0.1}", ["--c", "0.1"]),
        ("{a: true, b: false, c: 'true'}", ["--a", "--c", "true"]),
        ("{a: [x, y z], b: []}", ["--a", "x", "y z", "--b"]),
        ("{learning_rate: 1, batch-size: 2}", ["--learning_rate", "1", "--batch-size", "2"]),
        ("{a: -1, b: '', c: '007'}", ["--a", "-1", "--b", "", "--c", "007"]),
    ],
)
@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_arguments_become_words(plan: Render, args: str, words: list[str], target: Target) -> None:
    text = JOB.replace("once", f"once, args: {args}").replace("src", "src, base: x")
    request = plan(text, target)["request"]
    if "compose" in request:
        found = request["compose"]["services"]["worker-0"]["command"]
    else:
        found = request["commands"][0]["argv"]
    assert found[found.index("train.py") + 1 :] == words
