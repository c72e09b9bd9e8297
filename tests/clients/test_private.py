"""Addresses as they are shown and refused; tests/clients/test_sessions.py has which are private."""

from __future__ import annotations

import pytest

from rsctl.clients.private import is_loopback, not_private, without_secrets
from rsctl.clients.staging import parse_staging
from rsctl.findings import ExitCode, error


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        *(("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.9.9.9", True)),
        *(("::1", True), ("[::1]", True), ("10.0.0.1", False), ("localhost.example", False)),
        *(("", False), (None, False), ("[::2]", False)),
    ],
)
def test_this_machine(host: str | None, verdict: bool) -> None:
    assert is_loopback(host) is verdict


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/path", "https://host/path"),
        ("https://user:pass@host/path?key=1#x", "https://host/path"),
        ("https://host/path#x?key", "https://host/path"),
        ("https://a@b@host", "https://host"),
        ("host", "host"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_an_address_in_clear_is_refused() -> None:
    text = "it is X, which would send credentials unencrypted over the network"
    remedy = "give an https:// address, or one on this machine"
    made = not_private("it is X", "http://host/")
    assert made.exit_code is ExitCode.ENVIRONMENT
    assert made.findings == (error("endpoint", text, remedy),)
    assert not_private("it is X", "ftp://host", "use TLS").findings == (
        error("endpoint", text, "use TLS"),
    )


@pytest.mark.parametrize("url", ["https://u@host/", "HTTP://host\\x", "http://hóst", "https://a b"])
def test_an_address_on_which_programs_disagree_is_refused(url: str) -> None:
    [finding] = not_private("it is X", url, "use TLS").findings
    assert finding.message.endswith(": programs disagree about its host")
    assert finding.remedy == "give the address as https://HOST/PATH"


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("gs://bucket", ("bucket", "")),
        ("gs://bucket/", ("bucket", "")),
        ("s3://bucket/a/b", ("bucket", "a/b/")),
        ("s3://bucket//a/", ("bucket", "a/")),
    ],
)
def test_a_staging_folder(uri: str, parts: tuple[str, str]) -> None:
    assert parse_staging(uri) == parts
