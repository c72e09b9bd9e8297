"""A chief that differs from the other workers, as processes and in containers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import rsctl_start
from rsctl.findings import RsctlError
from rsctl.plan import make_plan
from rsctl.targets.base import Target
from rsctl.targets.capabilities import capability_findings
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.info import PROCESS
from rsctl.targets.local.process import ProcessTarget
from tests.kit.docker import BASE, needs_docker

from ..conftest import Rsctl, rehearsed
from .planning import Render, a_host
from .planning import document as document
from .planning import plan as plan

JOB = """\
name: job
image: {base: "b:1", source: src}
run: {script: train.py, args: {lr: 0.1, chief: n}, env: {A: "1", B: "1"}}
workers: {count: 3, accelerator: "l4:2"}
chief: {accelerator: "l4:1", args: {chief: y}, env: {B: "2", EXTRA: "${TOKEN}"}}
targets: {compose: {cpus: 2, memory: 1GB, chief: {memory: 4GB}}}
"""
WORDS = ["--python", "--", "train.py", "--lr", "0.1", "--chief"]
DIFFERENT = """\
import os, socket, sys, time
print(os.environ["RSCTL_REPLICA"], sys.argv[1:], os.environ["WHO"], os.environ.get("EXTRA"),
      os.environ["NODE_RANK"], os.environ["NNODES"], flush=True)
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if sys.argv[1] == "y":
    socket.create_server(("", address[1])).accept()
else:
    while socket.socket().connect_ex(address):
        time.sleep(0.01)
"""
"""On Vertex AI the chief's end is that of all, so it waits for the other worker."""


def launched(ranks: int, flag: str) -> list[str]:
    return ["--launcher", "torchrun", "--processes", str(ranks), *WORDS, flag]


def test_as_processes(plan: Render) -> None:
    made = plan(JOB, ProcessTarget(a_host(gpus=5)))
    commands = made["request"]["commands"]
    python = ["/venv/bin/python", rsctl_start.__file__, "rsctl.node.launch"]
    others = [*python, *launched(2, "n")]
    assert [c["argv"] for c in commands] == [[*python, *launched(1, "y")], others, others]
    names = ("CUDA_VISIBLE_DEVICES", "A", "B", "EXTRA")
    assert [[c["env"].get(name, "absent") for name in names] for c in commands] == [
        ["0", "1", "2", None],
        ["1,2", "1", "1", "absent"],
        ["3,4", "1", "1", "absent"],
    ]
    assert [(p["role"], p["count"], p["accelerator"]) for p in made["pools"]] == [
        ("worker", 1, "gpu:1"),
        ("worker", 2, "gpu:2"),
    ]
    assert (made["world_size"], made["env"]["B"]) == (5, "2")


def test_as_containers(plan: Render) -> None:
    made = plan(JOB, ComposeTarget(a_host(gpus=5)))
    services = made["request"]["compose"]["services"]
    commands = [launched(1, "y"), launched(2, "n"), launched(2, "n")]
    assert [s["command"] for s in services.values()] == commands
    gpus = [
        s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for s in services.values()
    ]
    assert gpus == [["0"], ["1", "2"], ["3", "4"]]
    assert [(s["cpus"], s["mem_limit"], s["shm_size"]) for s in services.values()] == [
        (2.0, 4 * 10**9, 1 << 30),
        (2.0, 10**9, 5 * 10**8),
        (2.0, 10**9, 5 * 10**8),
    ]
    assert [s["environment"].get("EXTRA", "absent") for s in services.values()] == [
        None,
        "absent",
        "absent",
    ]


@pytest.mark.parametrize("target", [ProcessTarget(a_host(gpus=4)), ComposeTarget(a_host(gpus=4))])
def test_too_few_gpus_are_shared_out_in_equal_parts(plan: Render, target: Target) -> None:
    made = plan(JOB, target)
    assert [(p["count"], p["accelerator"]) for p in made["pools"]] == [(3, "gpu:1")]
    assert [f["message"] for f in made["findings"] if f["code"] == "gpus"] == [
        "this machine has too few GPUs for 2 nodes of l4:2: each node gets 1, with 1 "
        "rank(s) per node"
    ]


def test_reducers_want_equally_many_ranks(document: Any) -> None:
    text = JOB + "reducers: {count: 1}\n"
    with pytest.raises(RsctlError) as refused:
        make_plan(document(text), ProcessTarget(a_host(gpus=5)), "job-1")
    assert [(f.path, f.message) for f in refused.value.findings if f.is_error] == [
        (
            "chief.accelerator",
            "the chief has 1 rank(s) and every other worker 2: reducers require the same number "
            "on all nodes",
        )
    ]


def test_mpi_starts_equally_many_ranks_on_all_nodes(document: Any) -> None:
    text = JOB.replace("args: {lr: 0.1, chief: n}", "launcher: mpi")
    text = text.replace("args: {chief: y}, ", "")
    with pytest.raises(RsctlError) as refused:
        make_plan(document(text), ComposeTarget(a_host(gpus=5)), "job-1")
    assert [(f.path, f.message, f.remedy) for f in refused.value.findings if f.code == "mpi"] == [
        (
            "chief.accelerator",
            "the chief has 1 rank(s) and every other worker 2: launcher mpi starts the same "
            "number on all nodes",
            "set workers.processes for the same number on all, or use launcher torchrun",
        )
    ]
    same = text.replace("workers: {count: 3", "workers: {count: 3, processes: 2")
    make_plan(document(same), ComposeTarget(a_host(gpus=5)), "job-1")


def test_a_target_that_does_not_know_the_key(document: Any) -> None:
    info = replace(PROCESS, name="mine", honoured=frozenset())
    found = capability_findings(document(JOB).require_job(), info)
    assert [(f.path, f.message, f.remedy) for f in found if f.is_error] == [
        (
            "chief",
            "target mine does not support the key: all workers are identical",
            "remove chief, or use another target",
        )
    ]


def write(rsctl: Rsctl, **keys: Any) -> str:
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once", "args": ["n"], "env": {"WHO": "worker"}},
        workers={"count": 2},
        chief={"args": ["y"], "env": {"WHO": "chief", "EXTRA": "${TOKEN}"}},
        **keys,
    )
    (rsctl.folder / "source").mkdir(exist_ok=True)
    (rsctl.folder / "source" / "train.py").write_text(DIFFERENT)
    return job


LINES = [
    "worker-0 | worker-0 ['y'] chief s3cret 0 2",
    "worker-1 | worker-1 ['n'] worker None 1 2",
]


def test_a_run_of_processes(rsctl: Rsctl) -> None:
    done = rsctl("submit", write(rsctl), "-t", "process", TOKEN="s3cret")
    assert done.exit_code == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == LINES


@needs_docker
def test_a_run_of_containers(rsctl: Rsctl) -> None:
    job = write(rsctl, image={"base": BASE})
    done = rsctl("submit", job, "-t", "compose", TOKEN="s3cret")
    assert done.exit_code == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == LINES


@pytest.mark.parametrize("cloud", ["vertex", "sagemaker"])
def test_a_rehearsal(rsctl: Rsctl, cloud: str) -> None:
    job = write(rsctl, image={"base": "b"})
    # SageMaker's chief may have no secret of its own.
    plain = ("--set", "chief.env.EXTRA=s3cret")
    done = rsctl("submit", job, *rehearsed(cloud), *plain, TOKEN="unused")
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "| rsctl: " not in line]
    assert sorted(line for line in lines if "worker-" in line and "{" not in line) == LINES
