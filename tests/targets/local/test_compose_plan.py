"""Target compose: whole compose files of jobs on a machine of our choice, without docker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.findings import RsctlError
from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.host import LocalMachine

Render = Callable[..., dict[str, Any]]
SHM = 1 << 30


def a_host(gpus: int = 0, lock: bool = True) -> LocalMachine:
    return LocalMachine(
        cpus=16,
        gpus=gpus,
        python="/venv/bin/python",
        loopback="lo",
        may_lock_memory=lock,
    )


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Render:
    """`plan(text)`: what `plan -o json` prints for run `job-1`, with home `/home`."""
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "src" / "train.py").touch()
    monkeypatch.setenv("RSCTL_HOME", "/home")

    def render(text: str, host: LocalMachine | None = None) -> dict[str, Any]:
        (tmp_path / "job.yaml").write_text(text)
        document = read(str(tmp_path / "job.yaml"), (), {"TOKEN": "s3cret"})
        made = make_plan(document, ComposeTarget(host or a_host()), "job-1").plan
        shown: dict[str, Any] = msgspec.to_builtins(made)
        return shown

    return render


JOB = """\
name: job
image: {uri: team/image:1}
run: {command: [python, train.py], launcher: once}
"""

FULL = """\
name: job
image: {uri: "team/image:1"}
run:
  command: [python, train.py, "$HOME"]
  args: {price: $5}
  env: {A: "$x ${TOKEN}", B: "$$y", C: plain}
workers: {count: 2, accelerator: "l4:4"}
inputs: {train: data}
outputs: out
checkpoints: /ck$pt
targets:
  compose: {network: {bandwidth: 1Gbit, delay: 0.5ms}, cpus: 1.5, memory: 1GB, gpus: 8}
"""


def bind(source: str, target: str) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": source,
        "target": f"/rsctl/{target}",
        "bind": {"create_host_path": False},
    }


def test_a_whole_plan(plan: Render, tmp_path: Path) -> None:
    common = {
        "OMP_NUM_THREADS": "1",
        "A": None,
        "B": "$$y",
        "C": "plain",
        "RSCTL_INPUT_TRAIN": "/rsctl/inputs/train",
        "RSCTL_OUTPUT_DIR": "/rsctl/outputs",
        "RSCTL_CHECKPOINT_DIR": "/rsctl/checkpoints",
        "RSCTL_NET_BANDWIDTH": "1000000000",
        "RSCTL_NET_DELAY": "0.000500",
    }

    def service(index: int, gpus: list[str]) -> dict[str, Any]:
        name = f"worker-{index}"
        cluster = {
            "role": "worker",
            "index": index,
            "workers": ["worker-0", "worker-1"],
            "reducers": [],
            "interface": "eth0",
        }
        launch = ["--launcher", "torchrun", "--processes", "4", "--"]
        devices = [{"driver": "nvidia", "device_ids": gpus, "capabilities": ["gpu"]}]
        return {
            "image": "team/image:1",
            "pull_policy": "missing",
            "container_name": f"rsctl-job-1-{name}",
            "hostname": name,
            "entrypoint": ["rsctl-launch"],
            "command": [*launch, "python", "train.py", "$$HOME", "--price", "$$5"],
            "environment": {
                **common,
                "B": "$$$$y",
                "RSCTL_RUN": "job-1",
                "RSCTL_TARGET": "compose",
                "RSCTL_ROLE": "worker",
                "RSCTL_REPLICA": name,
                "RSCTL_ATTEMPT": None,
                "RSCTL_READY": "/rsctl/ready",
                "RSCTL_CLUSTER": json.dumps(cluster),
            },
            "labels": {"rsctl.run": "job-1", "rsctl.role": "worker", "rsctl.replica": name},
            "networks": ["cluster"],
            "volumes": [
                bind(f"{tmp_path}/out", "outputs"),
                bind("/ck$$pt", "checkpoints"),
                bind("/home/runs/job-1/ready", "ready"),
                {**bind(f"{tmp_path}/data", "inputs/train"), "read_only": True},
            ],
            "shm_size": 500_000_000,
            "restart": "no",
            "logging": {"driver": "local", "options": {"max-size": "20m", "max-file": "2"}},
            "cpus": 1.5,
            "mem_limit": 1_000_000_000,
            "memswap_limit": 1_000_000_000,
            "cap_add": ["NET_ADMIN"],
            "deploy": {"resources": {"reservations": {"devices": devices}}},
            "ulimits": {"core": 0, "memlock": -1},
        }

    assert plan(FULL) == {
        "run": "job-1",
        "target": "compose",
        "image": {"tag": "team/image:1", "transport": "none"},
        "pools": [
            {"role": "worker", "count": 2, "machine": None, "accelerator": "gpu:4", "gbps": 1.0}
        ],
        "world_size": 8,
        "env": common,
        "inputs": [
            {
                "name": "train",
                "mode": "mount",
                "location": f"{tmp_path}/data",
                "path": "/rsctl/inputs/train",
                "by": "a bind mount",
            }
        ],
        "request": {
            "compose": {
                "name": "rsctl-job-1",
                "services": {
                    "worker-0": service(0, ["0", "1", "2", "3"]),
                    "worker-1": service(1, ["4", "5", "6", "7"]),
                },
                "networks": {"cluster": {"labels": {"rsctl.run": "job-1"}}},
            }
        },
        "findings": [],
    }


def services(shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = shown["request"]["compose"]["services"]
    return found


def test_reducers_have_variables_of_their_own_and_the_platform_is_the_images(plan: Render) -> None:
    text = (
        "name: job\nimage: {base: b, source: ., platform: linux/arm64}\nworkers: {count: 2}\n"
        "run: {command: [a], launcher: once, env: {A: worker}}\n"
        "reducers: {count: 1, env: {A: reducer $x}, disk: 10GB}\ncomm: {backend: rsctl}\n"
    )
    shown = plan(text)
    found = services(shown)
    assert found["reducer-0"]["environment"]["A"] == "reducer $$x"
    assert found["worker-1"]["environment"]["A"] == "worker"
    assert {service["platform"] for service in found.values()} == {"linux/arm64"}


def test_a_single_worker_may_have_a_reducer(plan: Render) -> None:
    text = "name: job\nimage: {base: b, source: .}\nrun: {command: [a], launcher: once}\n"
    found = services(plan(f"{text}reducers: {{count: 1}}\ncomm: {{backend: rsctl}}\n"))
    assert list(found) == ["worker-0", "reducer-0"]
    commands = [service["command"] for service in found.values()]
    assert commands[0] == commands[1]  # each program finds its role itself


def test_a_secret_is_named_but_not_given(plan: Render) -> None:
    assert "s3cret" not in json.dumps(plan(FULL))


def test_a_plain_job_asks_for_nothing_special(plan: Render) -> None:
    worker = services(plan(JOB))["worker-0"]
    for key in ("cpus", "mem_limit", "memswap_limit", "cap_add", "deploy"):
        assert key not in worker
    assert worker["shm_size"] == SHM
    assert worker["volumes"] == [
        bind("/home/runs/job-1/outputs", "outputs"),
        bind("/home/runs/job-1/checkpoints", "checkpoints"),
        bind("/home/runs/job-1/ready", "ready"),
    ]


def test_where_memory_cannot_be_locked_it_is_not_asked_for(plan: Render) -> None:
    assert services(plan(JOB, a_host(lock=False)))["worker-0"]["ulimits"] == {"core": 0}


@pytest.mark.parametrize(
    ("memory", "shm"), [("512MB", 256_000_000), ("64GB", SHM), ("2GiB", SHM), ("1MB", 500_000)]
)
def test_shared_memory_is_at_most_half_of_the_memory(plan: Render, memory: str, shm: int) -> None:
    worker = services(plan(JOB + f"targets: {{compose: {{memory: {memory}}}}}\n"))["worker-0"]
    assert worker["shm_size"] == shm


@pytest.mark.parametrize(
    ("host_gpus", "option", "devices"),
    [
        (8, "auto", [["0", "1", "2", "3"], ["4", "5", "6", "7"]]),
        (8, "4", [["0", "1"], ["2", "3"]]),
        (8, "0", [None, None]),
        (1, "auto", [None, None]),
        (0, "auto", [None, None]),
        (0, "8", [["0", "1", "2", "3"], ["4", "5", "6", "7"]]),
    ],
)
def test_gpus_are_shared_out(
    plan: Render, host_gpus: int, option: str, devices: list[list[str] | None]
) -> None:
    keys = f"workers: {{count: 2, accelerator: 'l4:4'}}\ntargets: {{compose: {{gpus: {option}}}}}\n"
    shown = plan(JOB + keys, a_host(host_gpus))
    found = [
        worker["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        if "deploy" in worker
        else None
        for worker in services(shown).values()
    ]
    assert found == devices
    assert bool(shown["findings"]) == (devices[0] is None or len(devices[0]) < 4)


@pytest.mark.parametrize(
    ("run", "entry"),
    [
        (
            "command: [python, x.py], launcher: none",
            {"entrypoint": ["python", "x.py"], "command": None},
        ),
        (
            "command: [python, x.py], args: [a, b], launcher: none",
            {"entrypoint": ["python", "x.py"], "command": ["a", "b"]},
        ),
        ("args: {n: 1}, launcher: none", {"entrypoint": None, "command": ["--n", "1"]}),
        ("launcher: none", {"entrypoint": None, "command": None}),
    ],
)
def test_with_launcher_none_the_image_keeps_what_is_not_given(
    plan: Render, run: str, entry: dict[str, Any]
) -> None:
    text = JOB.replace("command: [python, train.py], launcher: once", run)
    worker = services(plan(text))["worker-0"]
    assert {name: worker.get(name) for name in entry} == entry


def test_an_image_is_built_or_pulled(plan: Render) -> None:
    built = plan(JOB.replace("uri: team/image:1", "base: python, source: src"))
    tag = built["image"]["tag"]
    assert tag.startswith("rsctl/job:")
    worker = services(built)["worker-0"]
    assert (worker["image"], worker["pull_policy"]) == (tag, "never")
    assert services(plan(JOB))["worker-0"]["pull_policy"] == "missing"


def test_what_is_left_out_of_the_image_is_reported(plan: Render, tmp_path: Path) -> None:
    for name in ("a.pyc", "b.pyc", "c.pyc", "d.pyc", "e.pyc", "f.pyc", ".env"):
        (tmp_path / "src" / name).touch()
    findings = plan(JOB.replace("uri: team/image:1", "base: python, source: src"))["findings"]
    assert {finding["severity"] for finding in findings} == {"note"}
    assert [finding["message"] for finding in findings if finding["code"] == "left-out"] == [
        "not in the image: .env (may contain credentials)",
        "not in the image: a.pyc, b.pyc, c.pyc, d.pyc, e.pyc and 1 more (generated by tools, "
        "which generate it again when needed)",
    ]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (JOB.replace("uri: team/image:1", "source: src"), "image"),
        (JOB.replace("uri: team/image:1", "uri: team/image:1, source: src"), "image.source"),
        (
            JOB.replace("once", "none") + "targets: {compose: {network: {bandwidth: 1Gbit}}}\n",
            "targets.compose.network",
        ),
        (
            JOB.replace("once", "none") + "targets: {compose: {network: {delay: 1ms}}}\n",
            "targets.compose.network",
        ),
    ],
)
def test_what_it_cannot_do_is_an_error_with_a_remedy(plan: Render, text: str, path: str) -> None:
    with pytest.raises(RsctlError) as caught:
        plan(text)
    [finding] = (f for f in caught.value.findings if f.is_error)
    assert finding.path == path
    assert finding.line
    assert finding.remedy


def test_the_compose_file_is_one_that_compose_takes_as_it_is(plan: Render) -> None:
    """Every `$` of the job is doubled, wherever it stands; nothing else may be replaced."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for item in value.values() for text in texts(item)]
        if isinstance(value, list):
            return [text for item in value for text in texts(item)]
        return [value] if isinstance(value, str) else []

    for text in texts(services(plan(FULL))):
        assert text.replace("$$", "").count("$") == 0
