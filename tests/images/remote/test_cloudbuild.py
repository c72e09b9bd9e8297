"""Cloud Build when all goes well and when it does not. Docker is a fake; the HTTP is real."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile

import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.context import BuildContext, ContextEntry
from rsctl.images.dockerfile_base import DockerfileBase
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, CheckedShow
from rsctl.targets.managed.emulator.faults import Fault
from rsctl.targets.managed.emulator.http import Reply
from tests.kit.builders.cloudbuild import CloudBuildEmulator

from .conftest import DIGEST, FakeDocker, Screen, Tiny, cloud_build

CREATE, GET = "cloudbuild.builds.create", "cloudbuild.builds.get"
READ, SEND = "storage.objects.get", "storage.upload"
MANY = 'i=0; while [ $i -lt 2000 ]; do echo "#1 0.1 line $i"; i=$((i+1)); done'


def test_the_whole_way(google: CloudBuildEmulator, docker: FakeDocker, screen: Screen) -> None:
    recipe = Tiny(labels={"title": "costs $5 ${HOME} `id`"})
    assert cloud_build().build(recipe, screen) == DIGEST
    [build] = google.builds()
    assert (build["status"], build["images"]) == ("SUCCESS", [recipe.reference])
    assert build["tags"] == ["rsctl", f"rsctl-{recipe.digest}"]
    assert build["logsBucket"] == "gs://staging/a/b/logs"
    step = BuildStep(1, 1, "RUN echo built")
    at = screen.events.index(step)
    assert screen.events[at + 1] == BuildOutput("built", 1)
    [command] = [call for call in docker.calls if call.startswith("build ")]
    assert command == (
        f"build --cache-from {recipe.repository}:rsctl-cache "
        "--build-arg BUILDKIT_INLINE_CACHE=1 --platform linux/amd64 "
        f"--label title=costs $5 ${{HOME}} `id` --tag {recipe.reference} -"
    )


def test_what_is_uploaded(google: CloudBuildEmulator, docker: FakeDocker, screen: Screen) -> None:
    recipe = Tiny()
    cloud_build().build(recipe, screen)
    [name] = [n for n in google.storage.names("staging") if n.endswith(".zip")]
    content = google.storage.content("staging", name) or b""
    assert name == f"a/b/rsctl-context-{hashlib.sha256(content).hexdigest()[:32]}.zip"
    expected = io.BytesIO()
    recipe.write_context(expected, cache_mounts=False)
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.namelist() == ["context.tar"]
    assert archive.read("context.tar") == expected.getvalue()


DOCKERFILE = DockerfileBase(
    path="/job/Dockerfile",
    folder="/job",
    context=BuildContext([ContextEntry(".rsctl-dockerfile", content=b"FROM x")]),
    digest="9876",
)


def test_a_dockerfile_of_the_users_is_built_first(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    recipe = Tiny(base=DOCKERFILE.reference, dockerfile_base=DOCKERFILE)
    assert cloud_build().build(recipe, screen) == DIGEST
    [name] = [n for n in google.storage.names("staging") if n.endswith(".zip")]
    archive = zipfile.ZipFile(io.BytesIO(google.storage.content("staging", name) or b""))
    assert archive.namelist() == ["context.tar", "base.tar"]
    assert [call for call in docker.calls if call.startswith(("build ", "pull "))] == [
        "build --platform linux/amd64 --file .rsctl-dockerfile --tag rsctl/dockerfile:9876 -",
        f"build --cache-from {recipe.repository}:rsctl-cache "
        "--build-arg BUILDKIT_INLINE_CACHE=1 --platform linux/amd64 "
        f"--tag {recipe.reference} -",
    ]
    step = BuildStep(1, 1, "RUN echo built")
    assert screen.events.count(step) == 2


@pytest.mark.parametrize(("count", "path"), [(1, "image.dockerfile"), (2, "image")])
def test_which_of_the_two_builds_has_failed(
    count: int,
    path: str,
    google: CloudBuildEmulator,
    docker: FakeDocker,
    screen: Screen,
) -> None:
    docker.build(
        f"echo '#1 [1/1] RUN x'; [ $(grep -c '^build ' {docker.folder}/calls) -lt {count} ] || "
        "{ echo '#1 ERROR: process x did not complete'; exit 1; }"
    )
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(base="b", dockerfile_base=DOCKERFILE), screen)
    assert {finding.path for finding in caught.value.findings} == {path}


def test_an_unchanged_context_is_uploaded_once(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    recipe = Tiny()
    cloud_build().build(recipe, screen)
    cloud_build().build(recipe, screen)
    assert (google.count(SEND), google.count(CREATE)) == (1, 2)


def test_a_lost_answer_starts_one_build_only(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    google.faults.add(Fault(CREATE, cut="answer"))
    assert cloud_build().build(Tiny(), screen) == DIGEST
    assert (google.count(CREATE), len(google.builds())) == (1, 1)


def test_a_running_build_of_the_same_image_is_joined(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("echo '#1 [1/1] RUN x'; while [ ! -e joined ]; do sleep 0.01; done")
    recipe, builder = Tiny(), cloud_build()

    def join(event: BuildEvent) -> None:
        if not google.count(GET) or google.count(CREATE) > 1:
            return
        screen.at = lambda event: None
        second = Screen(at=lambda event: release(google))
        assert cloud_build().build(recipe, second) == DIGEST

    screen.at = join
    assert builder.build(recipe, screen) == DIGEST
    assert (google.count(CREATE), google.count(SEND)) == (1, 1)


def release(google: CloudBuildEmulator) -> None:
    """Let the build that waits for a file go on."""
    for folder in google.folder.iterdir():
        if folder.is_dir():
            (folder / "joined").touch()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(CREATE, status=429, code="RESOURCE_EXHAUSTED", times=3),
        Fault(CREATE, status=503, times=2),
        Fault(GET, status=429, times=3, headers={"Retry-After": "1"}),
        Fault(GET, status=503, times=2),
        Fault(GET, cut="request", times=2),
        Fault(READ, status=503, times=2),
        Fault(READ, cut="answer", path="log-", times=2),
        Fault("storage.objects.insert", status=500, times=2),
        Fault("storage.objects.insert", cut="answer"),
        Fault(SEND, cut="request", times=3),
        Fault(SEND, cut="answer"),
        Fault(SEND, status=503, times=2),
        Fault(SEND, status=410),
        Fault("oauth2.token", status=503),
    ],
    ids=lambda fault: f"{fault.route}-{fault.status or fault.cut}",
)
def test_what_passes_by_is_got_over(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen, fault: Fault
) -> None:
    google.faults.add(fault)
    assert cloud_build().build(Tiny(), screen) == DIGEST
    assert screen.lines.count("built") == 1
    assert len(google.builds()) == 1


def test_a_large_upload_goes_on_where_it_was_cut_off(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    recipe = Tiny(payload=os.urandom(20 << 20))

    google.faults.add(Fault(SEND, cut="answer", times=2))
    assert cloud_build().build(recipe, screen) == DIGEST
    [name] = [n for n in google.storage.names("staging") if n.endswith(".zip")]
    content = google.storage.content("staging", name) or b""
    assert hashlib.sha256(content).hexdigest()[:32] in name
    # Three blocks; of the first and the second the answer is lost, and asked for.
    assert google.count(SEND) == 5


def test_the_log_may_come_late_and_end_late(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("echo '#1 [1/1] RUN x'; " + MANY)
    google.log_missing, google.log_behind = 3, 2
    cloud_build().build(Tiny(), screen)
    expected = [f"line {n}" for n in range(2000)]
    assert [line for line in screen.lines if line.startswith("line ")] == expected
    assert screen.lines[-1] == "DONE"


def test_a_token_that_expires_is_renewed(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    screen.at = lambda event: google.access.expire()
    assert cloud_build().build(Tiny(), screen) == DIGEST
    assert google.count("oauth2.token") > 2


@pytest.mark.parametrize("line", ["Cloud Build ", "waiting"])
def test_an_interruption_cancels_the_build(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen, line: str
) -> None:
    """Also as soon as its name is shown."""
    docker.build("echo '#1 [1/1] RUN x'; echo '#1 0.1 waiting'; while :; do sleep 0.05; done")

    def interrupt(event: BuildEvent) -> None:
        if isinstance(event, BuildOutput) and event.line.startswith(line):
            raise KeyboardInterrupt

    screen.at = interrupt
    with pytest.raises(KeyboardInterrupt):
        cloud_build().build(Tiny(), screen)
    assert [build["status"] for build in google.builds()] == ["CANCELLED"]


def test_a_cancellation_of_the_run_ends_a_silent_build(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("while :; do sleep 0.05; done")

    def check() -> None:
        if google.count(GET) > 2:
            raise RsctlError(ExitCode.CANCELLED, error("interrupted", "cancelled"))

    with pytest.raises(RsctlError, match=r"^cancelled$"):
        cloud_build().build(Tiny(), CheckedShow(screen, check))
    assert [build["status"] for build in google.builds()] == ["CANCELLED"]


def test_a_joined_build_is_left_running(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    docker.build("echo '#1 [1/1] RUN x'; while [ ! -e joined ]; do sleep 0.01; done")
    recipe = Tiny()

    def interrupt(event: BuildEvent) -> None:
        raise KeyboardInterrupt

    def join(event: BuildEvent) -> None:
        if google.count(GET):
            screen.at = lambda event: None
            with pytest.raises(KeyboardInterrupt):
                cloud_build().build(recipe, Screen(at=interrupt))
            release(google)

    screen.at = join
    assert cloud_build().build(recipe, screen) == DIGEST


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("cloudbuild.builds.list", ["network"]),
        (CREATE, ["network"]),
        (GET, ["network", "build-runs"]),
    ],
)
def test_a_page_of_a_proxy_is_not_an_answer(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen, name: str, codes: list[str]
) -> None:
    [index] = [n for n, each in enumerate(google.routes) if each.name == name]
    google.routes[index] = google.routes[index]._replace(handler=lambda _: Reply(200, b"<html>"))
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(), screen)
    assert [finding.code for finding in caught.value.findings] == codes


def test_a_build_that_goes_out_of_sight(
    google: CloudBuildEmulator, docker: FakeDocker, screen: Screen
) -> None:
    google.faults.add(Fault(GET, status=503, times=99))
    with pytest.raises(RsctlError) as caught:
        cloud_build().build(Tiny(), screen)
    [build] = google.builds()
    assert [(f.severity, f.message, f.remedy) for f in caught.value.findings] == [
        ("error", "Google Cloud refuses: made to fail", "try again later"),
        ("note", f"build {build['id']} may still run", "run the command again to join it"),
    ]
