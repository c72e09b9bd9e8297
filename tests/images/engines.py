"""Docker and podman as a test wants them: programs that answer as told and note their calls."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rsctl.images.builder import BUILDERS, Builder
from rsctl.images.dockerfile_base import DockerfileBase

Install = Callable[..., Path]


@dataclass
class Recipe:
    """What a builder needs of a recipe."""

    base: str = "base:1"
    platform: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    reference: str = "rsctl/job:0123"
    problem: OSError | None = None
    dockerfile_base: DockerfileBase | None = None
    commands: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def write_context(self, out: IO[bytes], cache_mounts: bool) -> None:
        if self.problem:
            raise self.problem
        with tarfile.open(fileobj=out, mode="w") as tar:
            text = b"mounts" if cache_mounts else b"no mounts"
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))


PROGRAM = (
    f"#!{sys.executable} -IS\n"
    + """
import json, os, sys, time
argv = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
folder = os.path.dirname(sys.argv[0])
answers = json.load(open(os.path.join(folder, argv[0] + ".json")))
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps(argv) + "\\n")
if argv[-1] == "-":
    with open(os.path.join(folder, "context"), "wb") as context:
        context.write(sys.stdin.buffer.read())
    with open(os.path.join(folder, "env"), "w") as env:
        json.dump(dict(os.environ), env)
    while os.path.exists(os.path.join(folder, "silent")):
        time.sleep(0.01)
said = " ".join(argv[1:])
for start, out, err, code in answers:
    if said.startswith(start):
        sys.stdout.buffer.write(out.encode("latin-1"))
        sys.stdout.flush()
        sys.stderr.write(err)
        sys.exit(code)
sys.exit("unexpected: " + said)
"""
)


def versions(client: str = "28.2.2", engine: str | None = "28.2.2") -> tuple[str, str, str, int]:
    server = {"Version": engine} if engine else None
    answer = json.dumps({"Client": {"Version": client}, "Server": server})
    refused = "Cannot connect to the Docker daemon at unix:///run/docker.sock."
    return ("version", answer, "" if engine else refused, 0 if engine else 1)


HAS_BUILDX = ("buildx version", "github.com/docker/buildx v0.29.1", "", 0)
NO_BUILDX = ("buildx version", "", "docker: unknown command: docker buildx", 1)
PODMAN = [("info", "4.3.1", "", 0)]


def image(**fields: Any) -> tuple[str, str, str, int]:
    config = {"User": fields.pop("user", None)}
    found = {"Id": "sha256:1", "Created": "2026-01-02T03:04:05Z", "Size": 30, "Os": "linux"}
    found |= {"Architecture": "amd64", "RepoDigests": None, "Config": config, **fields}
    return ("image inspect", json.dumps([found]), "", 0)


NO_IMAGE = ("image inspect", "[]", "Error response from daemon: No such image: base:1", 1)


def named(name: str) -> Builder:
    return next(builder for builder in BUILDERS if builder.name == name)


def calls(folder: Path) -> list[str]:
    return [" ".join(json.loads(line)) for line in (folder / "calls").read_text().splitlines()]
