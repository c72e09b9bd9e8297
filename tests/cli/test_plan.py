"""`rsctl plan`: what would run, whole, and the same as what is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

import rsctl_start
from rsctl.api import Plan
from rsctl.cli.plan import plan_text
from rsctl.targets.local import process
from rsctl.targets.local.host import LocalMachine

from .conftest import Cli

JOB = """name: job
run: {script: train.py, args: {lr: 1.0e-5}, launcher: once}
image: {source: src}
"""
REPLICAS = "workers: {count: 3}\nreducers: {count: 2}\n"
CLUSTER = """\
"role": "worker", "index": 0, "workers": ["127.0.0.1"], "reducers": [], "interface":
      "lo\""""
PLAN_KEYS = ["run", "target", "image", "pools", "world_size", "env", "request", "findings"]


@pytest.fixture(autouse=True)
def fixed_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalMachine(cpus=8, gpus=0, python="/py", loopback="lo", may_lock_memory=False)
    monkeypatch.setattr(process.TARGET, "_host", host)


def test_a_plan_in_words(rsctl: Cli, rsctl_home: Path) -> None:
    done = rsctl("plan", rsctl.write(JOB))
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == f"""\
run         job-xxxxxx
target      process
image       none (transport: none)
workers     1 x this machine
world size  1

env:
  OMP_NUM_THREADS: '8'
  RSCTL_OUTPUT_DIR: {rsctl_home}/runs/job-xxxxxx/outputs
  RSCTL_CHECKPOINT_DIR: {rsctl_home}/runs/job-xxxxxx/checkpoints

commands:
- replica: worker-0
  role: worker
  argv:
  - /py
  - {rsctl_start.__file__}
  - rsctl.node.launch
  - --launcher
  - once
  - --python
  - --
  - train.py
  - --lr
  - 1e-05
  cwd: {rsctl.folder}/src
  env:
    OMP_NUM_THREADS: '8'
    RSCTL_OUTPUT_DIR: {rsctl_home}/runs/job-xxxxxx/outputs
    RSCTL_CHECKPOINT_DIR: {rsctl_home}/runs/job-xxxxxx/checkpoints
    RSCTL_RUN: job-xxxxxx
    RSCTL_TARGET: process
    RSCTL_ROLE: worker
    RSCTL_REPLICA: worker-0
    RSCTL_CLUSTER: '{{{CLUSTER}}}'
"""
    )


def test_of_replicas_that_start_alike_one_is_shown(rsctl: Cli) -> None:
    job = rsctl.write(JOB.replace("source: src", "source: src, base: b") + REPLICAS)
    local = rsctl("plan", job).out
    assert local.count("- replica:") == 2
    assert local.endswith(
        """\
# worker-1, worker-2: as worker-0, but for env.RSCTL_REPLICA, env.RSCTL_CLUSTER
# reducer-1: as reducer-0, but for cwd, env.RSCTL_REPLICA, env.RSCTL_CLUSTER
# complete: -o json
"""
    )
    many = rsctl("plan", job, "--set", "workers.count=40").out
    assert "\n# worker-1 to worker-39: as worker-0, but for env.RSCTL_REPLICA" in many
    compose = rsctl("plan", job, "-t", "compose").out
    assert compose.count("container_name") - 2 == compose.count("but for container_name") == 2


def test_a_list_that_a_request_has_twice_is_written_twice(rsctl: Cli) -> None:
    shown = rsctl("plan", rsctl.write(JOB), "-o", "json").out
    words = ["true"]
    plan = replace(convert(json.loads(shown), Plan), request={"command": words, "check": words})
    assert plan_text(plan, []).endswith("\ncommand:\n- 'true'\ncheck:\n- 'true'\n")


def test_what_the_target_refuses_hides_no_other_error(rsctl: Cli) -> None:
    job = rsctl.write(JOB + "inputs: {train: gs://a-bucket/x}\n")
    done = rsctl("plan", job, "-t", "compose")
    assert (done.code, done.out) == (2, "")
    assert "target compose cannot reach gs://a-bucket/x" in done.err
    assert "target compose needs an image" in done.err


def test_a_plan_as_json_has_these_keys(rsctl: Cli) -> None:
    done = rsctl("plan", rsctl.write(JOB), "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == PLAN_KEYS
    assert list(done.json["image"]) == ["tag", "transport"]
    pool = ["role", "count", "machine", "accelerator", "gbps"]
    assert [list(item) for item in done.json["pools"]] == [pool]
    assert list(done.json["request"]) == ["commands"]
    assert done.json["findings"] == []


def test_a_plan_sends_and_stores_nothing(rsctl: Cli, rsctl_home: Path) -> None:
    rsctl.write(JOB.replace("source: src", "source: src, base: x"))
    for target in ("process", "compose"):
        assert rsctl("plan", "job.yaml", "-t", target).code == 0
    assert not rsctl_home.exists()
    assert sorted(path.name for path in rsctl.folder.iterdir()) == ["job.yaml", "src"]


def test_notes_and_warnings_are_talk_and_part_of_the_json(rsctl: Cli) -> None:
    rsctl.write(JOB + "limits: {spot: true}\n")
    done = rsctl("plan", "job.yaml", "-o", "json")
    assert done.err == ""
    [finding] = done.json["findings"]
    assert (finding["severity"], finding["path"], finding["line"]) == ("note", "limits.spot", 4)
    done = rsctl("plan", "job.yaml")
    assert done.err == (
        "job.yaml:4:16: note: limits.spot: target process does not use this: this machine is not "
        "preempted\n"
        "    limits: {spot: true}\n"
        "                   ^\n"
    )
    assert rsctl("plan", "job.yaml", "-q").err == ""


def test_a_job_with_mistakes_is_not_planned(rsctl: Cli) -> None:
    rsctl.write(JOB.replace("once", "twice"))
    done = rsctl("plan", "job.yaml", "-o", "json")
    assert done.code == 2
    expected = "run.launcher: expected one of torchrun, mpi, once, none"
    assert f"job.yaml:2:55: error: {expected}" in done.err
    [finding] = done.json["findings"]
    assert (finding["path"], finding["line"], finding["column"]) == ("run.launcher", 2, 55)
    assert rsctl("plan", "job.yaml").out == ""


def test_what_is_missing_is_not_pointed_at(rsctl: Cli) -> None:
    done = rsctl(
        "plan",
        rsctl.write(JOB.replace("image:", "x-image:").replace("script: train.py", "module: a")),
        "-t",
        "compose",
    )
    remedy = (
        "set image.base or image.dockerfile to build an image, or image.uri to use an existing one"
    )
    assert done.err == (
        f"job.yaml:1:1: error: image: target compose needs an image\n    -> {remedy}\n"
    )


def test_code_has_a_run_id_of_its_own(rsctl: Cli) -> None:
    rsctl.write(
        JOB + "targets: {vertex: {project: my-project, region: us-central1}}\n"
        "outputs: gs://a-bucket/x\n"
    )
    words = ("plan", "job.yaml", "-t", "vertex", "-o", "python")
    more = ("--set", "image.source=null", "--set", "image.uri=a/b:1", "--set", "run.launcher=none")
    command = ("--set", "run.script=null", "--set", "run.command=[python]")
    first, second = (rsctl(*words, *more, *command) for _ in range(2))
    assert first.code == 0, first.err
    assert first.out.splitlines()[0] != second.out.splitlines()[0]
    assert "job-xxxxxx" not in first.out


def test_the_cells_of_a_matrix_are_listed(rsctl: Cli) -> None:
    rsctl.write(JOB + "matrix: {workers.count: [1, 2], run.args.lr: [0.1], include: [{name: b}]}\n")
    done = rsctl("plan", "job.yaml")
    assert done.code == 0
    assert done.out.split("\n\n")[0].splitlines()[-4:] == [
        "matrix      3 cells",
        "            workers.count=1  run.args.lr=0.1",
        "            workers.count=2  run.args.lr=0.1",
        "            name=b",
    ]
    shown = rsctl("plan", "job.yaml", "-o", "json").json
    assert list(shown) == [*PLAN_KEYS, "cells"]
    assert shown["cells"] == [
        {"workers.count": 1, "run.args.lr": 0.1},
        {"workers.count": 2, "run.args.lr": 0.1},
        {"name": "b"},
    ]


def test_each_cell_of_a_matrix_is_checked(rsctl: Cli) -> None:
    """As `validate` does; a plan that only some cells can have is none."""
    rsctl.write(JOB + "matrix: {inputs.train: [src, gs://a-bucket/x]}\n")
    done = rsctl("plan", "job.yaml")
    assert (done.code, done.out) == (2, "")
    assert "target process cannot reach gs://a-bucket/x" in done.err
    assert rsctl("validate", "job.yaml").err == done.err
    refused = rsctl("plan", "job.yaml", "-o", "json")
    assert (refused.code, [f["path"] for f in refused.json["findings"]]) == (2, ["inputs.train"])


@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_code_is_of_one_job_and_not_of_a_matrix(rsctl: Cli, target: str) -> None:
    cloud = "targets: {vertex: {project: my-project, region: us-central1, staging: "
    cloud += "'gs://buc/x'}, sagemaker: {region: "
    cloud += "us-east-1, role: 'arn:aws:iam::123456789012:role/train', staging: 's3://buc/x'}}\n"
    image = {"vertex": "a/b:1", "sagemaker": "123456789012.dkr.ecr.us-east-1.amazonaws.com/b:1"}
    run = "run: {command: [python], launcher: none}\n"
    matrix = "matrix: {workers.count: [1, 2]}\n"
    rsctl.write(f"name: job\nimage: {{uri: '{image[target]}'}}\n{run}{cloud}{matrix}")
    words = ("plan", "job.yaml", "-t", target, "-o", "python")
    done = rsctl(*words)
    assert (done.code, done.out) == (2, "")
    assert "error: matrix: an SDK creates one job, not the cells of a matrix" in done.err
    one = rsctl(*words, "--set", "matrix=null", "--set", "workers.count=2")
    assert (one.code, one.err) == (0, "")


def test_code_for_a_folder_that_no_sdk_uploads(rsctl: Cli) -> None:
    for name in ("setup.py", "task.py"):
        (rsctl.folder / "src" / name).write_text("")
    rsctl.write(
        "name: job\nimage: {uri: 'a/b:1'}\nrun: {package: src, module: task, launcher: none}\n"
        "targets: {vertex: {project: my-project, region: us-central1, staging: 'gs://buc/x'}}\n"
    )
    done = rsctl("plan", "job.yaml", "-t", "vertex", "-o", "python")
    assert (done.code, done.out) == (2, "")
    assert "run.package: google-cloud-aiplatform does not upload folders" in done.err


def test_settings_and_the_run_id_are_in_the_plan(rsctl: Cli) -> None:
    rsctl.write(JOB)
    done = rsctl("plan", "job.yaml", "-o", "json", "--set", "workers.count=3", "--run-id", "job-1")
    assert done.json["run"] == "job-1"
    assert [c["env"]["RSCTL_RUN"] for c in done.json["request"]["commands"]] == ["job-1"] * 3
    assert done.json["world_size"] == 3


def test_a_plan_is_the_same_every_time(rsctl: Cli) -> None:
    rsctl.write(JOB.replace("source: src", "source: src, base: x, python: [numpy]"))
    for target in ("process", "compose"):
        first, second = (rsctl("plan", "job.yaml", "-o", "json", "-t", target) for _ in range(2))
        assert first.out == second.out


def test_a_source_that_cannot_be_read(rsctl: Cli) -> None:
    (rsctl.folder / "src" / ".dockerignore").mkdir()
    rsctl.write(JOB.replace("source: src", "source: src, base: x"))
    done = rsctl("plan", "job.yaml", "-t", "compose")
    assert (done.code, done.out) == (2, "")
    assert f"cannot read {rsctl.folder}/src/.dockerignore: Is a directory" in done.err


def test_a_rehearsal_needs_no_values_of_an_account(rsctl: Cli, tmp_path: Path) -> None:
    job = tmp_path / "cloud.yaml"
    job.write_text(
        "name: x\ntarget: vertex\nrun: {script: t.py}\nimage: {uri: 'docker.io/a/b:1'}\n"
        "workers: {machine: n1-standard-4}\nmatrix: {workers.count: [1, 2]}\n"
    )
    assert rsctl("plan", str(job)).code == 2
    done = rsctl("plan", str(job), "--rehearse")
    assert done.code == 0
    assert "per hour on demand" in done.out
    assert "this rehearsal uses: targets.vertex.project: rehearsal" in done.err
    assert rsctl("plan", str(job), "--rehearse", "--target", "process").code == 2


def test_a_batch_script_in_words(rsctl: Cli) -> None:
    """What belongs to the job is shown, and how to see the rest."""
    slurm = JOB + "limits: {timeout: 1h}\ntargets: {slurm: {shared: /shared}}\n"
    shown = rsctl("plan", rsctl.write(slurm), "-t", "slurm").out.splitlines()
    assert "#SBATCH --time=60" in shown
    assert [line.split()[1:] for line in shown if line.startswith("workers")] == [
        ["1", "x", "any", "node"]
    ]
    mark, more = shown[-2:]
    assert mark == "# Everything below is the same in every job."
    count, _, said = more.removeprefix("# ").partition(" ")
    assert said == "lines; `rsctl plan JOB -o script` prints them"
    script = rsctl("plan", rsctl.write(slurm), "-t", "slurm", "-o", "script").out.splitlines()
    assert len(script) - script.index(mark) - 1 == int(count)
