"""`image:` to the recipe of a build: its context, its tag, and what it refuses."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.image.recipe import Recipe, make_recipe

from .conftest import ReadJob


def contents(recipe: Recipe) -> dict[str, bytes]:
    """The files of a recipe that are not the runtime's."""
    files = {}
    for entry in recipe.context.entries:
        if entry.kind.startswith("file") and not entry.name.startswith("runtime/rsctl"):
            with entry.open() as file:
                files[entry.name] = file.read()
    return files


@pytest.mark.parametrize(
    "image",
    [
        'base: "x\\nRUN evil"',
        'base: "x AS y"',
        'base: ""',
        'base: x\n  apt: ["a b"]',
        'base: x\n  apt: ["a;b"]',
        'base: x\n  apt: ["-oX=y"]',
        'base: x\n  apt: ["a\\nb"]',
        'base: x\n  apt: ["$(evil)"]',
        'base: x\n  apt: ["a && b"]',
    ],
)
def test_what_could_write_another_instruction_is_refused_by_the_spec(
    image: str, job: ReadJob
) -> None:
    with pytest.raises(RsctlError) as caught:
        job(image)
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    "repository", ["-x/y", "host/Upper", "host/a:tag", "host/a@sha256:b", "host/a b", "a;b/c"]
)
def test_a_repository_that_is_none_is_refused(repository: str, job: ReadJob) -> None:
    with pytest.raises(RsctlError) as caught:
        make_recipe(job(f'base: base\n  repository: "{repository}"'), "compose")
    assert caught.value.exit_code == ExitCode.USAGE
    assert str(caught.value.findings[0].path).startswith("image.repository")


def test_the_tag_depends_on_everything_that_goes_in(job: ReadJob, tmp_path: Path) -> None:
    def tag(image: str = "base: base", *settings: str, target: str = "compose") -> str:
        return make_recipe(job(image, *settings), target).reference

    once = "run.launcher=once"
    tags = [tag(), tag("base: other"), tag("base: base\n  apt: [git]"), tag("base: base", once)]
    tags += [tag("base: base\n  python: requirements.txt"), tag(target="vertex")]
    tags += [tag("base: base\n  transport: efa", target="sagemaker")]
    (tmp_path / "requirements.txt").write_text("scipy\n")
    tags.append(tag("base: base\n  python: requirements.txt"))
    (tmp_path / "train.py").write_text("print(1)\n")
    tags.append(tag())
    assert len(set(tags)) == len(tags)
    assert all(tag.startswith("rsctl/job:") and len(tag) == len("rsctl/job:") + 16 for tag in tags)


def test_the_same_inputs_have_the_same_tag(job: ReadJob, tmp_path: Path) -> None:
    before = make_recipe(job("base: base\n  python: requirements.txt"), "vertex").digest
    text = (tmp_path / "requirements.txt").read_text()
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / "requirements.txt").write_text(text)
    after = make_recipe(job("base: base\n  python: requirements.txt"), "sagemaker").digest
    assert before == after


@pytest.mark.parametrize(
    ("repository", "target", "name"),
    [
        ("host.example/team/digits", "vertex", "host.example/team/digits"),
        ("{vertex: a.example/v, compose: c.example/c}", "vertex", "a.example/v"),
        ("{vertex: a.example/v, compose: c.example/c}", "sagemaker", "rsctl/job"),
    ],
)
def test_the_tag_is_in_the_targets_repository(
    job: ReadJob, repository: str, target: str, name: str
) -> None:
    recipe = make_recipe(job(f"base: base\n  repository: {repository}"), target)
    assert recipe.reference == f"{name}:{recipe.digest}"


@pytest.mark.parametrize("cache_mounts", [True, False])
def test_the_context_has_the_recipe_the_launcher_the_runtime_and_the_source(
    job: ReadJob, cache_mounts: bool
) -> None:
    recipe = make_recipe(job("base: base\n  python: [numpy]"), "compose")
    files = contents(recipe)
    assert sorted(files) == [
        "requirements/requirements.txt",
        "rsctl-launch",
        "rsctl-python",
        "runtime/transport",
        "source/job.yaml",
        "source/requirements.txt",
        "source/train.py",
    ]
    assert files["runtime/transport"] == b"none\n"
    out = io.BytesIO()
    recipe.write_context(out, cache_mounts)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        assert tar.getnames()[0] == "Dockerfile"
        dockerfile = tar.extractfile("Dockerfile")
        assert dockerfile
        assert dockerfile.read().decode() == recipe.dockerfile(cache_mounts)
        assert {tar.getmember(name).mode for name in ("rsctl-launch", "rsctl-python")} == {0o755}
    for name in ("rsctl-launch", "rsctl-python"):
        assert subprocess.run(["sh", "-n"], input=files[name], check=False).returncode == 0
