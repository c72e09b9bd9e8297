"""A job's own roles: their plans, and how they end with the workers or by themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

import rsctl_start
from rsctl.findings import RsctlError
from rsctl.plan import make_plan
from rsctl.targets.base import Target
from rsctl.targets.capabilities import capability_findings
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.endings import WAKE_SECONDS, Endings
from rsctl.targets.local.info import PROCESS
from rsctl.targets.local.process import ProcessTarget
from tests.kit.docker import BASE, needs_docker

from ..conftest import Rsctl
from .planning import Render, a_host
from .planning import document as document
from .planning import plan as plan

JOB = """\
name: job
image: {base: "b:1", source: src}
run: {script: train.py, args: {lr: 0.1}, env: {A: "1", PASS: "${TOKEN}"}}
workers: {count: 2, accelerator: "l4:1"}
reducers: {count: 1}
comm: {compression: fp16}
targets: {compose: {cpus: 2}}
roles:
  ps: {count: 2, args: {lr: 0.2}, env: {A: "2"}, machine: m}
  evaluator: {module: eval, accelerator: "l4:2", ends: by-itself}
  cache: {image: "redis:7", command: [redis-server], args: [--save, ""]}
"""
ONCE = ["--launcher", "once", "--python", "--"]
ROLES = """\
import os, signal, sys, time
role, name = os.environ["RSCTL_ROLE"], os.environ["RSCTL_REPLICA"]
print(name, os.environ["RSCTL_ROLE_INDEX"], os.environ.get("NODE_RANK"), sys.argv[1:], flush=True)
mark = os.path.join(os.environ["RSCTL_OUTPUT_DIR"], role)
def wait_for(other):
    while not os.path.exists(os.path.join(os.environ["RSCTL_OUTPUT_DIR"], other)):
        time.sleep(0.01)
"""
WORKER = "wait_for('ps')\nopen(mark, 'w').close()\n"
PS = "open(mark, 'w').close()\nsignal.pause()\n"
EVALUATOR = 'wait_for(\'worker\')\nprint(\'{"rsctl": "metrics", "accuracy": 0.9}\')\n'


def test_as_processes(plan: Render) -> None:
    made = plan(JOB, ProcessTarget(a_host(gpus=5)))
    commands = {c["replica"]: c for c in made["request"]["commands"]}
    assert list(commands) == [
        *("worker-0", "worker-1", "reducer-0", "ps-0", "ps-1", "evaluator-0", "cache-0")
    ]
    python = ["/venv/bin/python", rsctl_start.__file__, "rsctl.node.launch"]
    assert commands["ps-1"]["argv"] == [*python, *ONCE, "train.py", "--lr", "0.2"]
    assert commands["evaluator-0"]["argv"] == [*python, *ONCE, "-m", "eval"]
    assert commands["cache-0"]["argv"] == ["redis-server", "--save", ""]
    env = commands["ps-1"]["env"]
    cluster = json.loads(env.pop("RSCTL_CLUSTER"))
    one = ["127.0.0.1"]
    assert (cluster["role"], cluster["index"]) == ("ps", 1)
    assert cluster["roles"] == {"ps": one * 2, "evaluator": one}
    assert env == {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "2",
        "A": "2",
        "PASS": None,
        "RSCTL_OUTPUT_DIR": "/home/runs/job-1/outputs",
        "RSCTL_CHECKPOINT_DIR": "/home/runs/job-1/checkpoints",
        "RSCTL_RUN": "job-1",
        "RSCTL_TARGET": "process",
        "RSCTL_ROLE": "ps",
        "RSCTL_REPLICA": "ps-1",
    }
    assert commands["evaluator-0"]["env"]["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert [(p["role"], p["count"], p["accelerator"]) for p in made["pools"]] == [
        ("worker", 2, "gpu:1"),
        ("reducer", 1, None),
        ("ps", 2, None),
        ("evaluator", 1, "gpu:2"),
        ("cache", 1, None),
    ]
    assert made["world_size"] == 2
    assert [(f["path"], f["message"]) for f in made["findings"] if "roles" in str(f["path"])] == [
        ("roles.ps.machine", "target process does not use this: the job runs on this machine"),
        ("roles.cache.image", "target process runs on this machine, without an image"),
    ]


def test_as_containers(plan: Render) -> None:
    made = plan(JOB, ComposeTarget(a_host(gpus=4)))
    services = made["request"]["compose"]["services"]
    evaluator, cache = services["evaluator-0"], services["cache-0"]
    assert evaluator["command"] == [*ONCE, "-m", "eval"]
    assert evaluator["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] == [
        *("2", "3")
    ]
    assert (evaluator["image"], evaluator["cpus"]) == (services["worker-0"]["image"], 2.0)
    assert (cache["image"], cache["entrypoint"], cache["command"], cache["pull_policy"]) == (
        "redis:7",
        ["redis-server"],
        ["--save", ""],
        "missing",
    )
    hosts = {
        "worker": ["worker-0:29500", "worker-1:29500"],
        "ps": ["ps-0:29500", "ps-1:29500"],
        "evaluator": ["evaluator-0:29500"],
        "cache": ["cache-0:29500"],
    }
    for name in ("worker-1", "ps-0", "cache-0"):
        assert json.loads(services[name]["environment"]["RSCTL_ROLE_HOSTS"]) == hosts
    cluster = json.loads(services["ps-1"]["environment"]["RSCTL_CLUSTER"])
    assert cluster["roles"] == {"ps": ["ps-0", "ps-1"], "evaluator": ["evaluator-0"]}


@pytest.mark.parametrize("target", [ProcessTarget(a_host(gpus=3)), ComposeTarget(a_host(gpus=3))])
def test_roles_get_the_gpus_that_workers_leave(plan: Render, target: Target) -> None:
    made = plan(JOB, target)
    assert [f["message"] for f in made["findings"] if f["code"] == "gpus"] == [
        "this machine has too few GPUs for role evaluator of l4:2: each node gets 1"
    ]


def test_an_image_that_processes_would_need(document: Any) -> None:
    text = JOB.replace(", command: [redis-server]", "")
    with pytest.raises(RsctlError) as refused:
        make_plan(document(text), ProcessTarget(a_host(gpus=5)), "job-1")
    assert [(f.path, f.message, f.remedy) for f in refused.value.findings if f.is_error] == [
        (
            "roles.cache.image",
            "target process runs no images, so it needs a command that exists on this machine",
            "set roles.cache.command",
        )
    ]


def test_a_target_that_does_not_know_the_key(document: Any) -> None:
    info = replace(PROCESS, name="mine", honoured=frozenset())
    found = capability_findings(document(JOB).require_job(), info)
    assert [(f.path, f.message, f.remedy) for f in found if f.is_error] == [
        (
            "roles",
            "target mine does not support the key: all its nodes are workers or reducers",
            "remove roles, or use another target",
        )
    ]


class TestEndings:
    names = ("worker-0", "worker-1", "ps-0", "evaluator-0", "reducer-0")
    roles: Any = {"ps": "with-workers", "evaluator": "by-itself"}

    def test_who_is_stopped_with_the_workers(self) -> None:
        endings = Endings(self.names, self.roles)
        assert [endings.workers_ended(ended) for ended in (["worker-1"], self.names[:2])] == [
            *(False, True)
        ]
        assert [name for name in self.names if endings.goes_on(name)] == ["evaluator-0"]

    def test_a_failure_is_judged_once_the_workers_have_had_time_to_end(self) -> None:
        endings = Endings(self.names, self.roles)
        assert endings.may_be_in_the_wake("ps-0")
        assert not endings.may_be_in_the_wake("evaluator-0")
        endings.wait_for_workers("ps-0", 10.0)
        assert endings.judged(False, False, 10.0 + WAKE_SECONDS / 2) == {}
        assert endings.judged(False, False, 10.0 + WAKE_SECONDS) == {"ps-0": False}
        assert endings.judged(True, False, 99.0) == {}

    def test_it_is_judged_at_once_when_all_is_known(self) -> None:
        for workers_ended, has_failed in ((True, False), (False, True)):
            endings = Endings(self.names, self.roles)
            endings.wait_for_workers("ps-0", 10.0)
            assert endings.judged(workers_ended, has_failed, 10.0) == {"ps-0": workers_ended}


def write(rsctl: Rsctl, evaluator: str = EVALUATOR, ps: str = PS, **keys: Any) -> str:
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        workers={"count": 2},
        roles={
            "ps": {"script": "ps.py", "args": ["-v"]},
            "evaluator": {"module": "evaluate", "ends": "by-itself"},
        },
        **keys,
    )
    (rsctl.folder / "source").mkdir(exist_ok=True)
    for name, text in (("train.py", WORKER), ("ps.py", ps), ("evaluate.py", evaluator)):
        (rsctl.folder / "source" / name).write_text(ROLES + text)
    return job


LINES = [
    "evaluator-0 | evaluator-0 0 None []",
    "ps-0        | ps-0 0 None ['-v']",
    "worker-0    | worker-0 0 0 []",
    "worker-1    | worker-1 1 1 []",
]


def shown(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if "accuracy" not in line)


def states(rsctl: Rsctl) -> dict[str, tuple[str, int, str | None]]:
    found = json.loads(rsctl("status", "@last", "-o", "json").stdout)
    return {r["replica"]: (r["state"], r["exit_code"], r["reason"]) for r in found["replicas"]}


def check(rsctl: Rsctl, job: str, target: str) -> None:
    done = rsctl("submit", job, "-t", target)
    assert (done.exit_code, shown(done.stdout)) == (0, LINES), done.stderr
    assert states(rsctl) == {
        "worker-0": ("succeeded", 0, None),
        "worker-1": ("succeeded", 0, None),
        "evaluator-0": ("succeeded", 0, None),
        "ps-0": ("succeeded", 143, "stopped after the workers had ended"),
    }
    assert rsctl("logs", "@last", "--role", "ps").stdout == "ps-0 | ps-0 0 None ['-v']\n"
    assert "0.9" in rsctl("metrics", "@last").stdout


def test_a_run_of_processes(rsctl: Rsctl) -> None:
    check(rsctl, write(rsctl), "process")
    unknown = rsctl("logs", "@last", "--role", "data")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "has no role 'data'" in unknown.stderr
    assert "it has worker, evaluator, ps" in unknown.stderr


@needs_docker
def test_a_run_of_containers(rsctl: Rsctl) -> None:
    check(rsctl, write(rsctl, image={"base": BASE}), "compose")


def test_a_role_that_ends_by_itself_and_fails(rsctl: Rsctl) -> None:
    job = write(rsctl, evaluator="sys.exit(3)\n")
    done = rsctl("submit", job, "-t", "process", "-o", "json")
    assert (done.exit_code, done.result["first_failure"]["replica"]) == (1, "evaluator-0")
    assert done.result["first_failure"]["exit_code"] == 3


def test_a_lost_parameter_server(rsctl: Rsctl) -> None:
    """The workers wait for what will not come."""
    job = write(rsctl, ps="sys.exit(4)\n")
    (rsctl.folder / "source" / "train.py").write_text(ROLES + "signal.pause()\n")
    done = rsctl("submit", job, "-t", "process", "-o", "json")
    assert (done.exit_code, done.result["first_failure"]["replica"]) == (1, "ps-0")
    found = states(rsctl)
    assert found["ps-0"] == ("failed", 4, None)
    assert found["worker-0"] == ("cancelled", 143, "stopped after ps-0 had failed")


def test_the_workers_are_stopped_whatever_the_code_of_a_role_is_then(rsctl: Rsctl) -> None:
    ps = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n" + PS
    done = rsctl("submit", write(rsctl, ps=ps), "-t", "process")
    assert done.exit_code == 0, done.stderr
    assert states(rsctl)["ps-0"] == ("succeeded", 9, "stopped after the workers had ended")


def test_nodes_of_roles_count_where_processes_share_cores(plan: Render) -> None:
    many = JOB.replace("count: 2, args", "count: 20, args")
    made = plan(many, ProcessTarget(a_host(gpus=5, cpus=6)))
    found = [f for f in made["findings"] if f["code"] == "oversubscription"]
    assert [f["path"] for f in found] == ["roles.ps.count"]
    assert found[0]["message"].startswith("2 ranks, 1 reducer and 22 nodes of roles share")
