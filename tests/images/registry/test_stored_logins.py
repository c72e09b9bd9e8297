"""Log-ins that docker and podman have stored."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.images.registry.credentials import Login
from rsctl.images.registry.names import parse_repository
from rsctl.images.registry.stored_logins import stored_login

HOST = "registry.example"
PLACE = parse_repository(f"{HOST}/team/bert")


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def pair(user: str, secret: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}


def helper(folder: Path, name: str, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "bin" / f"docker-credential-{name}"
    write(path, f"#!/bin/sh\nread -r host\n{body}\n")
    path.chmod(0o700)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


def test_nothing_is_stored() -> None:
    assert stored_login(PLACE) is None


@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/"])
def test_dockers_file(bare_home: Path, key: str) -> None:
    write(bare_home / ".docker" / "config.json", {"auths": {key: pair("a", "b:c")}})
    assert stored_login(PLACE) == Login(HOST, "a", "b:c")
    assert stored_login(parse_repository("other.example/a")) is None


def test_the_name_of_docker_hub(bare_home: Path) -> None:
    config = {"auths": {"https://index.docker.io/v1/": pair("a", "b")}}
    write(bare_home / ".docker" / "config.json", config)
    assert stored_login(parse_repository("team/bert")) == Login("docker.io", "a", "b")


def test_a_refresh_token(bare_home: Path) -> None:
    config = {"auths": {HOST: {**pair("0-0", ""), "identitytoken": "refresh"}}}
    write(bare_home / ".docker" / "config.json", config)
    assert stored_login(PLACE) == Login(HOST, "<token>", "refresh")


def test_podmans_files_have_log_ins_for_parts_of_a_registry(
    bare_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auths = {HOST: pair("all", "1"), f"{HOST}/team": pair("team", "2")}
    write(bare_home / ".config" / "containers" / "auth.json", {"auths": auths})
    assert stored_login(PLACE) == Login(HOST, "team", "2")
    assert stored_login(parse_repository(f"{HOST}/teams")) == Login(HOST, "all", "1")
    write(bare_home / "elsewhere.json", {"auths": {HOST: pair("named", "3")}})
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(bare_home / "elsewhere.json"))
    assert stored_login(PLACE) == Login(HOST, "named", "3")


def test_a_helper_is_asked_by_dockers_protocol(
    bare_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = """[ "$1" = get ] && echo '{"Username": "'$host'", "Secret": "s"}'"""
    helper(tmp_path, "safe", answer, monkeypatch)
    write(bare_home / ".docker" / "config.json", {"credHelpers": {HOST: "safe"}})
    assert stored_login(PLACE) == Login(HOST, HOST, "s")
    write(bare_home / ".docker" / "config.json", {"credsStore": "safe"})
    assert stored_login(PLACE) == Login(HOST, HOST, "s")


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "docker.io"])
def test_a_helper_for_docker_hub_has_dockers_or_podmans_name_of_it(
    bare_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    answer = """echo '{"Username": "'$host'", "Secret": "s"}'"""
    helper(tmp_path, "hub", answer, monkeypatch)
    helper(tmp_path, "others", "exit 1", monkeypatch)
    config = {"credHelpers": {key: "hub"}, "credsStore": "others"}
    write(bare_home / ".docker" / "config.json", config)
    assert stored_login(parse_repository("team/bert")) == Login("docker.io", key, "s")


@pytest.mark.parametrize("body", ["exit 1", "echo nonsense", "echo '[]'", "echo '{}'"])
def test_a_helper_that_knows_nothing(
    bare_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    helper(tmp_path, "safe", body, monkeypatch)
    write(bare_home / ".docker" / "config.json", {"credsStore": "safe"})
    assert stored_login(PLACE) is None


@pytest.mark.parametrize("start", ["../../..{}/", "x/../"])
def test_a_helper_is_a_name_and_no_path(
    bare_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """Not even a path that leads through a folder of the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docker-credential-x").mkdir()
    script = tmp_path / "script"
    write(script, '#!/bin/sh\necho \'{"Username": "a", "Secret": "b"}\'\n')
    script.chmod(0o700)
    config = {"credsStore": f"{start.format(tmp_path)}script"}
    write(bare_home / ".docker" / "config.json", config)
    assert stored_login(PLACE) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[]",
        100_000 * "[",
        {"auths": []},
        {"auths": {HOST: "text"}},
        {"auths": {HOST: {"auth": "%%%"}}},
        {"auths": {HOST: {"auth": 7}}},
        {"auths": {HOST: {}}},
        {"credHelpers": {HOST: ["x"]}},
    ],
)
def test_a_broken_file_has_no_log_in(bare_home: Path, content: Any) -> None:
    write(bare_home / ".docker" / "config.json", content)
    assert stored_login(PLACE) is None
