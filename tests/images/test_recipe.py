"""`image:` to the recipe of a build: its context, its tag, and what it refuses."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images import recipe
from rsctl.images.findings import recipe_of
from rsctl.images.recipe import Recipe, make_recipe

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


@pytest.fixture
def dockerfile(tmp_path: Path) -> Path:
    """A Dockerfile beside the job file, in a folder of its own."""
    path = tmp_path / "docker" / "Dockerfile.gpu"
    path.parent.mkdir()
    path.write_text("ARG TAG=1\nFROM base:${TAG} AS last\nCOPY train.py /opt/\n")
    return path


OWN = "dockerfile: docker/Dockerfile.gpu"


def test_the_tag_depends_on_the_dockerfile_and_all_that_it_can_copy(
    job: ReadJob, dockerfile: Path, tmp_path: Path
) -> None:
    def tags(*more: str) -> tuple[str, str]:
        recipe = make_recipe(job("\n  ".join([OWN, "source: src", *more])), "compose")
        assert recipe.dockerfile_base is not None
        assert recipe.dockerfile(False).startswith(f"FROM {recipe.dockerfile_base.reference}\n")
        return recipe.dockerfile_base.reference, recipe.reference

    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    found = [tags()]
    dockerfile.write_text(f"# escape=`\n{dockerfile.read_text()}")
    found.append(tags())
    (dockerfile.parent / "key.asc").write_text("key")
    found.append(tags())
    found.append(tags("platform: linux/arm64"))
    assert len({base for base, _ in found}) == len({tag for _, tag in found}) == len(found)
    assert all(re.fullmatch(r"rsctl/dockerfile:[0-9a-f]{16}", base) for base, _ in found)
    both = [tags("env: {A: b}"), tags('run: ["true"]'), tags("run: [date]")]
    assert {base for base, _ in both} == {found[2][0]}
    assert len({tag for _, tag in [*both, *found]}) == 7


def test_the_context_of_a_dockerfile_in_the_source_is_the_source(
    job: ReadJob, dockerfile: Path, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")
    base = make_recipe(job(OWN), "compose").dockerfile_base
    assert base is not None
    names = [entry.name for entry in base.context.entries]
    assert names == [
        ".rsctl-dockerfile",
        *("docker", "docker/Dockerfile.gpu", "job.yaml", "requirements.txt", "train.py"),
    ]


def test_another_dockerfiles_context_is_its_own_folder_with_its_own_ignore_file(
    job: ReadJob, dockerfile: Path, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    (dockerfile.parent / "Dockerfile.gpu.dockerignore").write_text("*.txt\n")
    for name in ("a.txt", "b.sh"):
        (dockerfile.parent / name).touch()
    recipe, findings = recipe_of(job(f"{OWN}\n  source: src"), "compose")
    assert recipe.dockerfile_base is not None
    names = [entry.name for entry in recipe.dockerfile_base.context.entries]
    assert names == [".rsctl-dockerfile", "Dockerfile.gpu", "Dockerfile.gpu.dockerignore", "b.sh"]
    assert [(f.path, f.message) for f in findings] == [
        (
            "image.dockerfile",
            "not in the context of image.dockerfile: a.txt (named in .dockerignore)",
        )
    ]


def test_the_registries_of_a_dockerfile_are_logged_in_to(job: ReadJob, dockerfile: Path) -> None:
    host = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    dockerfile.write_text(f"FROM --platform=linux/amd64 {host}/a:1\nCOPY --from={host}/b:1 / /\n")
    base = make_recipe(job(OWN), "sagemaker").dockerfile_base
    assert base is not None
    assert base.registries == {host}


@pytest.mark.parametrize("image", ["base: base", "dockerfile: Dockerfile"])
def test_results_of_runs_in_the_source_are_not_in_the_image(
    image: str, job: ReadJob, tmp_path: Path
) -> None:
    """Each run on this machine changed the tag, and sent its results with the next image."""
    (tmp_path / "Dockerfile").write_text("FROM base\n")
    settings = [f"{key}={path}" for key, path in (("outputs", "out"), ("checkpoints", "a/ckpt"))]
    settings.append("tracking=[{tensorboard: tb}]")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kept").touch()
    before = make_recipe(job(image, *settings), "compose")
    for folder in ("out", "a/ckpt", "tb"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("x")
    after = make_recipe(job(image, *settings), "compose")
    assert (after.digest, after.base) == (before.digest, before.base)
    assert [*after.context.left_out] == [
        (path, "results of the job's runs") for path in ("a/ckpt", "out", "tb")
    ]
    (tmp_path / ".dockerignore").write_text("!out\n")
    names = [entry.name for entry in make_recipe(job(image, *settings), "compose").context.entries]
    assert [name for name in names if name.endswith("/file")] == ["source/out/file"]


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


@pytest.mark.parametrize(("transport", "has_core"), [("rsctl", True), ("none", False)])
def test_the_compiled_core_goes_into_images_with_its_transport(
    job: ReadJob, monkeypatch: pytest.MonkeyPatch, transport: str, has_core: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(recipe, "runtime_entries", lambda _, has_core: asked.append(has_core) or [])
    recipe_of(job(f"base: base\n  transport: {transport}"), "process")
    assert asked == [has_core]
