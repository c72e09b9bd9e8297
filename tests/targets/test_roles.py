"""The job as a role of its own has it, and where findings about that lie."""

from __future__ import annotations

from pathlib import Path

from rsctl.findings import error
from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.job.parameters import parameters_of
from rsctl.targets.launch_command import launch_arguments
from rsctl.targets.roles import role_findings, role_job
from rsctl.targets.variables import user_env

JOB = """\
name: job
run: {script: train.py, args: {lr: 0.1, data: d}, env: {A: "1", B: "1"}}
image: {base: "b:1"}
workers: {count: 3, accelerator: "l4:2", disk: 100GB}
chief: {args: {lr: 0.2}}
roles:
  ps: {count: 2, args: {data: false}, env: {B: "2", PASS: "${TOKEN}"}}
  evaluator: {script: eval.py, args: [-v], accelerator: "l4:1", ends: by-itself}
  cache: {image: "redis:7", command: [redis-server], disk: 50GB}
"""


def job(folder: Path) -> Job:
    for name in ("train.py", "eval.py"):
        (folder / name).touch()
    (folder / "job.yaml").write_text(JOB)
    return read(str(folder / "job.yaml"), (), {"TOKEN": "s3cret"}).require_job()


def test_a_role_starts_its_program_once_on_each_node(tmp_path: Path) -> None:
    roles = [role_job(job(tmp_path), name) for name in ("ps", "evaluator")]
    once = ["--launcher", "once", "--python", "--"]
    assert [launch_arguments(role, 4) for role in roles] == [
        [*once, "train.py", "--lr", "0.1"],
        [*once, "eval.py", "-v"],
    ]
    assert [user_env(role) for role in roles] == [
        {"A": "1", "B": "2", "PASS": None},
        {"A": "1", "B": "1"},
    ]
    assert [(role.workers.count, role.workers.accelerator) for role in roles] == [
        (2, None),
        (1, "l4:1"),
    ]


def test_an_image_of_its_own_has_nothing_of_rsctl(tmp_path: Path) -> None:
    role = role_job(job(tmp_path), "cache")
    assert (role.image.uri, role.run.launcher, role.run.command, role.run.script) == (
        "redis:7",
        "none",
        ["redis-server"],
        None,
    )
    assert role.workers.disk == 50e9


def test_findings_name_the_roles_keys(tmp_path: Path) -> None:
    machine = error("machine", "no l4:1", "set workers.machine", "workers.accelerator")
    script = error("file", "no script", None, "run.script")
    variable = error("env", "too long", None, "run.env.PASS")
    common = error("limits", "too long", None, "limits.timeout")
    given = (machine, script, variable, common)
    found = list(role_findings(job(tmp_path), "ps", given, [common]))
    assert [(f.path, f.message, f.remedy) for f in found] == [
        ("roles.ps.accelerator", "role ps: no l4:1", "set roles.ps.machine"),
        ("run.script", "role ps: no script", None),
        ("roles.ps.env.PASS", "role ps: too long", None),
    ]
    found = list(role_findings(job(tmp_path), "evaluator", [script], []))
    assert [f.path for f in found] == ["roles.evaluator.script"]


def test_parameters_have_no_variables(tmp_path: Path) -> None:
    found = parameters_of(job(tmp_path))
    assert {name: value for name, value in found.items() if name.startswith("roles.")} == {
        "roles.ps.count": 2,
        "roles.ps.args.data": False,
        "roles.evaluator.script": "eval.py",
        "roles.evaluator.args": '["-v"]',
        "roles.evaluator.accelerator": "l4:1",
        "roles.evaluator.ends": "by-itself",
        "roles.cache.image": "redis:7",
        "roles.cache.command": '["redis-server"]',
        "roles.cache.disk": 50_000_000_000,
    }
