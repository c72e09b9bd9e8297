"""Asking registries of all sorts for the digest behind a tag."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3.connection
from urllib3.util.ssl_ import create_urllib3_context

from rsctl.clients import sessions
from rsctl.findings import RsctlError
from rsctl.images.registry import http
from rsctl.images.registry.challenge import authorization
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import ImageRepository, parse_repository
from rsctl.images.registry.operations import find_pushed
from tests.kit.certificates import certificate_file, own_certificate

from .conftest import Request, StartScript, refusal

DIGEST = f"sha256:{64 * 'a'}"
FOUND = (200, {"Docker-Content-Digest": DIGEST}, b"")
Answer = tuple[int, dict[str, str], bytes]


def basic(user: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


def test_one_head_request_is_enough(serve: StartScript) -> None:
    script = serve(lambda request: FOUND)
    assert find_pushed(f"{script.host}/a/b:v1", None) == DIGEST
    (request,) = script.requests
    assert (request.method, request.path) == ("HEAD", "/v2/a/b/manifests/v1")
    assert "application/vnd.oci.image.index.v1+json" in request.headers["Accept"]
    assert "Authorization" not in request.headers


def test_a_registry_that_does_not_say_the_digest(serve: StartScript) -> None:
    manifest = b'{"schemaVersion": 2}'
    script = serve(lambda request: (200, {"Docker-Content-Digest": "../../x"}, manifest))
    expected = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert find_pushed(f"{script.host}/a:v1", None) == expected


@pytest.mark.parametrize(("query", "given"), [("?x=1", {"x": ["1"]}), ("", {})])
def test_a_token_is_fetched_with_the_password_and_used(
    serve: StartScript, query: str, given: dict[str, list[str]]
) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 200, {}, json.dumps({"access_token": "t0ken"}).encode()
        if request.headers.get("Authorization") == "Bearer t0ken":
            return FOUND
        realm = (
            f'Bearer realm="{script.url}/token{query}",service="s v",scope="repository:a/b:pull"'
        )
        return 401, {"WWW-Authenticate": realm}, b""

    script = serve(answer)
    login = Login(script.host, "alice", "pa:ss")
    assert find_pushed(f"{script.host}/a/b:v1", login) == DIGEST
    _, token, _ = script.requests
    assert token.headers["Authorization"] == basic("alice", "pa:ss")
    assert parse_qs(urlsplit(token.path).query) == {
        **given,
        "service": ["s v"],
        "scope": ["repository:a/b:pull,push"],
    }


@pytest.mark.parametrize(
    ("challenge", "auth"),
    [
        # Of nginx with SPNEGO: https://github.com/google/go-containerregistry/pull/1075
        ('Negotiate, Basic realm="Upstream"', basic("alice", "pass")),
        ('Negotiate YII=, BASIC realm="a, b"', basic("alice", "pass")),
        # docker, too, prefers the token: https://github.com/siderolabs/image-factory/pull/573
        ('Basic realm="Registry Realm", Bearer realm="{url}/token",service="s"', "Bearer t"),
        ('Bearer realm="{url}/token", service="s", Basic realm="x"', "Bearer t"),
        ('bearer Realm="{url}/token", Service = "s"', "Bearer t"),
    ],
)
def test_a_registry_may_offer_several_ways_to_log_in(
    serve: StartScript, challenge: str, auth: str
) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 200, {}, b'{"token": "t"}'
        if request.headers.get("Authorization") == auth:
            return FOUND
        return 401, {"WWW-Authenticate": challenge.format(url=script.url)}, b""

    script = serve(answer)
    assert find_pushed(f"{script.host}/a:v1", Login(script.host, "alice", "pass")) == DIGEST
    if "Bearer" in auth:
        assert parse_qs(urlsplit(script.requests[1].path).query)["service"] == ["s"]
        assert find_pushed(f"{script.host}/a:v1", None) == DIGEST


@pytest.mark.parametrize(
    ("named", "asked"), [("library/a", "library/a"), ("other/b", "a"), ("", "a")]
)
def test_a_registry_may_have_a_longer_name(serve: StartScript, named: str, asked: str) -> None:
    """As Docker Hub has of its own images."""

    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 200, {}, b'{"token": "t"}'
        if "Authorization" in request.headers:
            return FOUND
        scope = f',scope="repository:{named}:pull"' if named else ""
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token"{scope}'}, b""

    script = serve(answer)
    assert find_pushed(f"{script.host}/a:v1", None) == DIGEST
    query = parse_qs(urlsplit(script.requests[1].path).query)
    assert query == {"scope": [f"repository:{asked}:pull,push"]}


def test_a_stored_refresh_token_is_exchanged(serve: StartScript, bare_home: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.path == "/token":
            return 200, {}, json.dumps({"access_token": "t0ken"}).encode()
        if request.headers.get("Authorization") == "Bearer t0ken":
            return FOUND
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token",service="s"'}, b""

    script = serve(answer)
    (bare_home / ".docker").mkdir()
    config = {"auths": {script.host: {"identitytoken": "refresh-me"}}}
    (bare_home / ".docker" / "config.json").write_text(json.dumps(config))
    assert find_pushed(f"{script.host}/a:v1", None) == DIGEST
    exchange = script.requests[1]
    assert exchange.method == "POST"
    assert parse_qs(exchange.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["refresh-me"],
        "client_id": ["rsctl"],
        "scope": ["repository:a:pull,push"],
        "service": ["s"],
    }


def test_a_right_that_is_missing(serve: StartScript) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 200, {}, b'{"token": "for nothing"}'
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token"'}, b""

    script = serve(answer)
    with pytest.raises(RsctlError) as denied:
        find_pushed(f"{script.host}/a:v1", Login(script.host, "alice", "x"))
    assert refusal(denied.value) == (
        *("REFUSED", "denied"),
        f"{script.host} gives no read permission for a",
        f"ask for permission to pull from {script.host}/a: rsctl looks there for an existing image",
    )


def test_a_log_in_server_that_refuses(serve: StartScript) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 403, {}, b""
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token"'}, b""

    script = serve(answer)
    with pytest.raises(RsctlError) as denied:
        find_pushed(f"{script.host}/a:v1", Login(script.host, "alice", "x"))
    assert refusal(denied.value)[:3] == (
        *("REFUSED", "denied"),
        f"{script.host} gives the credentials of 'alice' no access to a",
    )
    with pytest.raises(RsctlError) as anonymous:
        find_pushed(f"{script.host}/a:v1", None)
    assert refusal(anonymous.value) == (
        *("ENVIRONMENT", "login-missing"),
        f"{script.host} gives anonymous requests no access to a",
        f"run `docker login {script.host}`",
    )


@pytest.mark.parametrize(
    ("host", "realm"),
    [
        ("registry.example", "http://registry.example/token"),
        ("registry.example", "http://127.0.0.1/token"),
        ("127.0.0.1:5000", "http://evil.example/token"),
        ("127.0.0.1:5000", "http://127.0.0.1@evil.example/token"),
        ("127.0.0.1:5000", "http://127.0.0.1.evil.example/token"),
        ("registry.example", "https://registry.example@evil.example/token"),
        ("registry.example", "file:///etc/passwd"),
        ("registry.example", "https:///token"),
        ("registry.example", "http://[broken/token"),
        ("registry.example", ""),
    ],
)
def test_a_password_goes_to_no_server_without_tls(host: str, realm: str) -> None:
    place = parse_repository(f"{host}/a")
    with pytest.raises(RsctlError) as refused:
        authorization(place, f'Bearer realm="{realm}"', Login(host, "alice", "secret"))
    assert refusal(refused.value)[:3] == (
        *("REFUSED", "registry-token"),
        f"{host} asks for credentials at {realm!r}, which is not a secure address",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # Harbor: https://github.com/goharbor/harbor/issues/13825
        (
            b'{"errors":[{"code":"PROJECTPOLICYVIOLATION","message":"current image with 86 '
            b"vulnerabilities cannot be pulled due to configured policy in 'Prevent images with "
            b'vulnerability severity of \\"Medium\\" or higher from running.\'"}]}',
            ": current image with 86 vulnerabilities cannot be pulled due to configured policy in "
            "'Prevent images with vulnerability severity of \"Medium\" or higher from running.'",
        ),
        (b'{"details": "incorrect username or password"}', ": incorrect username or password"),
        (b'{"error": "x", "error_description": "the token\\u001b[31m"}', ": the token"),
        (b'{"errors": [7]}', ""),
        (b'{"errors": {}, "details": [], "message": ""}', ""),
    ],
)
def test_a_refusal_has_the_registrys_own_reason(
    serve: StartScript, body: bytes, reason: str
) -> None:
    script = serve(lambda request: (412, {}, body))
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{script.host}/a:v1", None)
    assert refusal(refused.value)[2] == (
        f"{script.host} answers with HTTP status 412 to a request for a{reason}"
    )


@pytest.mark.parametrize("status", [400, 403, 412])
@pytest.mark.parametrize(("got", "digest"), [(FOUND, DIGEST), ((404, {}, b""), None)])
def test_a_head_that_is_refused_where_get_is_not(
    serve: StartScript, status: int, got: Answer, digest: str | None
) -> None:
    """As by a proxy that allows no other methods."""
    script = serve(lambda request: got if request.method == "GET" else (status, {}, b""))
    assert find_pushed(f"{script.host}/a:v1", None) == digest


def test_no_redirect_is_followed(serve: StartScript) -> None:
    elsewhere = serve(lambda request: FOUND)
    # Such as to a bucket, with a signature that anyone can use.
    location = f"{elsewhere.url}/v2/?X-Amz-Signature=secret"
    script = serve(lambda request: (307, {"Location": location}, b""))
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{script.host}/a:v1", None)
    assert refusal(refused.value)[:3] == (
        *("ENVIRONMENT", "registry-answer"),
        f"{script.host} answers with HTTP status 307 to a request for a: it leads to "
        f"{elsewhere.url}/v2/",
    )
    assert elsewhere.requests == []


def test_the_netrc_and_proxies_are_not_used_on_this_machine(
    serve: StartScript, bare_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_home / ".netrc").write_text("machine 127.0.0.1 login netrc password netrc\n")
    proxy = serve(lambda request: (500, {}, b""))
    monkeypatch.setenv("http_proxy", proxy.url)
    script = serve(lambda request: FOUND)
    assert find_pushed(f"{script.host}/a:v1", None) == DIGEST
    assert "Authorization" not in script.requests[0].headers
    assert proxy.requests == []


def test_a_busy_registry_is_asked_again(serve: StartScript) -> None:
    answers: list[Answer] = [(503, {}, b""), (429, {"Retry-After": "86400"}, b"")]
    script = serve(lambda request: answers.pop() if answers else FOUND)
    assert find_pushed(f"{script.host}/a:v1", None) == DIGEST
    assert len(script.requests) == 3


def test_a_registry_that_stays_busy(serve: StartScript) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 429, {"Retry-After": "60"}, b""
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token"'}, b""

    script, busy = serve(answer), serve(lambda request: (429, {}, b""))
    for host in (script.host, busy.host):
        with pytest.raises(RsctlError) as refused:
            find_pushed(f"{host}/a:v1", None)
        assert refusal(refused.value)[:3] == (
            *("ENVIRONMENT", "registry-busy"),
            f"{host} received too many requests (HTTP status 429)",
        )


def test_a_broken_registry_is_said(serve: StartScript) -> None:
    script = serve(lambda request: (500, {}, b""))
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{script.host}/a:v1", None)
    assert refusal(refused.value)[:3] == (
        *("ENVIRONMENT", "registry-answer"),
        f"{script.host} answers with HTTP status 500 to a request for a",
    )


def test_an_answer_without_end(serve: StartScript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST", 1000)
    script = serve(lambda request: (200, {}, bytes(200_000)))
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{script.host}/a:v1", None)
    assert refusal(refused.value)[:3] == (
        *("ENVIRONMENT", "registry-answer"),
        f"{script.host} sends an answer that does not end",
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"token": 7}', b'{"token": "a\\nb: c"}'])
def test_a_log_in_server_that_talks_nonsense(serve: StartScript, body: bytes) -> None:
    def answer(request: Request) -> Answer:
        if request.path.startswith("/token"):
            return 200, {}, body
        return 401, {"WWW-Authenticate": f'Bearer realm="{script.url}/token"'}, b""

    script = serve(answer)
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{script.host}/a:v1", Login(script.host, "alice", "x"))
    assert refusal(refused.value)[:2] == ("ENVIRONMENT", "registry-answer")


@pytest.fixture
def private_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The host of a registry whose certificate `tmp_path / "authority.pem"` alone makes trusted.
    Docker looks for authorities in `tmp_path / "certs.d"`.
    """

    class Found(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
            self.end_headers()

    monkeypatch.setattr(http, "AUTHORITIES", (str(tmp_path / "certs.d"),))
    # Of this machine's registries docker expects no TLS.
    monkeypatch.setattr(ImageRepository, "is_loopback", False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Found)
    server.socket = own_certificate(tmp_path).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with server:
        yield f"localhost:{server.server_port}"
        server.shutdown()


def test_a_certificate_that_nobody_knows(private_registry: str) -> None:
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{private_registry}/a:v1", None)
    exit_code, code, message, remedy = refusal(refused.value)
    assert (exit_code, code) == ("ENVIRONMENT", "certificate")
    assert message.startswith(f"the certificate of {private_registry} is not trusted: ")
    assert f"/etc/docker/certs.d/{private_registry}/ca.crt" in remedy


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The addresses to which a proxy has connected, which is used for this machine too."""
    connected: list[str] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 16):
                sink.sendall(block)
            sink.shutdown(socket.SHUT_WR)

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            connected.append(self.path)
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as other:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=copy, args=(other, self.connection))
                back.start()
                copy(self.connection, other)
                back.join()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(sessions, "is_loopback", lambda _: False)
    with server:
        yield connected
        server.shutdown()


@pytest.mark.parametrize("has_proxy", [False, True])
def test_an_authority_that_docker_knows_for_a_registry(
    private_registry: str,
    has_proxy: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """https://docs.docker.com/engine/security/certificates/

    From Python 3.13 on urllib3 is strict: it refuses an authority without key usage.
    """
    connected = request.getfixturevalue("proxied") if has_proxy else []

    def strict_context(**given: Any) -> ssl.SSLContext:
        context = create_urllib3_context(**given)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(urllib3.connection, "create_urllib3_context", strict_context)
    folder = tmp_path / "certs.d" / private_registry
    folder.mkdir(parents=True)
    certificate_file(tmp_path / "another")
    (folder / "another.crt").write_bytes((tmp_path / "another" / "authority.pem").read_bytes())
    (folder / "broken.crt").write_text("not a certificate")
    (folder / "gone.crt").symlink_to("nowhere")
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{private_registry}/a:v1", None)
    assert refusal(refused.value)[1] == "certificate"
    for trusted in ("authority.pem", "server.pem"):  # Go takes any certificate for an authority
        (folder / "ca.crt").write_bytes((tmp_path / trusted).read_bytes())
        assert find_pushed(f"{private_registry}/a:v1", None) == DIGEST
    assert set(connected) == ({private_registry} if has_proxy else set())


def test_a_user_without_a_home(serve: StartScript, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a container that /etc/passwd does not name."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    script = serve(lambda request: FOUND)
    assert find_pushed(f"{script.host}/a:v1", None) == DIGEST


def test_folders_of_authorities_that_cannot_be_read(
    private_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of an /etc/docker that only root may open."""
    monkeypatch.setattr(http, "AUTHORITIES", (str(tmp_path / ("a" * 300)),))
    with pytest.raises(RsctlError) as refused:
        find_pushed(f"{private_registry}/a:v1", None)
    assert refusal(refused.value)[1] == "certificate"


def test_a_registry_without_tls(serve: StartScript) -> None:
    plain = serve(lambda request: FOUND).host.partition(":")[2]
    with pytest.raises(RsctlError) as refused:
        http.request("GET", f"https://localhost:{plain}/v2/")
    assert refusal(refused.value)[:3] == (
        *("ENVIRONMENT", "registry-plain"),
        f"localhost:{plain} does not support TLS",
    )


def test_a_server_that_ends_the_handshake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            with suppress(OSError):  # the server ends
                while True:
                    with server.accept()[0] as connection:
                        connection.recv(1 << 16)

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        with pytest.raises(RsctlError) as refused:
            http.request("GET", f"https://localhost:{port}/v2/")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    exit_code, code, message, _ = refusal(refused.value)
    assert (exit_code, code) == ("ENVIRONMENT", "registry-unreachable")
    assert message.startswith(f"localhost:{port} does not answer: ")
