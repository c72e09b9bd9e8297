"""Each request to Cloud Storage, and what its answers mean, by the documented JSON API."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.retries import RetryPolicy
from rsctl.clients.storage import LoadedObject, ObjectChanged, StoredObject, Upload
from rsctl.clients.storage.google import GoogleBucket
from rsctl.findings import ExitCode, RsctlError, error

API = "https://storage.googleapis.com"
OBJECT = f"{API}/storage/v1/b/data/o/a%2Fb%20c"
NAME = "a/b c"
WHOLE = {"timeout": (10.0, 120.0), "allow_redirects": False}
BLOCK = 8 << 20


def answer(status: int, body: Any = None, **headers: str) -> requests.Response:
    """A response; a body that is not bytes becomes JSON."""
    made = requests.Response()
    made.status_code, made.url = status, OBJECT
    made._content = body if isinstance(body, bytes) else json.dumps(body).encode()
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return made


class Session:
    """Answers in order; an exception is raised."""

    def __init__(self, *answers: requests.Response | Exception) -> None:
        self.answers, self.calls = list(answers), list[tuple[str, str, dict[str, Any]]]()

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        assert WHOLE.items() <= options.items()
        self.calls.append((method, url, {n: v for n, v in options.items() if n not in WHOLE}))
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


def bucket(*answers: requests.Response | Exception) -> tuple[GoogleBucket, Session, list[float]]:
    waits: list[float] = []
    retries = RetryPolicy(tries=3, sleep=waits.append)
    made, session = GoogleBucket(Endpoints(), "data", "x", retries), Session(*answers)
    made._google._session = session
    return made, session, waits


def upload(size: int) -> Upload:
    return Upload(io.BytesIO(bytes(size)), size, "0" * 64)


@pytest.mark.parametrize(
    ("version", "condition"),
    [(None, ""), ("", "&ifGenerationMatch=0"), ("17", "&ifGenerationMatch=17")],
)
def test_a_small_object_is_written_on_a_condition(version: str | None, condition: str) -> None:
    made, session, _ = bucket(answer(200))
    made.replace(NAME, b"x", "text/plain", version)
    url = f"{API}/upload/storage/v1/b/data/o?uploadType=media&name=a%2Fb%20c{condition}"
    options = {"headers": {"Content-Type": "text/plain"}, "data": b"x"}
    assert session.calls == [("POST", url, options)]


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ([answer(404)], None),
        ([answer(206, b"0123", X_Goog_Generation="5")], LoadedObject(b"0123", "5")),
        ([answer(200, b"0123456", X_Goog_Generation="5")], LoadedObject(b"0123", "5")),
        ([answer(416, X_Goog_Generation="5")], LoadedObject(b"", "5")),
        ([answer(416), answer(200, {"generation": 5})], LoadedObject(b"", "5")),
        ([answer(416), answer(404)], LoadedObject(b"", "")),
    ],
)
def test_a_small_object_is_loaded(
    given: list[requests.Response], loaded: LoadedObject | None
) -> None:
    made, session, _ = bucket(*given)
    assert made.load(NAME, 4) == loaded
    headers = {"Range": "bytes=0-3", "Accept-Encoding": "identity"}
    assert session.calls[0] == ("GET", f"{OBJECT}?alt=media", {"headers": headers})
    assert session.calls[1:] in ([], [("GET", OBJECT, {})])


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (answer(404, {}), b""),
        (answer(416, {}), b""),
        (answer(206, b"34"), b"34"),
        (answer(200, b"01234"), b"34"),
    ],
)
def test_a_part_of_an_object_is_read(given: requests.Response, content: bytes) -> None:
    made, session, _ = bucket(given)
    assert made.read(NAME, 3) == content
    headers = {"Range": f"bytes=3-{(4 << 20) + 2}", "Accept-Encoding": "identity"}
    assert session.calls == [("GET", f"{OBJECT}?alt=media", {"headers": headers})]


def test_a_list_comes_by_pages_with_digests() -> None:
    listed = {"name": "a", "size": "3", "generation": "7"}
    first = {
        "items": [{**listed, "md5Hash": "AAEC", "crc32c": "/w=="}, {**listed, "crc32c": "odd!"}],
        "nextPageToken": "more",
    }
    made, session, _ = bucket(answer(200, first), answer(200, {"items": [listed]}), answer(200, {}))
    assert list(made.objects("a/")) == [
        StoredObject("a", 3, "7", {"md5": "000102", "crc32c": "ff"}),
        StoredObject("a", 3, "7", {"crc32c": ""}),
        StoredObject("a", 3, "7", {}),
    ]
    fields = "nextPageToken,items(name,size,generation,md5Hash,crc32c)"
    query = {"prefix": "a/", "fields": fields, "pageToken": "more"}
    url = f"{API}/storage/v1/b/data/o"
    assert session.calls == [("GET", url, {"params": query})] * 2  # one query, changed meanwhile
    assert list(made.objects("")) == []
    assert session.calls[2] == ("GET", url, {"params": {"prefix": "", "fields": fields}})


def test_a_list_that_repeats_its_page_ends() -> None:
    made, session, _ = bucket(*[answer(200, {"nextPageToken": "more"})] * 5)
    with pytest.raises(NoAnswer, match="it repeats a page of its list"):
        list(made.objects(""))
    assert len(session.calls) == 2


@pytest.mark.parametrize(
    "act",
    [
        lambda made: list(made.objects("")),
        lambda made: made.replace("o", b"", "text/plain"),
    ],
)
def test_a_bucket_that_does_not_exist(act: Callable[[GoogleBucket], object]) -> None:
    made, _, _ = bucket(answer(404))
    with pytest.raises(RsctlError) as caught:
        act(made)
    remedy = "create it: `gcloud storage buckets create gs://data`, or use another bucket"
    assert caught.value.findings == (error("bucket", "bucket data does not exist", remedy, "x"),)
    assert caught.value.exit_code is ExitCode.REFUSED


class Raw:
    """The content of a response, as it comes."""

    def __init__(self, *blocks: bytes | Exception) -> None:
        self.blocks, self.asked = blocks, ()

    def stream(self, size: int, decode_content: bool) -> Any:
        self.asked = (size, decode_content)  # type: ignore[assignment]
        for block in self.blocks:
            if isinstance(block, Exception):
                raise block
            yield block

    def close(self) -> None:
        pass

    release_conn = close


def streamed(status: int, *blocks: bytes | Exception) -> requests.Response:
    made = answer(status)
    made.raw = Raw(*blocks)
    return made


FOUND = StoredObject(NAME, 9, "7")


@pytest.mark.parametrize(
    ("status", "blocks", "content"),
    [
        (206, [b"45", b"678"], [b"45", b"678"]),
        (200, [b"012", b"345", b"678"], [b"45", b"678"]),  # the range was passed over
        (200, [b"0123", b"45678"], [b"45678"]),
        (200, [b"012345678"], [b"45678"]),
    ],
)
def test_a_stream_goes_on_at_an_offset(
    status: int, blocks: list[bytes], content: list[bytes]
) -> None:
    given = streamed(status, *blocks)
    made, session, _ = bucket(given)
    assert list(made.stream(FOUND, 4)) == content
    options = {"headers": {"Range": "bytes=4-", "Accept-Encoding": "gzip"}, "stream": True}
    assert session.calls == [("GET", f"{OBJECT}?alt=media&generation=7", options)]
    assert given.raw.asked == (1 << 20, False)


@pytest.mark.parametrize("status", [404, 412, 416])
def test_a_stream_of_another_version_is_refused(status: int) -> None:
    made, _, _ = bucket(streamed(status))
    with pytest.raises(ObjectChanged):
        list(made.stream(FOUND, 4))


@pytest.mark.parametrize("problem", [OSError("cut"), requests.RequestException("cut" * 99)])
def test_a_stream_that_is_cut_gives_no_answer(problem: Exception) -> None:
    made, _, _ = bucket(streamed(206, b"4", problem))
    with pytest.raises(NoAnswer) as caught:
        list(made.stream(FOUND, 4))
    assert caught.value.reason == str(problem)[:200]
    assert caught.value.findings[0].message == (
        f"storage.googleapis.com gives no answer: {str(problem)[:200]}"
    )


SESSION = f"{API}/upload/session"
OPENED = (
    "POST",
    f"{API}/upload/storage/v1/b/data/o?uploadType=resumable&ifGenerationMatch=0&name=a%2Fb%20c",
)


def opening(size: int) -> tuple[str, str, dict[str, Any]]:
    headers = {"X-Upload-Content-Type": "application/zip", "X-Upload-Content-Length": str(size)}
    return (*OPENED, {"headers": headers, "json": {}})


def sent(session: Session) -> list[tuple[str, int]]:
    """Which ranges went to the session of the upload, and how many bytes with each."""
    return [
        (options["headers"]["Content-Range"], len(options["data"]))
        for method, url, options in session.calls
        if (method, url) == ("PUT", SESSION)
    ]


def test_an_object_that_exists_is_not_sent() -> None:
    made, session, _ = bucket(answer(200, {"generation": 5}))
    announced: list[int] = []
    assert made.put(NAME, upload(3), lambda: announced.append(1)) == "5"
    assert (session.calls, announced) == ([("GET", OBJECT, {})], [])


DONE = answer(201, {"generation": 6})
OPEN = answer(200, Location=SESSION)
NONE = answer(404)


@pytest.mark.parametrize(
    ("size", "answers", "ranges"),
    [
        (0, [DONE], [("bytes */0", 0)]),
        (3, [answer(200, {"generation": 6})], [("bytes 0-2/3", 3)]),
        (
            BLOCK + 2,
            [answer(308, Range=f"bytes=0-{BLOCK - 1}"), DONE],
            [("bytes 0-8388607/8388610", BLOCK), ("bytes 8388608-8388609/8388610", 2)],
        ),
        # A part of a block has arrived: it goes on there.
        (5, [answer(308, Range="bytes=0-1"), DONE], [("bytes 0-4/5", 5), ("bytes 2-4/5", 3)]),
        (5, [answer(308), DONE], [("bytes 0-4/5", 5), ("bytes 0-4/5", 5)]),
        (5, [answer(308, Range="odd"), DONE], [("bytes 0-4/5", 5), ("bytes 0-4/5", 5)]),
        # A lost answer, or a fault of the service: it asks how far the upload came.
        (5, [requests.ConnectionError(), DONE], [("bytes 0-4/5", 5), ("bytes */5", 0)]),
        (5, [answer(429), DONE], [("bytes 0-4/5", 5), ("bytes */5", 0)]),
        (5, [answer(500), DONE], [("bytes 0-4/5", 5), ("bytes */5", 0)]),
        (5, [answer(501), DONE], [("bytes 0-4/5", 5), ("bytes */5", 0)]),
        (
            5,
            [answer(503), answer(308, Range="bytes=0-3"), DONE],
            [("bytes 0-4/5", 5), ("bytes */5", 0), ("bytes 4-4/5", 1)],
        ),
        (
            5,
            [answer(503), answer(503), DONE],
            [("bytes 0-4/5", 5), ("bytes */5", 0), ("bytes 0-4/5", 5)],
        ),
    ],
)
def test_an_upload_goes_on_where_it_was_interrupted(
    size: int, answers: list[requests.Response | Exception], ranges: list[tuple[str, int]]
) -> None:
    made, session, _ = bucket(NONE, OPEN, *answers)
    announced: list[int] = []
    assert made.put(NAME, upload(size), lambda: announced.append(1)) == "6"
    assert session.calls[:2] == [("GET", OBJECT, {}), opening(size)]
    assert (sent(session), announced, session.answers) == (ranges, [1], [])


@pytest.mark.parametrize("status", [404, 410, 412])
def test_a_session_that_has_ended_begins_anew(status: int) -> None:
    made, session, waits = bucket(NONE, OPEN, answer(status), NONE, OPEN, DONE)
    assert made.put(NAME, upload(3)) == "6"
    assert sent(session) == [("bytes 0-2/3", 3)] * 2
    assert len(waits) == 1


@pytest.mark.parametrize(
    "answers",
    [
        [answer(412), answer(200, {"generation": 9})],  # before it began
        [OPEN, answer(412), answer(200, {"generation": 9})],  # meanwhile
    ],
)
def test_another_process_has_uploaded_the_same(answers: list[requests.Response]) -> None:
    made, session, _ = bucket(NONE, *answers)
    assert made.put(NAME, upload(3)) == "9"
    assert session.answers == []


@pytest.mark.parametrize(
    ("answers", "why", "waited"),
    [
        ([answer(308)] * 3, "", 0),
        ([answer(503), answer(502)] * 3, ": HTTP status 503", 3),
        ([answer(502), answer(308)] * 3, ": HTTP status 502", 3),
        ([requests.ConnectionError("reset"), answer(308)] * 3, ": reset", 3),
    ],
)
def test_an_upload_that_makes_no_progress_is_given_up(
    answers: list[requests.Response | Exception], why: str, waited: int
) -> None:
    """After as many tries as any other call, and not as many times as many."""
    made, session, waits = bucket(NONE, OPEN, *answers)
    with pytest.raises(NoAnswer) as caught:
        made.put(NAME, upload(3))
    reason = f"the upload was interrupted repeatedly{why}"
    assert (caught.value.reason, len(waits), session.answers) == (reason, waited, [])
    assert caught.value.findings[0].message == f"storage.googleapis.com gives no answer: {reason}"


def test_sessions_that_end_again_and_again() -> None:
    made, session, waits = bucket(NONE, *[OPEN, answer(410), NONE] * 3)
    with pytest.raises(NoAnswer, match="the upload was interrupted repeatedly"):
        made.put(NAME, upload(3))
    assert (len(waits), session.answers) == (3, [])


PAGE = answer(200, b"<html>Your proxy blocks this site</html>")


@pytest.mark.parametrize("answers", [[PAGE], [NONE, OPEN, PAGE]])
def test_a_page_of_a_proxy_is_not_an_answer(answers: list[requests.Response]) -> None:
    made, _, _ = bucket(*answers)
    with pytest.raises(NoAnswer, match="gives no answer: the answer is not a JSON object"):
        made.put(NAME, upload(3))


def test_progress_allows_further_stalls() -> None:
    steps = [answer(308, Range=f"bytes=0-{n}") for n in (0, 0, 0, 1, 1, 1, 2)]
    made, session, _ = bucket(NONE, OPEN, *steps, DONE)
    assert made.put(NAME, upload(5)) == "6"
    assert session.answers == []


def test_an_upload_that_is_refused() -> None:
    made, _, _ = bucket(NONE, OPEN, answer(403, {"error": {"message": "no"}}))
    with pytest.raises(RsctlError) as caught:
        made.put(NAME, upload(3))
    [finding] = caught.value.findings
    assert (finding.code, finding.path, finding.message) == (
        "denied",
        "x",
        "Google Cloud refuses: no",
    )


def test_a_bucket_that_does_not_exist_gets_no_upload() -> None:
    made, session, _ = bucket(NONE, NONE)
    with pytest.raises(RsctlError, match="bucket data does not exist"):
        made.put(NAME, upload(3))
    assert session.answers == []


@pytest.mark.parametrize(
    "place", ["", "https://evil.example/session", "http://storage.googleapis.com/x"]
)
def test_an_upload_is_not_led_to_another_host(place: str) -> None:
    made, session, _ = bucket(NONE, answer(200, Location=place))
    with pytest.raises(RsctlError) as caught:
        made.put(NAME, upload(3))
    message = f"Cloud Storage redirects the upload to another host: {place!r}"
    finding = error("cloud", message, "check the network and its proxy")
    assert (caught.value.exit_code, caught.value.findings) == (ExitCode.REFUSED, (finding,))
    assert sent(session) == []
