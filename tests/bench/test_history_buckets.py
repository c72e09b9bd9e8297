"""Histories in buckets: appends of several writers, by the emulators of Cloud Storage and S3."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rsctl.bench.history import encode_record
from rsctl.bench.history_files import append_record, read_history
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.storage import ObjectChanged, ObjectUrl
from rsctl.clients.storage.buckets import open_bucket
from rsctl.findings import RsctlError
from tests.bench.test_baseline_buckets import bucket  # noqa: F401
from tests.bench.test_history import commit, record


def test_appended_and_read(bucket: str) -> None:  # noqa: F811
    place = f"{bucket}/bench/the history.jsonl"
    with pytest.raises(RsctlError, match=r"cannot read the history .*: it does not exist"):
        read_history(place)
    for number in (1, 2, 2):
        assert append_record(record(number), place) == place
    assert read_history(place).records == [record(1), record(2)]


def test_writers_at_the_same_time_lose_nothing(bucket: str) -> None:  # noqa: F811
    place = f"{bucket}/h.jsonl"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: append_record(record(number), place), range(12)))
    assert [r.commit for r in read_history(place).records] == [commit(n) for n in range(12)]


def test_an_object_is_replaced_in_the_version_that_was_read(bucket: str) -> None:  # noqa: F811
    parts = ObjectUrl.parse(f"{bucket}/a b.txt")
    opened = open_bucket(bucket, Endpoints.of_environment())
    assert opened.load(parts.name, 100) is None
    opened.replace(parts.name, b"one", "text/plain", "")
    with pytest.raises(ObjectChanged):
        opened.replace(parts.name, b"another", "text/plain", "")
    loaded = opened.load(parts.name, 100)
    assert loaded is not None
    opened.replace(parts.name, b"two", "text/plain", loaded.version)
    with pytest.raises(ObjectChanged):
        opened.replace(parts.name, b"three", "text/plain", loaded.version)
    second = opened.load(parts.name, 2)
    assert second is not None
    assert second.data == b"tw"


def test_an_empty_object_is_an_empty_history(bucket: str) -> None:  # noqa: F811
    opened = open_bucket(bucket, Endpoints.of_environment())
    opened.replace("h.jsonl", b"", "text/plain")
    assert read_history(f"{bucket}/h.jsonl").records == []
    append_record(record(1), f"{bucket}/h.jsonl")
    loaded = opened.load("h.jsonl", 10_000)
    assert loaded is not None
    assert loaded.data == encode_record(record(1))


def test_an_answer_that_was_lost(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The write counted, and a second try of it fails: the line is there once."""
    opened = open_bucket(bucket, Endpoints.of_environment())
    replace = type(opened).replace

    def lose(self: object, *arguments: object) -> None:
        replace(self, *arguments)  # type: ignore[arg-type]
        replace(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(opened), "replace", lose)
    append_record(record(1), f"{bucket}/h.jsonl")
    assert read_history(f"{bucket}/h.jsonl").records == [record(1)]
    loaded = opened.load("h.jsonl", 10_000)
    assert loaded is not None
    assert loaded.data == encode_record(record(1))


def test_a_bucket_that_does_not_exist(bucket: str) -> None:  # noqa: F811
    with pytest.raises(RsctlError):
        append_record(record(1), f"{bucket.replace('staging', 'another')}/h.jsonl")
    with pytest.raises(RsctlError, match="does not name an object"):
        append_record(record(1), bucket)
