"""Target process: whole plans of jobs on a machine of our choice. Nothing is asked of this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.plan import make_plan
from rsctl.spec.document import Document, read
from rsctl.targets.base import Target
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.host import Host
from rsctl.targets.local.process import ProcessTarget
from rsctl.targets.work import secrets

Render = Callable[..., dict[str, Any]]


def a_host(gpus: int = 0, cpus: int = 16) -> Host:
    return Host(
        cpus=cpus,
        gpus=gpus,
        python="/venv/bin/python",
        home=Path("/home"),
        loopback="lo",
        may_lock_memory=True,
    )


@pytest.fixture
def document(tmp_path: Path) -> Callable[[str], Document]:
    """A job file beside a folder `src` with a script and a folder `data`."""
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "src" / "train.py").touch()

    def write(text: str) -> Document:
        (tmp_path / "job.yaml").write_text(text)
        return read(str(tmp_path / "job.yaml"), (), {"TOKEN": "s3cret"})

    return write


@pytest.fixture
def plan(document: Callable[[str], Document], monkeypatch: pytest.MonkeyPatch) -> Render:
    """`plan(text, target)`: what `plan -o json` prints for run `job-1`, with home `/home`."""
    monkeypatch.setenv("RSCTL_HOME", "/home")

    def render(text: str, target: Target | None = None) -> dict[str, Any]:
        made, _ = make_plan(document(text), target or ProcessTarget(a_host()), "job-1")
        shown: dict[str, Any] = msgspec.to_builtins(made)
        return shown

    return render


JOB = """\
name: job
image: {source: src}
run: {script: train.py, launcher: once}
"""

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
    launch = ["/venv/bin/python", "-m", "rsctl.runtime.launch"]
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
        "request": {"commands": [command(0, "0,1,2,3"), command(1, "4,5,6,7")]},
    }


def test_without_locations_the_runs_folder_has_them(plan: Render) -> None:
    assert plan(JOB)["env"] == {
        "OMP_NUM_THREADS": "16",
        "RSCTL_OUTPUT_DIR": "/home/runs/job-1/outputs",
        "RSCTL_CHECKPOINT_DIR": "/home/runs/job-1/checkpoints",
    }


@pytest.mark.parametrize(
    ("gpus", "workers", "processes", "devices", "world", "threads", "told"),
    [
        (8, "count: 2, accelerator: l4:4", 4, ["0,1,2,3", "4,5,6,7"], 8, "2", ""),
        (8, "count: 3, accelerator: l4:4", 2, ["0,1", "2,3", "4,5"], 6, "2", "each node gets 2"),
        (8, "count: 2, accelerator: l4:2", 2, ["0,1", "2,3"], 4, "4", ""),
        (8, "count: 2, accelerator: l4", 1, ["0", "1"], 2, "8", ""),
        (8, "count: 2", 1, ["", ""], 2, "8", ""),
        (1, "count: 2, accelerator: l4:4", 1, ["", ""], 2, "8", "it runs on the CPU"),
        (0, "count: 1, accelerator: l4:8", 1, [None], 1, "16", "it runs on the CPU"),
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
    told: str,
) -> None:
    text = JOB.replace("once", "torchrun") + f"workers: {{{workers}}}\n"
    shown = plan(text, ProcessTarget(a_host(gpus)))
    commands = shown["request"]["commands"]
    assert [c["env"].get("CUDA_VISIBLE_DEVICES") for c in commands] == devices
    assert all(c["argv"][5:7] == ["--processes", str(processes)] for c in commands)
    assert shown["world_size"] == world
    assert shown["env"]["OMP_NUM_THREADS"] == threads
    notes = [finding["message"] for finding in shown["findings"]]
    assert len(notes) == bool(told)
    assert all(told in note for note in notes)


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
    assert command["argv"] == ["/venv/bin/python", "-m", "rsctl.runtime.launch", *argv]


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


@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_tls_reaches_workers_and_reducers_with_a_secret_that_no_plan_shows(
    plan: Render, target: Target
) -> None:
    text = JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: true}")
    text = text.replace("src", "src, base: x")
    made = plan(text + "reducers: {count: 1}\n", target)
    request = made["request"]
    nodes = request["compose"]["services"].values() if "compose" in request else request["commands"]
    envs = [node.get("environment") or node["env"] for node in nodes]
    found = [(env["RSCTL_TRANSPORT_TLS"], env["RSCTL_TLS_IDENTITY"]) for env in envs]
    assert found == [("1", None)] * len(envs)
    assert len(envs) >= 2
    alone = plan(text, target)
    assert "RSCTL_TLS_IDENTITY" not in json.dumps(alone)
    notes = {finding["path"]: finding["message"] for finding in alone["findings"]}
    assert notes["run.env.RSCTL_TRANSPORT_TLS"] == (
        "RSCTL_TRANSPORT_TLS is not used: there are no reducers, and workers do not use it by "
        "themselves"
    )


def test_every_run_that_asks_for_tls_has_a_certificate_of_its_own(
    document: Callable[[str], Document],
) -> None:
    job = document(JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: 1}")).job
    assert job is not None
    made = [secrets(job, has_reducers=True) for _ in range(2)]
    assert [sorted(values) for values in made] == [["RSCTL_TLS_IDENTITY", "RSCTL_TOKEN"]] * 2
    assert made[0]["RSCTL_TLS_IDENTITY"] != made[1]["RSCTL_TLS_IDENTITY"]
    assert secrets(job, has_reducers=False) == {}


@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_an_unclear_wish_for_tls_is_an_error(plan: Render, target: Target) -> None:
    text = JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: perhaps}")
    with pytest.raises(RsctlError) as caught:
        plan(text.replace("src", "src, base: x") + "reducers: {count: 1}\n", target)
    [finding] = (f for f in caught.value.findings if f.is_error)
    assert (finding.message, finding.path, finding.remedy) == (
        "RSCTL_TRANSPORT_TLS must be 1 or 0, not 'perhaps'",
        "run.env.RSCTL_TRANSPORT_TLS",
        "write 1 or 0",
    )


FOREIGN = "run: {command: [x], launcher: none}"
REFUSED = [
    ("comm: {backend: smddp}", "unsupported", "comm.backend"),
    ("comm: {backend: nccl}", "comm", "comm.backend"),
    ("comm: {backend: rsctl}", "comm", "comm.backend"),
    ("inputs: {train: gs://bucket/x}", "unsupported", "inputs.train"),
    ("inputs: {train: s3://bucket/x}", "unsupported", "inputs.train"),
    ("outputs: gs://bucket/x", "unsupported", "outputs"),
    ("checkpoints: s3://bucket/x", "unsupported", "checkpoints"),
    (f"workers: {{count: 2}}\nreducers: {{count: 4}}\n{FOREIGN}", "unsupported", "reducers.count"),
    (f"comm: {{bucket_mb: 25}}\n{FOREIGN}", "unsupported", "comm"),
]


@pytest.mark.parametrize(("keys", "code", "path"), REFUSED)
@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_what_a_local_target_cannot_do_is_an_error_with_place_and_remedy(
    plan: Render, keys: str, code: str, path: str, target: Target
) -> None:
    job = JOB.replace("src", "src, base: x")
    if FOREIGN in keys:
        job = "\n".join(line for line in job.splitlines() if not line.startswith("run:")) + "\n"
    with pytest.raises(RsctlError) as caught:
        plan(job + keys, target)
    [finding] = (f for f in caught.value.findings if f.is_error)
    assert caught.value.exit_code == ExitCode.USAGE
    assert (finding.code, finding.path) == (code, path)
    assert (finding.line or 0) > 2
    assert finding.remedy


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("workers: {machine: a2-highgpu-8g}", "workers.machine"),
        ("workers: {disk: 200GB}", "workers.disk"),
        ("reducers: {machine: n2-standard-8}", "reducers.machine"),
        ("workers: {count: 2}\nreducers: {count: auto}", "reducers.count"),
        ("limits: {queue: 30m}", "limits.queue"),
        ("limits: {spot: true}", "limits.spot"),
    ],
)
@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_what_a_local_target_does_not_use_is_a_note(
    plan: Render, keys: str, path: str, target: Target
) -> None:
    findings = plan(JOB.replace("src", "src, base: x") + keys, target)["findings"]
    found = [(f["severity"], f["path"]) for f in findings if f["severity"] != "note" or f["path"]]
    assert ("note", path) in found
    assert not [f for f in findings if f["severity"] == "error"]


def test_what_belongs_to_images_is_a_note_for_processes(plan: Render) -> None:
    image = "source: src, base: x, python: [numpy], apt: [git], transport: efa"
    findings = plan(JOB.replace("source: src", image))["findings"]
    assert [(f["severity"], f["path"]) for f in findings] == [
        ("note", "image.base"),
        ("note", "image.python"),
        ("note", "image.apt"),
        ("note", "image.transport"),
    ]


def test_the_blocks_of_other_targets_are_no_matter(plan: Render) -> None:
    keys = "targets: {vertex: {project: p}, sagemaker: {region: r}, compose: {cpus: 2}}\n"
    assert plan(JOB + keys)["findings"] == []
