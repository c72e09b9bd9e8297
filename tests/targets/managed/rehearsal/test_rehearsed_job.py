"""What a rehearsal makes of a job."""

from __future__ import annotations

import os
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from rsctl.findings import RsctlError
from rsctl.images.findings import recipe_of
from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.targets.base import ImagePlan, Placeholder, Plan, Pool, Submission
from rsctl.targets.managed.image import ensure_planned_image
from rsctl.targets.managed.rehearsal.buckets import bucket_folder
from rsctl.targets.managed.rehearsal.image import rehearsed_submission
from rsctl.targets.managed.rehearsal.job import complete_job, make_settings, rehearsal_findings
from rsctl.targets.managed.rehearsal.settings import EmulatorSettings

ACCOUNT = "123456789012"
REGISTRY = f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com"


def make_job(tmp_path: Path, **keys: Any) -> Job:
    (tmp_path / "train.py").touch()
    spec = {"name": "j", "run": {"script": "train.py"}, "image": {"base": "base:1"}, **keys}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(spec))
    return read(str(file)).require_job()


def make_plan(target: str, transport: str = "none", reducers: int = 0, tag: str = "r/j:1") -> Plan:
    pools = [Pool(role="worker", count=2), Pool(role="reducer", count=reducers)]
    return Plan(
        run="j-aaaaaa",
        target=target,
        image=ImagePlan(tag=tag, transport=transport),
        pools=[pool for pool in pools if pool.count],
        world_size=2,
        env={},
        request={},
    )


def told(findings: list[Any]) -> list[tuple[str, str | None, str]]:
    return [(finding.severity, finding.path, finding.message) for finding in findings]


def test_vertex_gets_what_only_an_account_has(tmp_path: Path) -> None:
    job, findings = complete_job(make_job(tmp_path), "vertex")
    options = job.targets.vertex
    assert (options.project, options.region) == ("rehearsal", "us-central1")
    assert options.staging == "gs://rsctl-rehearsal/staging"
    assert getattr(job.image.repository, "vertex", None) == (
        "us-central1-docker.pkg.dev/rehearsal/rehearsal/j"
    )
    [finding] = findings
    assert finding.severity == "note"
    for name in ("project", "region", "staging"):
        assert f"targets.vertex.{name}: {getattr(options, name)}" in finding.message
    assert "image.repository: us-central1-docker.pkg.dev/rehearsal/" in finding.message


def test_sagemaker_keeps_what_is_given(tmp_path: Path) -> None:
    given = {"region": "eu-west-1", "staging": "s3://mine/x"}
    repository = {"vertex": "us-docker.pkg.dev/p/r/j"}
    image = {"base": "base:1", "repository": repository}
    job, [finding] = complete_job(
        make_job(tmp_path, targets={"sagemaker": given}, image=image), "sagemaker"
    )
    assert finding.message == (
        "the job does not set these values, and this rehearsal uses: targets.sagemaker.role: "
        f"arn:aws:iam::{ACCOUNT}:role/rehearsal, image.repository: {REGISTRY}/j"
    )
    assert job.targets.sagemaker.staging == "s3://mine/x"
    assert getattr(job.image.repository, "vertex", None) == "us-docker.pkg.dev/p/r/j"


def test_a_repository_by_region_stays_as_it_is(tmp_path: Path) -> None:
    options = {"project": "p", "region": ["us-central1", "us-east1"], "staging": "gs://b/s"}
    repository = "{region}-docker.pkg.dev/p/r/i"
    job = make_job(
        tmp_path, targets={"vertex": options}, image={"base": "b:1", "repository": repository}
    )
    completed, findings = complete_job(job, "vertex")
    assert (completed.image.repository, findings) == (repository, [])


def test_a_complete_job_stays_as_it_is(tmp_path: Path) -> None:
    vertex = {"project": "p-12345", "region": "europe-west4", "staging": "gs://mine"}
    image = {"base": "base:1", "repository": "europe-docker.pkg.dev/p/r/j"}
    job = make_job(tmp_path, targets={"vertex": vertex}, image=image)
    assert complete_job(job, "vertex") == (job, [])


def test_the_emulator_gets_the_jobs_project_and_region(tmp_path: Path) -> None:
    vertex = {"project": "p-12345", "region": "europe-west4", "staging": "gs://mine/x"}
    data = {"outputs": "gs://out/a/b", "inputs": {"train": "gs://in/set"}}
    job = make_job(tmp_path, targets={"vertex": vertex}, **data)
    submission = Submission(make_plan("vertex"), job)
    assert make_settings(submission, "process", {"stockouts": 1}) == EmulatorSettings(
        emulator="rsctl.targets.vertex.emulator:VertexEmulator",
        runner="process",
        image="r/j:1",
        source=str(tmp_path),
        entrypoint=["rsctl-launch"],
        options={"project": "p-12345", "region": "europe-west4"},
        behaviour={"pace": 0.05, "stockouts": 1},
        buckets=["gs://in", "gs://mine", "gs://out"],
    )


@pytest.mark.parametrize(
    ("transport", "reducers", "built"),
    [
        ("reduction-server", 1, "rsctl"),
        ("fast-socket", 0, "none"),
        ("rsctl", 1, "rsctl"),
        ("none", 0, "none"),
    ],
)
def test_vendors_transports_are_not_built(
    tmp_path: Path, transport: str, reducers: int, built: str
) -> None:
    """The nodes run another image than the request's, of the same job."""
    job = make_job(tmp_path, image={"base": "base:1", "transport": transport})
    expected = make_job(tmp_path, image={"base": "base:1", "transport": built})
    plan = make_plan("vertex", transport, reducers)
    recipe, _ = recipe_of(job, "vertex")
    image, token = Placeholder(("image",)), Placeholder(("env",), "TOKEN")
    planned = Submission(plan, job, recipe, placeholders=(image, token))
    docker = rehearsed_submission(planned, "docker")
    assert docker.recipe is not None
    assert docker.recipe.reference == recipe_of(expected, "vertex")[0].reference
    assert make_settings(docker, "docker", {}).image == docker.recipe.reference
    assert (docker.is_pushed, docker.placeholders) == (False, (image, token))
    process = rehearsed_submission(planned, "process")
    assert make_settings(process, "process", {}).image == "r/j:1"
    assert (process.recipe, process.placeholders) == (None, (token,))


def test_an_image_that_is_used_as_it_is_stays(tmp_path: Path) -> None:
    job = make_job(tmp_path, image={"uri": "mine:1"}, run={"command": ["x"], "launcher": "none"})
    plan = make_plan("vertex", tag="mine:1")
    submission = rehearsed_submission(Submission(plan, job), "docker")
    made = make_settings(submission, "docker", {})
    assert (made.image, made.entrypoint) == ("mine:1", [])
    assert ensure_planned_image(submission, print) == "mine:1"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"script": "train.py", "launcher": "once"}, [("note", "image.uri")]),
        ({"command": ["ls"], "launcher": "none"}, [("note", "image.uri")]),
        ({"command": ["./train.py"], "launcher": "once"}, [("note", "image.uri")]),
        ({"module": "a.b", "launcher": "once"}, [("note", "image.uri")]),
        (
            {"script": "ls", "launcher": "once"},
            [("note", "image.uri"), ("error", "run.script")],
        ),
        (
            {"command": ["/opt/no/start.sh"], "launcher": "none"},
            [("note", "image.uri"), ("error", "run.command")],
        ),
        ({"args": ["--x"], "launcher": "none"}, [("error", "image.uri")]),
    ],
)
def test_processes_run_the_command_of_an_image_that_they_do_not_have(
    run: dict[str, Any],
    expected: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    job = make_job(tmp_path, image={"uri": "mine:1"}, run=run)
    submission = Submission(make_plan("vertex", tag="mine:1"), job)
    found = rehearsal_findings(submission, "process")
    assert [(f.severity, f.path) for f in found[1:]] == expected
    assert make_settings(submission, "process", {}).source == str(tmp_path)


def test_a_missing_pip_is_installed_by_the_python_of_rsctl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environments of uv have no pip, and the first Python on PATH may be another one."""
    monkeypatch.setitem(sys.modules, "pip", None)
    run = {"package": ".", "script": "train.py", "launcher": "none"}
    job = make_job(tmp_path, image={"uri": "mine:1"}, run=run)
    [_, found] = rehearsal_findings(Submission(make_plan("sagemaker"), job), "process")
    assert found.message == f"pip installs a package, and {sys.executable} has no pip"
    remedy = f"install it: {sys.executable} -m ensurepip, or use --rehearse-with docker"
    assert found.remedy == remedy


def test_notes_say_what_stands_in(tmp_path: Path) -> None:
    job = make_job(tmp_path, run={"script": "train.py", "launcher": "once"})
    plan = make_plan("vertex", "reduction-server", 1)
    [docker] = told(rehearsal_findings(Submission(plan, job), "docker"))
    assert docker == (
        "note",
        None,
        "this is a rehearsal on this machine, in containers, not in the cloud. reduction-server "
        "is not available here: transport rsctl replaces it, and rsctl's own reducers replace "
        "Google's",
    )
    [process] = told(rehearsal_findings(Submission(make_plan("vertex"), job), "process"))
    assert process[2] == (
        "this is a rehearsal on this machine, in processes of this Python, without building an "
        "image, not in the cloud"
    )


def test_a_rehearsal_of_many_more_ranks_than_cores_is_told(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    plan = replace(make_plan("vertex"), world_size=32 * cores)
    job = make_job(tmp_path, workers={"count": 2, "accelerator": f"a100-40gb:{16 * cores}"})
    [_, found] = told(rehearsal_findings(Submission(plan, job), "docker"))
    assert found[:2] == ("warning", "workers.processes")
    of_all = "1 core" if cores == 1 else f"{cores} cores"
    assert found[2].startswith(f"{32 * cores} ranks share the {of_all} of this machine: ")


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        ("set/train-{000..127}.tar", "train-000.tar"),
        ("set/{train,val}-*.tar", "val-3.tar"),
        ("set/part-?????-of-00128", "part-00007-of-00128"),
    ],
)
def test_a_pattern_of_names_needs_one_file(
    tmp_path: Path, rsctl_home: Path, pattern: str, sample: str
) -> None:
    job = make_job(
        tmp_path,
        run={"script": "train.py", "launcher": "once"},
        inputs={"train": f"gs://data/{pattern}"},
    )
    folder = rsctl_home / "rehearsal" / "gs" / "data" / "set"
    folder.mkdir(parents=True)
    (folder / "README").touch()
    [_, missing] = rehearsal_findings(Submission(make_plan("vertex"), job), "process")
    assert missing.message.endswith("and no file that matches exists there")
    assert missing.remedy == f"put at least one file there whose name matches {Path(pattern).name}"
    (folder / sample).touch()
    assert len(rehearsal_findings(Submission(make_plan("vertex"), job), "process")) == 1


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_inputs_need_a_sample(tmp_path: Path, rsctl_home: Path, scheme: str) -> None:
    job = make_job(
        tmp_path,
        run={"script": "train.py", "launcher": "once"},
        inputs={"train": f"{scheme}://data/set", "test": f"{scheme}://data/file"},
    )
    folder = rsctl_home / "rehearsal" / scheme / "data"
    assert bucket_folder(f"{scheme}://data/set/") == folder / "set"
    (folder / "set").mkdir(parents=True)
    (folder / "file").touch()
    [_, missing] = rehearsal_findings(Submission(make_plan("vertex"), job), "process")
    assert missing.path == "inputs.train"
    assert missing.message.endswith(f"is {folder}/set, and nothing exists there")
    assert missing.remedy == f"put a sample of the data into {folder}/set"
    (folder / "set" / "sample").touch()
    assert len(rehearsal_findings(Submission(make_plan("vertex"), job), "process")) == 1


def test_a_file_that_is_saved_after_the_plan_makes_no_other_image(tmp_path: Path) -> None:
    """The rehearsed image has the planned files, whose hashes are taken once."""
    script = tmp_path / "source" / "train.py"
    script.parent.mkdir()
    script.touch()
    image = {"base": "base:1", "source": "source"}
    job = make_job(tmp_path, image={**image, "transport": "fast-socket"})
    recipe, _ = recipe_of(job, "vertex")
    plain = make_job(tmp_path, image={**image, "transport": "none"})
    expected = recipe_of(plain, "vertex")[0].reference
    script.write_text("print()")
    planned = Submission(make_plan("vertex", "fast-socket"), job, recipe)
    rehearsed = rehearsed_submission(planned, "docker").recipe
    assert rehearsed is not None
    assert rehearsed.reference == expected
    with pytest.raises(
        RsctlError, match=r"files changed while the image was being built: train\.py"
    ):
        rehearsed.write_context(BytesIO(), cache_mounts=True)
