"""What comes over HTTP to an emulator and is no proper request, said by a bare socket."""

from __future__ import annotations

import json
import socket
import struct
import threading
from urllib.parse import urlsplit

import pytest

from rsctl.targets.managed.emulator.http import Emulator, Reply, route
from rsctl.targets.managed.emulator.request import LONGEST_BODY, Request
from tests.kit.builders.cloudbuild import CloudBuildEmulator
from tests.kit.builders.codebuild import CodeBuildEmulator
from tests.kit.polling import wait_until

BUILDS = "/v1/projects/rehearsal/locations/us-central1/builds"


def say(emulator: Emulator, *parts: bytes, leave: bool = False) -> tuple[int, bytes]:
    """The status and body that come until the emulator closes, 0 if none; ours stays open."""
    with socket.create_connection(address(emulator), timeout=20) as sock:
        for part in parts:
            sock.sendall(part)
        if leave:
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        while block := sock.recv(65536):
            answer += block
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def address(emulator: Emulator) -> tuple[str, int]:
    place = urlsplit(emulator.url)
    return str(place.hostname), int(place.port or 0)


def head(*lines: str, method: str = "POST", path: str = BUILDS) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "length", ["-1", "-5", "+5", "5_0", "five", "0x5", "", "1.0", "9" * 5000, "5, 5", "\u0665"]
)
def test_a_length_that_is_none(google: CloudBuildEmulator, length: str) -> None:
    assert say(google, head(f"Content-Length: {length}"), b"12345") == (
        400,
        b"Content-Length is not a valid number of bytes\n",
    )


def test_two_lengths(google: CloudBuildEmulator) -> None:
    both = head("Content-Length: 5", "Content-Length: 50")
    assert say(google, both, b"12345")[0] == 400


def test_a_body_without_a_length_is_no_next_request(google: CloudBuildEmulator) -> None:
    hidden = b"0\r\n\r\n" + head(method="GET")
    status, body = say(google, head("Transfer-Encoding: chunked"), hidden)
    assert (status, body) == (411, b"the request must give the length of its body\n")
    assert not google.calls


def test_a_body_that_is_too_long_is_not_read(google: CloudBuildEmulator) -> None:
    status, body = say(google, head(f"Content-Length: {LONGEST_BODY + 1}"), b"x" * 65536)
    assert (status, body) == (413, b"the body is longer than 67108864 bytes\n")


def test_a_stranger_is_answered_before_the_body_is_read(google: CloudBuildEmulator) -> None:
    status, body = say(google, head(f"Content-Length: {LONGEST_BODY}"))  # nothing of it is sent
    assert (status, json.loads(body)["error"]["status"]) == (401, "UNAUTHENTICATED")
    status, body = say(google, head("Content-Length: 9", path="/nothing/here"))
    assert (status, json.loads(body)["error"]["status"]) == (501, "UNIMPLEMENTED")


def test_a_stranger_is_not_asked_for_the_body(aws: CodeBuildEmulator) -> None:
    waits = head("Content-Length: 9", "Expect: 100-continue", method="PUT", path="/bucket/key")
    assert say(aws, waits)[0] == 403


def test_a_stranger_who_sends_on_reads_the_answer(google: CloudBuildEmulator) -> None:
    size = 4 << 20
    assert say(google, head(f"Content-Length: {size}"), b"x" * size)[0] == 401


def test_half_a_body_is_no_request(google: CloudBuildEmulator) -> None:
    sent = head("Content-Length: 99", path="/token"), b"assertion=1"
    assert say(google, *sent, leave=True) == (0, b"")
    assert [call.status for call in google.calls] == [0]


@pytest.mark.parametrize("path", ["/a%00b", BUILDS + "/%00", "/b?x=%00", "/b?%00=x"])
def test_a_nul_in_the_path(google: CloudBuildEmulator, aws: CodeBuildEmulator, path: str) -> None:
    for emulator in (google, aws):
        assert say(emulator, head(path=path)) == (400, b"the path has the character NUL\n")


def test_a_path_that_is_none(google: CloudBuildEmulator) -> None:
    assert say(google, head(path="http://[/x"))[0] == 400


def test_a_fault_of_the_emulator_itself_is_told_in_the_vendors_form(
    google: CloudBuildEmulator, aws: CodeBuildEmulator, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(request: Request) -> Reply:
        raise ZeroDivisionError("secret")

    google.routes.insert(0, route("broken", "GET", "/broken", broken, is_open=True))
    aws.routes.insert(0, route("broken", "GET", "/broken", broken, is_open=True))
    sent = head("Connection: close", method="GET", path="/broken")
    status, body = say(google, sent)
    assert (status, json.loads(body)["error"]["status"]) == (500, "INTERNAL")
    status, body = say(aws, sent)
    assert (status, b"<Code>InternalFailure</Code>" in body) == (500, True)
    assert b"secret" not in body
    assert "ZeroDivisionError: secret" in capfd.readouterr().err


@pytest.mark.parametrize("part", ["head", "body", "answer"])
def test_a_client_that_hangs_up_leaves_no_traceback(
    google: CloudBuildEmulator, capfd: pytest.CaptureFixture[str], part: str
) -> None:
    """By a reset of the connection, in the middle of its request or of the answer to it."""
    google.routes.insert(
        0, route("large", "GET", "/large", lambda _: Reply(200, bytes(32 << 20)), is_open=True)
    )
    threads = set(threading.enumerate())
    sent = {
        "head": b"GET /large HTTP/1.1\r\nHost: he",
        "body": head("Content-Length: 100", method="GET", path="/large") + b"half",
        "answer": head(method="GET", path="/large"),
    }[part]
    with socket.create_connection(address(google), timeout=20) as sock:
        sock.sendall(sent)
        if part == "answer":
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert say(google, head("Connection: close", method="HEAD", path="/none"))[0] in (404, 501)
    wait_until(lambda: set(threading.enumerate()) <= threads, "the end of the connections")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a": "b\\u0000"}', "the character NUL"),
        (b'{"\\u0000": 1}', "the character NUL"),
        (b'{"a": "\\\\\\u0000"}', "the character NUL"),
        (b'{"a": "b\x00"}', "Invalid control character"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"\xff\xfe{\x00}\x00", "invalid start byte"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "integer string conversion"),
    ],
)
def test_json_that_no_program_could_be_given(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Request("POST", "/", {}, {}, body).json()


def test_json_that_only_looks_so() -> None:
    body = rb'{"a": "\\u0000", "b": "\u00e4\ud83d\ude00"}'
    assert Request("POST", "/", {}, {}, body).json() == {"a": "\\u0000", "b": "ä😀"}
    assert Request("POST", "/", {}, {}, b"").json() == {}


@pytest.mark.parametrize("size", ["-5", "+5", "0x5", "5_0", "", "ffffffff", "five", "f" * 400])
def test_a_chunk_of_a_size_that_is_none(aws: CodeBuildEmulator, size: str) -> None:
    credential = aws.environment()["AWS_ACCESS_KEY_ID"]
    sent = f"{size};chunk-signature=0\r\n12345\r\n0\r\n\r\n".encode()
    lines = (
        "Authorization: AWS4-HMAC-SHA256 "
        f"Credential={credential}/20260101/us-east-1/s3/aws4_request",
        "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        f"Content-Length: {len(sent)}",
        "Connection: close",
    )
    status, body = say(aws, head(*lines, method="PUT", path="/staging/key"), sent)
    assert (status, b"<Code>IncompleteBody</Code>" in body) == (400, True)
