"""Registries on loopback: Debian's real one, and small ones that misbehave on request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from rsctl.findings import RsctlError
from tests.kit.loopback import free_port

USER = "alice"
PASSWORD = "wonder:land-8f2c"
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuyYksnKZihR1OW1e0mE0E48H/.Q59leW\n"


@pytest.fixture(autouse=True)
def bare_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any log-in, and a folder of its own for temporary files."""
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    for name in ("DOCKER_CONFIG", "DOCKER_AUTH_CONFIG", "REGISTRY_AUTH_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    # Neither a cloud's own machine nor the one of the developer is to give credentials.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of a process
    return home


def refusal(error: RsctlError) -> tuple[str, str, str, str]:
    """What a user sees of an error: exit code, code, message, remedy."""
    assert len(error.findings) == 1
    found = error.findings[0]
    return error.exit_code.name, found.code, found.message, str(found.remedy)


@dataclass
class Registry:
    """A running docker-registry."""

    host: str
    storage: Path

    def repository(self, name: str = "rsctl-r/tiny") -> str:
        return f"{self.host}/{name}"


@dataclass
class Script:
    """An HTTP server whose answers a test writes: `answer(request)` gives status, headers, body."""

    answer: Callable[[Request], tuple[int, dict[str, str], bytes]]
    requests: list[Request] = field(default_factory=list)
    host: str = ""

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


StartScript = Callable[[Callable[[Request], tuple[int, dict[str, str], bytes]]], Script]


@pytest.fixture
def serve() -> Iterator[StartScript]:
    """Start servers that answer as the test says."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[Request], tuple[int, dict[str, str], bytes]]) -> Script:
        script = Script(answer)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
        script.host = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return script

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, dict(self.headers), body)
            script.requests.append(request)
            status, headers, content = script.answer(request)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = handle_one

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[Callable[..., Registry]]:
    """Start real registries; they and all that was pushed are gone afterwards."""
    running: list[subprocess.Popen[bytes]] = []

    def start(with_password: bool = False) -> Registry:
        storage = tmp_path / f"registry-{len(running)}"
        storage.mkdir()
        config = storage / "config.yml"
        (storage / "htpasswd").write_text(_HTPASSWD)
        log = (storage / "log").open("wb")
        for _ in range(20):
            port = free_port()
            config.write_text(json.dumps(_registry_config(storage, port, with_password)))
            process = subprocess.Popen(
                ["docker-registry", "serve", str(config)], stdout=log, stderr=log
            )
            if _answers(process, port):
                running.append(process)
                return Registry(f"127.0.0.1:{port}", storage)
        raise AssertionError((storage / "log").read_text())

    yield start
    for process in running:
        process.kill()
        process.wait()


def _registry_config(storage: Path, port: int, with_password: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(storage / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if with_password:
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(storage / "htpasswd")}}
    return config


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port)):
                return True
        except ConnectionRefusedError:
            pass
    return False


@pytest.fixture
def make_image() -> Iterator[Callable[..., None]]:
    """Make images of one file by these references; they are removed afterwards."""
    made: list[str] = []

    def make(reference: str, content: bytes = b"hello") -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "file").write_bytes(content)
            tar = subprocess.Popen(["tar", "-C", folder, "-c", "file"], stdout=subprocess.PIPE)
            subprocess.run(
                ["docker", "import", "-", reference],
                stdin=tar.stdout,
                check=True,
                capture_output=True,
            )
            tar.communicate()
        made.append(reference)

    yield make
    if made:
        subprocess.run(["docker", "image", "rm", "--force", *made], capture_output=True)


@dataclass
class Proxy:
    """A TCP proxy before a registry that resets a connection when `breaks(data)` says so."""

    host: str
    broken: int = 0


@pytest.fixture
def start_proxy() -> Iterator[Callable[[str, Callable[[bytes], bool]], Proxy]]:
    """Put a proxy before `HOST:PORT`; `breaks` sees each block that a client sends."""
    servers: list[socket.socket] = []

    def start(target: str, breaks: Callable[[bytes], bool]) -> Proxy:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        proxy = Proxy(f"127.0.0.1:{server.getsockname()[1]}")
        threading.Thread(target=_accept, args=(server, target, proxy, breaks), daemon=True).start()
        return proxy

    yield start
    for server in servers:
        server.close()


def _accept(
    server: socket.socket, target: str, proxy: Proxy, breaks: Callable[[bytes], bool]
) -> None:
    host, _, port = target.partition(":")
    while True:
        try:
            near, _ = server.accept()
            far = socket.create_connection((host, int(port)))
        except OSError:
            return  # the test has ended
        threading.Thread(target=_copy, args=(near, far, proxy, breaks), daemon=True).start()
        threading.Thread(
            target=_copy, args=(far, near, proxy, lambda _: False), daemon=True
        ).start()


def _copy(
    source: socket.socket, sink: socket.socket, proxy: Proxy, breaks: Callable[[bytes], bool]
) -> None:
    try:
        while data := source.recv(1 << 16):
            if breaks(data):
                proxy.broken += 1
                break
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
