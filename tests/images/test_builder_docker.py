"""Builders on a real engine. The base image is what `.ci/test-base` makes."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from uuid import uuid4

import pytest

from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.images.builder import Builder, select_builder
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep
from tests.kit.docker import BASE, needs_docker
from tests.kit.polling import wait_until

DEADLINE = 60.0


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


pytestmark = needs_docker


@dataclass
class Recipe:
    """What a builder needs of a recipe."""

    dockerfile: str
    reference: str
    files: dict[str, bytes] = field(default_factory=lambda: {"a.txt": b"a"})
    base: str = BASE
    platform: str | None = None
    labels: dict[str, str] = field(default_factory=lambda: {"rsctl.test": "a b"})
    dockerfile_base: None = None
    commands: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def write_context(self, out: IO[bytes], cache_mounts: bool) -> None:
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, content in {"Dockerfile": self.dockerfile.encode(), **self.files}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


@pytest.fixture(params=["classic", "BuildKit"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """The classic builder, and BuildKit as it comes here: in buildx or in a docker of before 23."""
    if request.param == "classic":
        return select_builder("classic")
    # A newer docker on the PATH without the plugin may hide an older one that has BuildKit.
    for path in (os.environ["PATH"], f"/usr/bin{os.pathsep}{os.environ['PATH']}"):
        monkeypatch.setenv("PATH", path)
        for name in ("buildx", "buildkit"):
            try:
                return select_builder(name)
            except RsctlError:
                continue
    assert os.environ.get("CI") != "true", "no docker here has BuildKit"
    pytest.skip("no docker here has BuildKit")


@pytest.fixture
def reference() -> Iterator[str]:
    name = f"rsctl-test-builder/image:{uuid4().hex[:16]}"
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True)


def containers(nonce: str) -> str:
    """Containers in any state whose image has this label."""
    return docker("ps", "--all", "--quiet", "--filter", f"label=rsctl.nonce={nonce}")


def in_short(events: list[BuildEvent]) -> list[str]:
    """Steps that ended and their output; numbers, which differ between builders, left out."""
    lines = []
    for event in events:
        if isinstance(event, Finding):
            lines.append(f"{event.severity}: {event.message}")
        elif isinstance(event, BuildOutput) and event.step:
            lines.append(f"| {event.line}")
        elif isinstance(event, BuildStep) and event.number and event.seconds is not None:
            end = "cached" if event.cached else "failed" if event.failed else "done"
            lines.append(f"{event.instruction.split()[0]} {end}")
    return lines


def test_a_build_and_a_build_from_the_cache(builder: Builder, reference: str) -> None:
    nonce = uuid4().hex
    text = (
        f"FROM {BASE}\nCOPY a.txt /a.txt\n"
        f"RUN echo {nonce}; "
        """echo '{"rsctl": "finding", "severity": "warning", "code": "w", "message": "old"}'\n"""
    )
    recipe = Recipe(text, reference)
    events: list[BuildEvent] = []
    assert builder.image(reference) is None
    builder.build(recipe, events.append)
    lines = [line for line in in_short(events) if not line.startswith(("FROM", "COPY", "LABEL"))]
    assert lines == [f"| {nonce}", "warning: old", "RUN done"]

    built = builder.image(reference)
    assert built is not None
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", built.id)
    base = builder.image(BASE)
    assert base is not None
    assert built.size == base.size + 1
    assert [layer for layer in built.layers if layer.size == 1 and "COPY" in layer.instruction]
    assert (
        docker("inspect", "--format", '{{index .Config.Labels "rsctl.test"}}', built.id) == "a b\n"
    )

    events.clear()
    builder.build(recipe, events.append)
    assert "RUN cached" in in_short(events)
    assert f"| {nonce}" not in in_short(events)
    again = builder.image(reference)
    assert again is not None
    assert again.id == built.id


def test_a_step_that_fails(builder: Builder, reference: str) -> None:
    nonce = uuid4().hex
    failing = "RUN echo No matching distribution found for torhc && exit 3"
    text = f"FROM {BASE}\nLABEL rsctl.nonce={nonce}\n{failing}\n"
    events: list[BuildEvent] = []
    with pytest.raises(RsctlError) as caught:
        builder.build(Recipe(text, reference), events.append)
    assert in_short(events)[-1] == "RUN failed"
    cause, build = caught.value.findings
    assert caught.value.exit_code == ExitCode.USAGE
    assert cause.code == "requirement"
    assert re.match(
        rf"docker could not build {reference}, step \d/\d failed: RUN echo No .* && exit 3; "
        r"its last lines:\n  No matching distribution found for torhc\n",
        build.message,
    )
    assert builder.image(reference) is None
    assert containers(nonce) == ""


def test_a_file_that_is_not_in_the_context(builder: Builder, reference: str) -> None:
    text = f"FROM {BASE}\nCOPY source/ /app/\n"
    with pytest.raises(RsctlError) as caught:
        builder.build(Recipe(text, reference), lambda _event: None)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert [(f.code, f.path) for f in caught.value.findings] == [
        ("context", "image.source"),
        ("build", "image.source"),
    ]


def test_the_user_of_the_base(builder: Builder, reference: str) -> None:
    assert builder.base_user(Recipe("", "", base=BASE)) == ""
    builder.build(Recipe(f"FROM {BASE}\nUSER nobody\n", reference), lambda _event: None)
    assert builder.base_user(Recipe("", "", base=reference)) == "nobody"


def test_a_base_that_nobody_has(builder: Builder, reference: str) -> None:
    """Port 1 of this machine: nobody listens."""
    missing = "localhost:1/no/such:image"
    with pytest.raises(RsctlError) as caught:
        builder.build(Recipe(f"FROM {missing}\n", reference, base=missing), lambda _event: None)
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("network", "image.base")
    assert "connection refused" in finding.message


# In a process of its own, which has this module under another name.
INTERRUPTED = """
import importlib.util, sys
from rsctl.images.builder import BUILDERS
spec = importlib.util.spec_from_file_location("tests_of_builders", sys.argv[1])
tests = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tests
spec.loader.exec_module(tests)
builder = next(b for b in BUILDERS if b.name == sys.argv[2])
recipe = tests.Recipe(sys.argv[3], sys.argv[4])
try:
    builder.build(recipe, lambda event: print(tests.in_short([event]), flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


def is_running(marker: str) -> bool:
    """Whether a process has this word among its arguments: `docker ps` hides BuildKit's steps."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            return True
    return False


def test_an_interruption_ends_the_build_and_leaves_nothing(
    builder: Builder, reference: str, tmp_path: Path
) -> None:
    marker = f"9{int(uuid4().hex[:6], 16)}"
    text = f"FROM {BASE}\nLABEL rsctl.nonce={marker}\nRUN echo started && sleep {marker}\n"
    argv = [sys.executable, "-c", INTERRUPTED, __file__, builder.name, text, reference]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as build:
        assert build.stdout is not None
        watchdog = threading.Timer(DEADLINE, build.kill)
        watchdog.start()
        try:
            assert any("started" in line and "|" in line for line in build.stdout)
            wait_until(lambda: is_running(marker), "the step runs")
            build.send_signal(signal.SIGINT)
            assert build.wait() == 130
        finally:
            watchdog.cancel()
    wait_until(lambda: not is_running(marker), "the step has ended")
    wait_until(lambda: containers(marker) == "", "its container is gone")
    assert list(scratch.iterdir()) == []
    assert builder.image(reference) is None


def test_a_build_ends_with_the_process_that_started_it(builder: Builder, reference: str) -> None:
    """Also while its step prints nothing, so that no broken pipe ends it."""
    marker = f"8{int(uuid4().hex[:6], 16)}"
    text = f"FROM {BASE}\nLABEL rsctl.nonce={marker}\nRUN sleep {marker}\n"
    argv = [sys.executable, "-c", INTERRUPTED, __file__, builder.name, text, reference]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as build:
        try:
            wait_until(lambda: is_running(marker), "the step runs")
        finally:
            build.kill()
    wait_until(lambda: not is_running(marker), "the step has ended")
    wait_until(lambda: containers(marker) == "", "its container is gone")


def test_the_context_is_written_to_no_named_file(
    builder: Builder, reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that not even SIGKILL leaves one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[list[Path]] = []

    class Watched(Recipe):
        def write_context(self, out: IO[bytes], cache_mounts: bool) -> None:
            super().write_context(out, cache_mounts)
            out.flush()
            seen.append(list(tmp_path.iterdir()))

    builder.build(Watched(f"FROM {BASE}\nCOPY a.txt /\n", reference), lambda _event: None)
    assert seen == [[]]
