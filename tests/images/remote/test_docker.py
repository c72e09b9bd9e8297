"""Builds in the emulated clouds, which really build and push, with the docker of this machine."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images.events import BuildOutput, BuildStep
from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.docker import needs_registry

from .conftest import Screen, Tiny, cloud_build, code_build

pytestmark = needs_registry

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def pushed_digest(recipe: Tiny) -> str:
    """What the registry itself says."""
    host, _, path = recipe.repository.partition("/")
    request = urllib.request.Request(
        f"http://{host}/v2/{path}/manifests/{recipe.digest}", headers={"Accept": MANIFEST}
    )
    with urllib.request.urlopen(request) as answer:
        return str(answer.headers["Docker-Content-Digest"])


def remove(recipe: Tiny) -> None:
    names = [recipe.reference, f"{recipe.repository}:rsctl-cache"]
    subprocess.run(["docker", "image", "rm", "--force", *names], capture_output=True)


@pytest.fixture(params=["classic", "buildkit"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both clients that may be met: one with BuildKit inside, one that has lost it."""
    if request.param == "buildkit":
        found = subprocess.run(["/usr/bin/docker", "--version"], capture_output=True, text=True)
        if "version 20." not in found.stdout:
            pytest.skip("no docker client of before version 23 here")
        monkeypatch.setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
    return str(request.param)


def test_cloud_build_pushes_what_it_says(
    google: CloudBuildEmulator,
    registry: str,
    tiny_base: Callable[..., str],
    screen: Screen,
    builder: str,
) -> None:
    labels = {"org.opencontainers.image.title": 'it\'s $HOME `id` "x"'}
    recipe = Tiny(
        base=tiny_base("--change", "USER nobody"),
        repository=f"{registry}/team/tiny",
        steps='RUN echo "by $BASE_USER"',
        labels=labels,
        payload=os.urandom(16),
    )
    try:
        digest = cloud_build().build(recipe, screen)
        assert digest == pushed_digest(recipe)
        assert "by nobody" in screen.lines
        ended = [e for e in screen.events if isinstance(e, BuildStep) and e.seconds is not None]
        assert [step for step in ended if step.instruction.startswith("RUN echo")]
        assert not [step for step in ended if step.failed]
        said = subprocess.run(
            ["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", recipe.reference],
            capture_output=True,
            text=True,
        ).stdout
        assert said == '{"org.opencontainers.image.title":"it\'s $HOME `id` \\"x\\""}\n'
    finally:
        remove(recipe)


def test_codebuild_pushes_what_it_says(
    aws: CodeBuildEmulator,
    registry: str,
    tiny_base: Callable[..., str],
    screen: Screen,
    builder: str,
) -> None:
    recipe = Tiny(
        base=tiny_base(),
        repository=f"{registry}/team/tiny",
        steps='RUN echo "by $BASE_USER"',
        labels={"note": "a\nb $(id)"},
        payload=os.urandom(16),  # or BuildKit would know the layers of an earlier test
    )
    try:
        digest = code_build().build(recipe, screen)
        assert digest == pushed_digest(recipe)
        assert "by root" in screen.lines
    finally:
        remove(recipe)


@pytest.mark.parametrize("cloud", ["vertex", "sagemaker"])
def test_a_failing_step_is_shown_with_what_it_found_out(
    google: CloudBuildEmulator,
    aws: CodeBuildEmulator,
    tiny_base: Callable[..., str],
    screen: Screen,
    cloud: str,
) -> None:
    finding = (
        '{"rsctl": "finding", "severity": "error", "code": "plugin-missing", '
        '"message": "no plugin", "remedy": "add it"}'
    )
    recipe = Tiny(base=tiny_base(), steps=f"RUN echo '{finding}'; echo the end; exit 3")
    service = cloud_build() if cloud == "vertex" else code_build()
    with pytest.raises(RsctlError) as caught:
        service.build(recipe, screen)
    first, second = caught.value.findings
    assert caught.value.exit_code is ExitCode.USAGE
    assert (first.code, first.message, first.remedy) == ("plugin-missing", "no plugin", "add it")
    assert "could not build" in second.message
    assert BuildOutput("the end", 4) in screen.events


def test_a_base_that_cannot_be_pulled(google: CloudBuildEmulator, screen: Screen) -> None:
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(base="127.0.0.1:1/none:1"), screen)
    assert caught.value.findings[0].code == "base-pull"
