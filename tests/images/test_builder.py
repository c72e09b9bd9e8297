"""What a builder is called with, and what becomes of what it says."""

from __future__ import annotations

import json
import tarfile
from functools import partial

import pytest
from msgspec.structs import replace

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.images.builder import BUILDERS
from rsctl.images.context import BuildContext, ContextEntry
from rsctl.images.dockerfile_base import DockerfileBase
from rsctl.images.engine import EngineImage, Layer
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, CheckedShow

from .engines import NO_IMAGE, Install, Recipe, calls, image, named


def short(events: list[BuildEvent]) -> list[str]:
    """Outputs and the ends of steps."""
    lines = []
    for event in events:
        if isinstance(event, BuildOutput):
            lines.append(f"{event.step}: {event.line}")
        elif isinstance(event, BuildStep) and event.seconds is not None:
            lines.append(f"{event.number}/{event.total} {event.instruction}")
        elif isinstance(event, Finding):
            lines.append(event.message)
    return lines


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("buildx", "docker buildx build --load --progress plain"),
        ("buildkit", "docker build --progress plain"),
        ("classic", "docker build --force-rm"),
        ("podman", "podman build --force-rm --format docker"),
    ],
)
def test_whole_commands(name: str, command: str) -> None:
    plain = Recipe()
    assert named(name).argv(plain) == [*command.split(), "--tag", "rsctl/job:0123", "-"]
    full = Recipe(
        platform="linux/amd64",
        labels={"org.opencontainers.image.title": "a job; $(x)", "a": "b=c"},
        reference="host:5000/team/job:0123",
    )
    assert named(name).argv(full, "jovyan") == [
        *command.split(),
        *("--platform", "linux/amd64"),
        *("--build-arg", "BASE_USER=jovyan"),
        *("--label", "a=b=c"),
        *("--label", "org.opencontainers.image.title=a job; $(x)"),
        *("--tag", "host:5000/team/job:0123"),
        "-",
    ]


def test_who_has_cache_mounts_and_what_is_in_the_environment() -> None:
    assert {b.name: (b.cache_mounts, dict(b.env).get("DOCKER_BUILDKIT")) for b in BUILDERS} == {
        "buildx": (True, None),
        "buildkit": (True, "1"),
        "classic": (False, "0"),
        "podman": (True, None),
    }
    assert dict(named("buildx").env) == {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


@pytest.mark.parametrize("name", ["buildx", "buildkit", "classic", "podman"])
def test_a_build(name: str, install: Install) -> None:
    builder = named(name)
    heading = {"classic": "Step 1/1 : RUN it", "podman": "STEP 1/1: RUN it"}.get(
        name, "#1 [1/1] RUN it\n#1 DONE 0.0s"
    )
    start = " ".join(builder.command[1:])
    folder = install(**{builder.program: [image(user="jovyan"), (start, heading + "\n", "", 0)]})
    events: list[BuildEvent] = []
    builder.build(Recipe(), events.append)
    assert short(events) == ["1/1 RUN it"]
    assert calls(folder) == [
        f"{builder.program} image inspect base:1",
        f"{' '.join(builder.command)} --build-arg BASE_USER=jovyan --tag rsctl/job:0123 -",
    ]
    with tarfile.open(folder / "context") as tar:
        dockerfile = tar.extractfile("Dockerfile")
        assert dockerfile is not None
        assert dockerfile.read() == (b"no mounts" if name == "classic" else b"mounts")
    env = json.loads((folder / "env").read_text())
    assert dict(builder.env).items() <= env.items()


def test_a_build_whose_step_is_silent_hears_that_it_must_end(install: Install) -> None:
    folder = install(docker=[image()])
    (folder / "silent").touch()

    def check() -> None:
        if (folder / "context").exists():
            raise RsctlError(ExitCode.CANCELLED, error("interrupted", "cancelled"))

    with pytest.raises(RsctlError, match="cancelled"):
        named("classic").build(Recipe(), CheckedShow(lambda _event: None, check))


BASE = DockerfileBase(
    path="/job/Dockerfile",
    folder="/job",
    context=BuildContext(
        [ContextEntry(".rsctl-dockerfile", content=b"FROM x"), ContextEntry("a", content=b"A")]
    ),
    digest="9876",
)
OF_DOCKERFILE = Recipe(base=BASE.reference, platform="linux/arm64", dockerfile_base=BASE)
LOCAL_BUILDX = ("buildx inspect", "Name:   default\nDriver: docker\n", "", 0)


@pytest.mark.parametrize("name", ["buildx", "buildkit", "classic", "podman"])
def test_a_dockerfile_of_the_users_is_built_first(name: str, install: Install) -> None:
    builder = named(name)
    start = " ".join(builder.command[1:])
    folder = install(**{builder.program: [NO_IMAGE, LOCAL_BUILDX, (start, "", "", 0)]})
    with pytest.raises(
        RsctlError, match="/job/Dockerfile did not build an image, but linux/arm64 is"
    ):
        builder.build(OF_DOCKERFILE, lambda _event: None)
    inspect = f"{builder.program} image inspect rsctl/dockerfile:9876"
    assert [call for call in calls(folder) if "buildx inspect" not in call] == [
        inspect,
        f"{' '.join(builder.command)} --file .rsctl-dockerfile --platform linux/arm64 "
        "--label dev.rsctl.spec= --tag rsctl/dockerfile:9876 -",
        inspect,
    ]
    with tarfile.open(folder / "context") as tar:
        assert tar.getnames() == [".rsctl-dockerfile", "a"]


def test_what_a_dockerfile_builds_is_built_once_and_built_on(install: Install) -> None:
    folder = install(docker=[image(Architecture="arm64", user="jo"), ("build", "", "", 0)])
    named("classic").build(OF_DOCKERFILE, lambda _event: None)
    assert calls(folder) == [
        *["docker image inspect rsctl/dockerfile:9876"] * 2,
        "docker build --force-rm --platform linux/arm64 --build-arg BASE_USER=jo "
        "--tag rsctl/job:0123 -",
    ]


def test_a_dockerfile_that_builds_for_another_platform_is_refused(install: Install) -> None:
    install(docker=[image(), ("build", "", "", 0)])
    with pytest.raises(RsctlError) as caught:
        named("classic").build(OF_DOCKERFILE, lambda _event: None)
    [finding] = caught.value.findings
    assert (finding.code, finding.path, finding.message) == (
        "platform",
        "image.dockerfile",
        "/job/Dockerfile builds an image for linux/amd64, but linux/arm64 is needed",
    )


def test_a_dockerfile_that_fails_is_what_the_error_is_about(install: Install) -> None:
    said = "Step 1/1 : FROM x\nmanifest for x:latest not found: manifest unknown\n"
    install(docker=[NO_IMAGE, ("build", said, "", 1)])
    with pytest.raises(RsctlError) as caught:
        named("classic").build(OF_DOCKERFILE, lambda _event: None)
    assert {finding.path for finding in caught.value.findings} == {"image.dockerfile"}
    assert [finding.code for finding in caught.value.findings] == ["base", "build", "dockerfile"]
    assert caught.value.findings[0].message == "image x does not exist"
    assert "/job/Dockerfile" in caught.value.findings[-1].message


def test_a_builder_that_does_not_see_the_engines_images_is_refused(install: Install) -> None:
    other = ("buildx inspect", "Name:          ci\nDriver:        docker-container\n", "", 0)
    folder = install(docker=[NO_IMAGE, other])
    with pytest.raises(RsctlError) as caught:
        named("buildx").build(OF_DOCKERFILE, lambda _event: None)
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("builder", "image.dockerfile")
    assert finding.message.startswith("the builder ci has driver docker-container, which cannot")
    assert "BUILDX_BUILDER=default" in str(finding.remedy)
    assert len(calls(folder)) == 2


def test_a_builder_that_does_not_see_a_base_of_the_engine_is_named(install: Install) -> None:
    other = ("buildx inspect", "Name:          ci\nDriver:        docker-container\n", "", 0)
    # https://github.com/docker/buildx/issues/159
    said = (
        "#6 [1/1] FROM docker.io/library/base:1\n"
        "#6 ERROR: pull access denied, repository does not exist or may require authorization: "
        "server message: insufficient_scope: authorization failed\n"
    )
    install(docker=[image(), other, ("buildx build", said, "", 1)])
    with pytest.raises(RsctlError) as caught:
        named("buildx").build(Recipe(), lambda _event: None)
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("builder", "image.base")
    assert finding.message == (
        "the builder ci has driver docker-container, which cannot access base:1: that image is only"
        " in the engine"
    )
    install(docker=[image(), LOCAL_BUILDX, ("buildx build", said, "", 1)])
    with pytest.raises(RsctlError) as refused:
        named("buildx").build(Recipe(), lambda _event: None)
    assert [finding.code for finding in refused.value.findings] == ["base", "build"]


def test_a_command_of_the_users_that_fails_is_named(install: Install) -> None:
    said = "Step 1/2 : FROM base:1\nStep 2/2 : RUN apt-get update its value\n"
    why = "E: The repository 'http://x Release' is not signed.\n"
    install(docker=[image(), ("build", said, why, 1)])
    recipe = Recipe(commands=("true", "apt-get  update ${A} $B"))
    with pytest.raises(RsctlError) as caught:
        named("classic").build(recipe, lambda _event: None)
    assert [(f.code, f.path) for f in caught.value.findings] == [
        ("apt-key", "image.run[1]"),
        ("build", "image.run[1]"),
    ]


def test_a_base_without_a_date_is_built_on(install: Install) -> None:
    """Docker omits it since 25.0 (https://github.com/moby/moby/pull/47451)."""
    found = json.loads(image(user="jo")[1])
    del found[0]["Created"]
    install(docker=[("image inspect", json.dumps(found), "", 0)])
    assert named("buildx").base_user(Recipe()) == "jo"


def test_a_base_that_names_no_user_gets_no_argument(install: Install) -> None:
    folder = install(docker=[image(), ("build", "", "", 0)])
    named("classic").build(Recipe(), lambda _event: None)
    assert calls(folder)[-1] == "docker build --force-rm --tag rsctl/job:0123 -"


@pytest.mark.parametrize("platform", [None, "linux/amd64"])
def test_a_base_that_is_not_here_is_pulled(platform: str | None, install: Install) -> None:
    folder = install(docker=[NO_IMAGE, ("pull", "base: Pulling from x\n", "", 0)])
    shown: list[BuildEvent] = []
    with pytest.raises(RsctlError, match="base:1 was pulled but no longer exists"):
        named("classic").base_user(Recipe(platform=platform), shown.append)
    [finding] = [event for event in shown if isinstance(event, Finding)]
    assert (finding.severity, finding.code, finding.path) == ("note", "pull", "image.base")
    assert finding.message.startswith(
        "docker is pulling the base image base:1, which is not on this machine"
    )
    pull = BuildStep(0, 0, "pull base:1")
    assert shown.index(finding) < shown.index(pull)
    assert shown[-1] == replace(pull, seconds=0.0)
    option = f" --platform {platform}" if platform else ""
    assert calls(folder) == [
        "docker image inspect base:1",
        f"docker pull{option} base:1",
        "docker image inspect base:1",
    ]


def test_a_base_for_another_platform_is_pulled_and_then_refused(install: Install) -> None:
    folder = install(docker=[image(Architecture="arm64"), ("pull", "", "", 0)])
    with pytest.raises(RsctlError) as caught:
        named("buildx").base_user(Recipe(platform="linux/amd64"))
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.findings == (
        error(
            "platform",
            "base:1 is for linux/arm64, not for linux/amd64",
            "use a base image for linux/amd64; if docker has base:1 for several platforms, upgrade "
            "Docker to 28.1 or newer, or run `docker image rm base:1`",
            "image.base",
        ),
    )
    inspect = ["docker image inspect base:1", "docker image inspect --platform linux/amd64 base:1"]
    assert calls(folder) == [*inspect, "docker pull --platform linux/amd64 base:1", *inspect]


def test_a_base_that_the_engine_has_for_several_platforms(install: Install) -> None:
    """Without --platform containerd's image store shows the machine's own platform:
    https://github.com/moby/moby/pull/47114, https://github.com/moby/moby/pull/49586."""
    at = "image inspect --platform"
    folder = install(
        docker=[
            (f"{at} linux/amd64", image(user="u")[1], "", 0),
            image(Architecture="arm64", user="other"),
        ]
    )
    assert named("buildx").base_user(Recipe(platform="linux/amd64")) == "u"
    assert calls(folder) == [
        "docker image inspect base:1",
        "docker image inspect --platform linux/amd64 base:1",
    ]


def test_a_variant_of_a_platform_is_that_platform(install: Install) -> None:
    install(docker=[image(Architecture="arm64", user="u")])
    assert named("buildx").base_user(Recipe(platform="linux/arm64/v8")) == "u"


@pytest.mark.parametrize(
    ("said", "code", "exit_code", "words"),
    [
        (
            "manifest for base:1 not found: manifest unknown",
            "base",
            2,
            "image base:1 does not exist",
        ),
        ("pull access denied for base", "base", 3, "not logged in"),
        ("lookup registry.example: no such host", "network", 3, "check the network"),
        ("something else", "base", 3, "check its name"),
    ],
)
def test_a_base_that_cannot_be_pulled(
    said: str, code: str, exit_code: int, words: str, install: Install
) -> None:
    install(docker=[NO_IMAGE, ("pull", "base: Pulling\n", f"Error: {said}\n", 1)])
    events: list[BuildEvent] = []
    with pytest.raises(RsctlError) as caught:
        named("classic").build(Recipe(), events.append)
    [finding] = caught.value.findings
    assert caught.value.exit_code == exit_code
    assert (finding.code, finding.path) == (code, "image.base")
    assert finding.message == f"docker cannot pull base:1: Error: {said}"
    assert words in str(finding.remedy)
    assert short(events)[:2] == [
        "docker is pulling the base image base:1, which is not on this machine; images with "
        "PyTorch and CUDA take several GB",
        "0: base: Pulling",
    ]
    assert events[-1] == BuildStep(0, 0, "pull base:1", seconds=0.0, failed=True)


def test_a_build_that_fails(install: Install) -> None:
    said = "Step 1/2 : FROM base:1\nStep 2/2 : RUN x -m pip install\ngo\n"
    why = "No matching distribution found for torhc\n"
    install(docker=[image(), ("build", said, why, 1)])
    events: list[BuildEvent] = []
    with pytest.raises(RsctlError) as caught:
        named("classic").build(Recipe(), events.append)
    assert caught.value.exit_code == ExitCode.USAGE
    assert [finding.code for finding in caught.value.findings] == ["requirement", "build"]
    ended = [e for e in events if isinstance(e, BuildStep) and e.failed]
    assert [(step.number, step.total) for step in ended] == [(2, 2)]


ERROR = '{"rsctl": "finding", "severity": "error", "code": "c", "message": "no plugin"}'


def test_an_error_from_inside_a_build_that_fails_is_told_at_its_end(install: Install) -> None:
    install(docker=[image(), ("build", f"Step 1/1 : RUN it\n{ERROR}\n", "", 1)])
    events: list[BuildEvent] = []
    with pytest.raises(RsctlError) as caught:
        named("classic").build(Recipe(), events.append)
    assert [finding.code for finding in caught.value.findings] == ["c", "build"]
    assert not any(isinstance(event, Finding) for event in events)


def test_an_error_from_inside_a_build_that_succeeds_is_not_lost(install: Install) -> None:
    install(docker=[image(), ("build", f"Step 1/1 : RUN it\n{ERROR}\n", "", 0)])
    events: list[BuildEvent] = []
    named("classic").build(Recipe(), events.append)
    assert short(events) == ["1/1 RUN it", "no plugin"]


def test_output_of_any_kind(install: Install) -> None:
    """Lines of 256 KiB, bytes that are no text, control sequences, no end of line."""
    said = f"Step 1/1 : RUN it\nä {'x' * (256 << 10)}\n\xff\x1b[2J\x1b]0;t\x07ok\x08\r\r\nend"
    install(docker=[image(), ("build", said, "", 0)])
    events: list[BuildEvent] = []
    named("classic").build(Recipe(), events.append)
    lines = short(events)
    assert lines[0].startswith("1: \ufffd xxx")
    assert lines[0].endswith("xx…")
    assert len(lines[0]) == len("1: ") + 16384 + len("…")
    assert lines[1:] == ["1: \ufffdok\\x08", "1: end", "1/1 RUN it"]


def test_a_context_that_cannot_be_written(install: Install) -> None:
    folder = install(docker=[image()])
    with pytest.raises(RsctlError) as caught:
        named("classic").build(Recipe(problem=OSError(28, "No space left")), lambda _event: None)
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert finding.message.startswith("cannot copy the build's files to ")
    assert finding.message.endswith("No space left")
    assert calls(folder) == ["docker image inspect base:1"]


def test_a_context_for_which_the_disk_has_no_space(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small context is only written when its buffer is."""
    folder = install(docker=[image()])
    monkeypatch.setattr("tempfile.TemporaryFile", partial(open, "/dev/full", "r+b", 1 << 20))
    with pytest.raises(RsctlError) as caught:
        named("classic").build(Recipe(), lambda _event: None)
    assert caught.value.summary.endswith("No space left on device")
    assert caught.value.findings[0].remedy == "free disk space there"
    assert calls(folder) == ["docker image inspect base:1"]


HISTORY = [
    {"CreatedBy": "/bin/sh -c #(nop) CMD", "Size": "0", "size": 0},
    {"CreatedBy": "RUN pip", "Size": "20", "size": 20},
    {"Size": "10", "size": 10},
]


@pytest.mark.parametrize("name", ["buildx", "podman"])
def test_what_is_known_of_an_image(name: str, install: Install) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in HISTORY)
    said = json.dumps(HISTORY) if name == "podman" else lines
    builder = named(name)
    folder = install(**{builder.program: [image(), ("history", said, "", 0)]})
    assert builder.image("rsctl/job:0123") == EngineImage(
        id="sha256:1",
        size=30,
        layers=[Layer(10, ""), Layer(20, "RUN pip"), Layer(0, "/bin/sh -c #(nop) CMD")],
    )
    form = "json" if name == "podman" else "{{json .}}"
    assert calls(folder)[1] == (
        f"{builder.program} history --human=false --no-trunc --format {form} sha256:1"
    )


@pytest.mark.parametrize("said", ["No such image: x", "no such object: x", "x: image not known"])
def test_an_image_that_is_not_there(said: str, install: Install) -> None:
    install(docker=[("image inspect", "[]", f"Error: {said}\n", 1)])
    assert named("classic").image("x") is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (("image inspect", "", "permission denied\n", 1), "permission denied"),
        (("image inspect", "", "", 7), "exit code 7"),
        (("image inspect", "what?", "", 0), "JSON is malformed"),
    ],
)
def test_an_engine_that_does_not_answer_is_no_missing_image(
    answer: tuple[str, str, str, int], message: str, install: Install
) -> None:
    install(docker=[answer])
    with pytest.raises(RsctlError, match=f"docker image inspect: {message}") as caught:
        named("classic").image("x")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
