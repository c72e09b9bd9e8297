"""Emulated clouds, a recipe of a few bytes, and a docker that only says what it is told."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from rsctl.clients.endpoints import TIME_SCALE, Endpoints
from rsctl.findings import RsctlError
from rsctl.images.dockerfile_base import DockerfileBase
from rsctl.images.events import BuildEvent, BuildOutput
from rsctl.targets.sagemaker.builder import CodeBuild
from rsctl.targets.sagemaker.options import SageMakerOptions
from rsctl.targets.vertex.builder import CloudBuild
from rsctl.targets.vertex.options import VertexOptions
from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.loopback import free_port, keep_google_auth_here

ROLE = "arn:aws:iam::123456789012:role/build"
DIGEST = "sha256:" + "a1" * 32


@pytest.fixture(autouse=True)
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials but those that a test gives, and hardly any waiting."""
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    keep_google_auth_here(monkeypatch)
    monkeypatch.setenv(TIME_SCALE, "0.01")


@dataclass
class Tiny:
    """What a builder needs of a Recipe, about a few bytes."""

    base: str = "tiny:1"
    repository: str = "127.0.0.1:1/team/tiny"
    steps: str = "RUN echo built"
    payload: bytes = b"hello"
    name: str = "tiny"
    transport: str = "none"
    platform: str | None = "linux/amd64"
    digest: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    dockerfile_base: DockerfileBase | None = None
    commands: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.digest}"

    def dockerfile(self, cache_mounts: bool) -> str:
        return f"FROM {self.base}\nARG BASE_USER=root\nCOPY payload /payload\n{self.steps}\n"

    def write_context(self, out: IO[bytes], cache_mounts: bool) -> None:
        with tarfile.open(fileobj=out, mode="w|") as tar:
            for name, content in (
                ("Dockerfile", self.dockerfile(cache_mounts).encode()),
                ("payload", self.payload),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


@dataclass
class Screen:
    """What a build shows. `at` is called with every event."""

    events: list[BuildEvent] = field(default_factory=list)
    at: Callable[[BuildEvent], None] = lambda event: None

    def __call__(self, event: BuildEvent) -> None:
        self.events.append(event)
        self.at(event)

    @property
    def lines(self) -> list[str]:
        return [event.line for event in self.events if isinstance(event, BuildOutput)]


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudBuildEmulator]:
    """Cloud Build on loopback, and an environment that leads there."""
    with CloudBuildEmulator() as emulator:
        assert isinstance(emulator, CloudBuildEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield emulator


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeBuildEmulator]:
    """CodeBuild on loopback, and an environment that leads there."""
    with CodeBuildEmulator(roles=frozenset({ROLE})) as emulator:
        assert isinstance(emulator, CodeBuildEmulator)
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield emulator


def cloud_build(**options: str) -> CloudBuild:
    given = {"project": "rehearsal", "region": "us-central1", "staging": "gs://staging/a/b/"}
    return CloudBuild(VertexOptions(**{**given, **options}), Endpoints.of_environment())


def code_build(**options: str) -> CodeBuild:
    given = {"region": "us-east-1", "staging": "s3://staging/a/b/", "build_role": ROLE}
    return CodeBuild(SageMakerOptions(**{**given, **options}), Endpoints.of_environment())


def refusal(error: RsctlError) -> tuple[str, str, str, str, str]:
    """What a user sees of an error: exit code, code, message, remedy, field."""
    found = error.findings[0]
    return error.exit_code.name, found.code, found.message, str(found.remedy), str(found.path)


@dataclass
class FakeDocker:
    """A docker on the PATH: `build` is the shell script of its building, `calls` its arguments."""

    folder: Path

    def build(self, script: str) -> None:
        (self.folder / "build").write_text(script)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


_FAKE = """\
#!/bin/sh
echo "$*" >> '{folder}/calls'
case "$1 $2" in
  "version "*) echo 20.10.24 ;;
  "buildx "*) exit 1 ;;
  "image inspect") case "$*" in *RepoDigests*)
      sed -n 's/^push \\([^-].*\\):[^:]*$/\\1@{digest}/p' '{folder}/calls' ;; esac ;;
  "build "*) cat > /dev/null; . '{folder}/build' ;;
  "login "*) [ "$(cat)" = "pass word" ] ;;
  "push "*) echo "0123456789abcdef: digest: {digest} size: 527" ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """A docker that builds by printing two lines, as BuildKit does, and pushes nothing."""
    folder = tmp_path / "docker"
    folder.mkdir()
    program = folder / "docker"
    program.write_text(_FAKE.format(folder=folder, digest=DIGEST))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    fake = FakeDocker(folder)
    fake.build("echo '#1 [1/1] RUN echo built'; echo '#1 0.1 built'; echo '#1 DONE 0.1s'")
    return fake


@pytest.fixture
def tiny_base() -> Iterator[Callable[..., str]]:
    """Import images that have a shell and nothing else; `docker import`'s options can be given."""
    made: list[str] = []

    def make(*options: str) -> str:
        name = f"rsctl-e-base:{uuid.uuid4().hex[:8]}"
        linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True).stdout
        files = ["/bin/sh"] + [w for w in linked.split() if w.startswith("/")]
        with io.BytesIO() as out:
            with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
                for file in files:
                    tar.add(os.path.realpath(file), arcname=file.lstrip("/"))
                tar.add("/etc/passwd", arcname="etc/passwd")
                tar.add("/etc/group", arcname="etc/group")
            subprocess.run(
                ["docker", "import", *options, "-", name],
                input=out.getvalue(),
                check=True,
                capture_output=True,
            )
        made.append(name)
        return name

    yield make
    if made:
        subprocess.run(["docker", "image", "rm", "--force", *made], capture_output=True)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of a real registry."""
    config = tmp_path / "registry.json"
    process, port = None, 0
    while process is None or process.poll() is not None:  # until the port is not taken meanwhile
        port = free_port()
        content = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
            "http": {"addr": f"127.0.0.1:{port}"},
        }
        config.write_text(json.dumps(content))
        process = subprocess.Popen(
            ["docker-registry", "serve", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and not _answers(port):
            pass
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
