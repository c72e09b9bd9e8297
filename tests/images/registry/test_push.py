"""Pushing with docker to a real registry on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import at_digest
from rsctl.images.registry.operations import ensure_repository, find_pushed
from rsctl.images.registry.push import push
from tests.kit.docker import needs_registry

from .conftest import PASSWORD, USER, Proxy, Registry, refusal

StartRegistry = Callable[..., Registry]
MakeImage = Callable[..., None]
StartProxy = Callable[[str, Callable[[bytes], bool]], Proxy]
NO_PAUSES = (0.0, 0.0)

pytestmark = needs_registry


def silent(_: str) -> None:
    pass


def test_a_push_without_log_in(start_registry: StartRegistry, make_image: MakeImage) -> None:
    repository = start_registry().repository()
    reference = f"{repository}:0123456789abcdef"
    make_image(reference)
    said: list[str] = []
    assert find_pushed(reference, None) is None
    ensure_repository(repository, None)
    digest = push("docker", reference, None, said.append)
    assert said[0] == f"The push refers to repository [{repository}]"
    assert said[-1].startswith(f"0123456789abcdef: digest: {digest} size: ")
    assert find_pushed(reference, None) == digest
    assert find_pushed(f"{repository}:another", None) is None
    docker = ["docker", "pull", "--quiet", at_digest(reference, digest)]
    assert subprocess.run(docker, capture_output=True).returncode == 0


def test_the_secret_is_in_no_file_no_argument_and_no_line(
    start_registry: StartRegistry,
    make_image: MakeImage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", "{}")
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference)
    login = Login(registry.host, USER, PASSWORD)
    seen: set[tuple[str, bytes]] = set()
    said: list[str] = []

    def look_around(line: str) -> None:
        said.append(line)
        for path in (tmp_path / "home", tmp_path / "tmp"):
            seen.update((str(p), p.read_bytes()) for p in path.rglob("*") if p.is_file())
        for arguments in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add((str(arguments), arguments.read_bytes()))
            except OSError:
                continue

    digest = push("docker", reference, login, look_around)
    assert find_pushed(reference, login) == digest
    configs = [content for name, content in seen if name.endswith("config.json")]
    assert [json.loads(content) for content in configs] == [
        {"credHelpers": {registry.host: "rsctl"}}
    ]
    assert any(f"push\0{reference}".encode() in content for _, content in seen)
    for name, content in seen:
        assert PASSWORD.encode() not in content, name
        assert login.basic.encode() not in content, name
    assert PASSWORD not in "\n".join(said) + repr(login)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [p for p in (tmp_path / "home").rglob("*") if p.is_file()] == []


def test_a_wrong_password(start_registry: StartRegistry, make_image: MakeImage) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference)
    login = Login(registry.host, USER, "guessed")
    with pytest.raises(RsctlError) as pushed:
        push("docker", reference, login, silent, NO_PAUSES)
    exit_code, code, message, remedy = refusal(pushed.value)
    assert (exit_code, code) == ("REFUSED", "login-refused")
    assert message.startswith(f"cannot push {reference} as 'alice': ")
    assert remedy == f"run `docker login {registry.host}`"
    with pytest.raises(RsctlError) as looked:
        find_pushed(reference, login)
    assert refusal(looked.value) == (
        *("REFUSED", "login-refused"),
        f"{registry.host} does not accept the credentials of 'alice'",
        f"run `docker login {registry.host}`",
    )


def test_no_log_in_where_one_is_asked_for(
    start_registry: StartRegistry, make_image: MakeImage
) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference)
    with pytest.raises(RsctlError) as pushed:
        push("docker", reference, None, silent, NO_PAUSES)
    assert refusal(pushed.value) == (
        *("ENVIRONMENT", "login-missing"),
        f"cannot push {reference}: the registry requires credentials, and accepts none of those "
        "that it received; the last line: no basic auth credentials",
        f"run `docker login {registry.host}`",
    )
    with pytest.raises(RsctlError) as looked:
        find_pushed(reference, None)
    assert refusal(looked.value) == (
        *("ENVIRONMENT", "login-missing"),
        f"{registry.host} requires credentials, and there are none",
        f"run `docker login {registry.host}`",
    )


def test_dockers_own_log_in_serves(
    start_registry: StartRegistry, make_image: MakeImage, bare_home: Path
) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference)
    subprocess.run(
        ["docker", "login", "--username", USER, "--password-stdin", registry.host],
        input=PASSWORD.encode(),
        check=True,
        capture_output=True,
    )
    assert push("docker", reference, None, silent) == find_pushed(reference, None)


def test_a_connection_that_breaks_once(
    start_registry: StartRegistry, make_image: MakeImage, start_proxy: StartProxy
) -> None:
    """The manifest comes last; the engine itself does not send it again."""
    pending = [True]

    def breaks(data: bytes) -> bool:
        return (
            data.startswith(b"PUT ") and b"/manifests/" in data and bool(pending and pending.pop())
        )

    proxy = start_proxy(start_registry().host, breaks)
    reference = f"{proxy.host}/rsctl-r/tiny:v1"
    make_image(reference)
    said: list[str] = []
    digest = push("docker", reference, None, said.append, NO_PAUSES)
    assert proxy.broken == 1
    assert "the push failed; trying again in 0 s" in said
    assert find_pushed(reference, None) == digest


def test_an_upload_cut_off_half_way(
    start_registry: StartRegistry, make_image: MakeImage, start_proxy: StartProxy
) -> None:
    passed = [0]
    lock = threading.Lock()

    def breaks(data: bytes) -> bool:
        with lock:
            before, passed[0] = passed[0], passed[0] + len(data)
            return before < 1_000_000 <= passed[0]

    proxy = start_proxy(start_registry().host, breaks)
    reference = f"{proxy.host}/rsctl-r/big:v1"
    make_image(reference, os.urandom(4_000_000))
    digest = push("docker", reference, None, silent, NO_PAUSES)
    assert proxy.broken == 1
    assert find_pushed(reference, None) == digest


def test_a_connection_that_always_breaks(
    start_registry: StartRegistry, make_image: MakeImage, start_proxy: StartProxy
) -> None:
    def breaks(data: bytes) -> bool:
        return data.startswith(b"PUT ") and b"/manifests/" in data

    proxy = start_proxy(start_registry().host, breaks)
    reference = f"{proxy.host}/rsctl-r/tiny:v1"
    make_image(reference)
    said: list[str] = []
    with pytest.raises(RsctlError) as broken:
        push("docker", reference, None, said.append, NO_PAUSES)
    exit_code, code, message, remedy = refusal(broken.value)
    assert (exit_code, code) == ("ENVIRONMENT", "registry-unstable")
    assert message.startswith(
        f"cannot push {reference}: the registry closed the connection repeatedly; "
    )
    assert remedy == f"try again later; check the network to {proxy.host} and its proxies"
    assert said.count(f"The push refers to repository [{proxy.host}/rsctl-r/tiny]") == 3


def test_nobody_there(make_image: MakeImage) -> None:
    reference = "127.0.0.1:1/rsctl-r/tiny:v1"
    make_image(reference)
    with pytest.raises(RsctlError) as pushed:
        push("docker", reference, None, silent, NO_PAUSES)
    assert refusal(pushed.value)[:2] == ("ENVIRONMENT", "registry-unreachable")
    with pytest.raises(RsctlError) as looked:
        find_pushed(reference, None)
    exit_code, code, message, _ = refusal(looked.value)
    assert (exit_code, code) == ("ENVIRONMENT", "registry-unreachable")
    assert message.startswith("127.0.0.1:1 does not answer: ")
    assert message.endswith("Connection refused")


def test_an_image_that_was_not_built() -> None:
    with pytest.raises(RsctlError) as pushed:
        push("docker", "127.0.0.1:1/rsctl-r/none:v1", None, silent, NO_PAUSES)
    assert refusal(pushed.value)[:2] == ("ENVIRONMENT", "image-missing")


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(RsctlError) as pushed:
        push("no-docker", "127.0.0.1:1/rsctl-r/none:v1", None, silent)
    assert refusal(pushed.value) == (
        *("ENVIRONMENT", "builder"),
        "cannot run no-docker: No such file or directory",
        "install it, or use another builder",
    )


def test_an_interruption_leaves_nothing(
    start_registry: StartRegistry, make_image: MakeImage, start_proxy: StartProxy, tmp_path: Path
) -> None:
    """The proxy lets no byte through, so that the push hangs until it is interrupted."""
    released = threading.Event()
    proxy = start_proxy(start_registry().host, lambda _: released.wait(60))
    reference = f"{proxy.host}/rsctl-r/tiny:v1"
    make_image(reference)
    code = (
        "from rsctl.images.registry.push import push\n"
        "from rsctl.images.registry.credentials import Login\n"
        f"login = Login({proxy.host!r}, 'alice', 'secret')\n"
        f"push('docker', {reference!r}, login, lambda line: print(line, flush=True))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("The push refers to")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) != 0
    released.set()
    assert list((tmp_path / "tmp").iterdir()) == []
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert reference.encode() not in arguments.read_bytes(), arguments
        except OSError:
            continue
