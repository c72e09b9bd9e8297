"""What is particular to nodes that are containers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.nodes import Node
from rsctl.targets.managed.emulator.nodes.runners import make_runner
from tests.kit.docker import needs_docker

from .conftest import IMAGE, BashNodes, Heard


@pytest.fixture
def bash_nodes() -> Iterator[BashNodes]:
    runner = make_runner("docker")
    yield BashNodes(runner)
    runner.close()


def inspect(bash_nodes: BashNodes) -> dict[str, object]:
    """The only container of a runner."""
    owner = bash_nodes.runner._owner.name  # type: ignore[attr-defined]
    listing = ["docker", "ps", "--all", "--quiet", "--filter", f"label=rsctl.emulator={owner}"]
    found = subprocess.run(listing, capture_output=True, text=True).stdout.split()
    said = subprocess.run(["docker", "inspect", *found], capture_output=True, text=True).stdout
    [container] = json.loads(said)
    return dict(container)


@needs_docker
def test_a_container_has_what_a_node_needs_and_no_more(bash_nodes: BashNodes) -> None:
    heard = bash_nodes.start("hostname; echo up; sleep 600", "algo-1")
    heard.wait_for("algo-1", "up")
    container = inspect(bash_nodes)
    host = container["HostConfig"]
    assert isinstance(host, dict)
    assert heard.texts("algo-1") == ["algo-1", "up"]
    assert host["ShmSize"] == 1 << 30
    assert (host["Privileged"], host["CapAdd"], host["LogConfig"]["Type"]) == (False, None, "none")


def test_no_secret_is_on_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What docker is told, by a docker that writes it down."""
    record = tmp_path / "record"
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/bash\necho "$@" >> {record}\ncat >> {record}.stdin\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    bash_nodes = BashNodes(make_runner("docker"))
    bash_nodes.start("true", env={"A": "s3cret", "B": "s3cret\nmore"})
    bash_nodes.heard.wait_for_ends()
    bash_nodes.runner.close()
    assert "--env-file /dev/stdin --env=B" in record.read_text()
    assert "s3cret" not in record.read_text()
    assert Path(f"{record}.stdin").read_text() == "A=s3cret\n"


REDIRECTS = (
    "PATH HOME TMPDIR https_proxy NO_PROXY DOCKER_HOST BUILDKIT_HOST COMPOSE_FILE GODEBUG "
    "LD_PRELOAD OTEL_EXPORTER SSH_AUTH_SOCK SSL_CERT_FILE XDG_CONFIG_HOME"
)


@needs_docker
def test_a_nodes_variable_never_redirects_docker() -> None:
    runner = make_runner("docker")
    nodes = runner.nodes("job", Heard())
    for name in REDIRECTS.split():
        with pytest.raises(RsctlError, match=f"docker cannot pass {name}: its value is too long"):
            nodes.start(Node("algo-1", IMAGE, None, [], {name: "a\nb"}, {}))
    runner.close()


def test_without_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make_runner("auto").kind == "process"
    with pytest.raises(RsctlError) as refused:
        make_runner("docker")
    assert refused.value.findings[0].message == "the docker command is not installed"


TALK = """
import socket, sys, time
own = socket.gethostbyname(socket.gethostname())
if sys.argv[1] == "listen":
    with socket.create_server(("", 4000)) as server:
        print("heard", server.accept()[0].recv(5).decode(), flush=True)
    raise SystemExit
for _ in range(300):
    try:
        socket.create_connection(("algo-1", 4000), 1).sendall(b"hello")
        break
    except OSError:
        time.sleep(0.1)
gateway = own.rpartition(".")[0] + ".1"
for where in ((gateway, PORT), ("192.0.2.1", 80)):
    try:
        socket.create_connection(where, 2)
        print("reached", where[0], flush=True)
    except OSError:
        print("no way out", flush=True)
"""


@needs_docker
def test_isolated_nodes_reach_each_other_and_nothing_else() -> None:
    """Not even this machine, which is the gateway of a network that is not isolated."""
    import socket

    runner, heard = make_runner("docker"), Heard()
    with socket.create_server(("", 0)) as here:
        script = TALK.replace("PORT", str(here.getsockname()[1]))
        nodes = runner.nodes("job", heard, isolated=True)
        for name, role in (("algo-1", "listen"), ("algo-2", "talk")):
            command = ["python3", "-c", script, role]
            nodes.start(Node(name, IMAGE, command, [], {}, {}, hostname="aws"))
        heard.wait_for("algo-1", "heard hello")
        heard.wait_for_ends(2)
    assert heard.texts("algo-2") == ["no way out", "no way out"]
    runner.close()


def test_processes_cannot_be_isolated(tmp_path: Path) -> None:
    runner = make_runner("process", {})
    with pytest.raises(RsctlError, match="cannot be isolated"):
        runner.nodes("job", Heard(), isolated=True)
    runner.close()
