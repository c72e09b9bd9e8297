"""Pushing with a stand-in for docker: what it is given, and what is made of what it says."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.push import push

from .conftest import Script, StartScript, refusal

DIGEST, OTHER = (f"sha256:{64 * letter}" for letter in "ab")
IMMUTABLE = "tag invalid: The image tag 'v1' already exists and cannot be overwritten"


@pytest.fixture
def registry(serve: StartScript) -> Script:
    """A registry that has DIGEST by every tag."""
    return serve(lambda request: (200, {"Docker-Content-Digest": DIGEST}, b""))


def program(folder: Path, body: str, name: str = "docker") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return str(path)


def silent(_: str) -> None:
    pass


def test_docker_is_given_a_helper_and_which_engine_to_use(
    registry: Script, bare_home: Path, tmp_path: Path
) -> None:
    own = bare_home / ".docker"
    (own / "contexts" / "meta").mkdir(parents=True)
    secret = {"auth": "c3RvcmVkOnNlY3JldA=="}
    config = {
        "auths": {"quay.example": secret},
        "credsStore": "desktop",
        "currentContext": "remote",
        "proxies": {"default": {"httpProxy": "http://user:secret@proxy"}},
    }
    (own / "config.json").write_text(json.dumps(config))
    docker = program(
        tmp_path,
        'echo "$@"; cat "$DOCKER_CONFIG/config.json"; echo; stat -c %a "$DOCKER_CONFIG"\n'
        'ls "$DOCKER_CONFIG/contexts/"\n'
        f"printf {registry.host} | docker-credential-rsctl get\n"
        "printf other.example | docker-credential-rsctl get || echo unknown\n"
        f"printf {registry.host} | docker-credential-rsctl store || echo unchanged\n"
        f"echo v1: digest: {DIGEST} size: 528",
    )
    said: list[str] = []
    reference = f"{registry.host}/a:v1"
    login = Login(registry.host, "alice", "s3cr3t'\"$x")
    assert push(docker, reference, login, said.append) == DIGEST
    helper = {"ServerURL": registry.host, "Username": "alice", "Secret": login.secret}
    assert said == [
        f"push {reference}",
        json.dumps({"credHelpers": {registry.host: "rsctl"}, "currentContext": "remote"}),
        "700",
        "meta",
        login.hide(json.dumps(helper)),
        "unknown",
        "unchanged",
        f"v1: digest: {DIGEST} size: 528",
    ]
    assert json.loads(said[4])["Secret"] == "***"


def test_a_folder_in_which_no_program_runs(
    registry: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that is mounted noexec."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(RsctlError) as refused:
        push("docker", f"{registry.host}/a:v1", Login(registry.host, "alice", "x"), silent)
    assert refusal(refused.value) == (
        *("ENVIRONMENT", "noexec"),
        f"programs cannot run in {tempfile.gettempdir()}, which must hold the credential helper",
        "set TMPDIR to a folder on a file system that is not mounted noexec",
    )


@pytest.mark.parametrize("named", [None, "/certificates"])
def test_the_certificates_for_a_remote_engine_stay_where_docker_looks(
    registry: Script,
    bare_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
) -> None:
    """Docker's default is the folder of its configuration, which a push replaces."""
    monkeypatch.delenv("DOCKER_CERT_PATH", raising=False)
    if named:
        monkeypatch.setenv("DOCKER_CERT_PATH", named)
    docker = program(tmp_path, f'echo "$DOCKER_CERT_PATH"; echo v1: digest: {DIGEST} size: 528')
    said: list[str] = []
    push(docker, f"{registry.host}/a:v1", Login(registry.host, "alice", "a password"), said.append)
    assert said[0] == (named or str(bare_home / ".docker"))


@pytest.mark.parametrize("shown", ['a"b', 'a\\"b', "YWxpY2U6YSJi"], ids=["text", "json", "basic"])
def test_a_secret_is_hidden_in_each_form(shown: str) -> None:
    assert Login("host", "alice", 'a"b').hide(f"with {shown} once") == "with *** once"


def test_without_a_log_in_docker_keeps_its_own_configuration(
    registry: Script, tmp_path: Path
) -> None:
    docker = program(tmp_path, 'echo "${DOCKER_CONFIG-none}"; ls "$TMPDIR"/*')
    said: list[str] = []
    assert push(docker, f"{registry.host}/a:v1", None, said.append) == DIGEST
    assert said == ["none"]


def test_an_immutable_tag_that_has_this_very_image(registry: Script, tmp_path: Path) -> None:
    docker = program(
        tmp_path,
        f"""[ "$1 $2" = "image inspect" ] && echo '["x/a@{DIGEST}"]' && exit\n"""
        f'echo "{IMMUTABLE}"; exit 1',
    )
    assert push(docker, f"{registry.host}/a:v1", None, silent) == DIGEST


@pytest.mark.parametrize("known", [f'["x/a@{OTHER}"]', "[]", "null", "nonsense"])
def test_an_immutable_tag_that_has_another_image(
    registry: Script, tmp_path: Path, known: str
) -> None:
    docker = program(
        tmp_path,
        f"""[ "$1 $2" = "image inspect" ] && echo '{known}' && exit\necho "{IMMUTABLE}"; exit 1""",
    )
    reference = f"{registry.host}/a:v1"
    with pytest.raises(RsctlError) as refused:
        push(docker, reference, None, silent)
    assert refusal(refused.value) == (
        *("REFUSED", "tag-immutable"),
        f"cannot push {reference}: the registry already has a different image with this tag, and "
        f"its tags cannot be changed; the last line: {IMMUTABLE}",
        "run the command again: it uses the existing image, which was built from the same files",
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [("docker", f"echo v1: digest: {OTHER} size: 528"), ("podman", f"echo {OTHER} > $3")],
)
def test_somebody_else_pushed_at_the_same_time(
    registry: Script, tmp_path: Path, name: str, said: str
) -> None:
    reference = f"{registry.host}/a:v1"
    with pytest.raises(RsctlError) as refused:
        push(program(tmp_path, said, name), reference, None, silent)
    assert refusal(refused.value) == (
        *("REFUSED", "push-overtaken"),
        f"{reference} was pushed as {OTHER}, but the registry shows {DIGEST} for that tag",
        "another process pushed at the same time: run the command again",
    )


def test_a_registry_that_takes_a_moment_to_show_it(serve: StartScript, tmp_path: Path) -> None:
    docker = program(tmp_path, f"echo v1: digest: {DIGEST} size: 528")
    found = {"Docker-Content-Digest": DIGEST}
    late = serve(lambda _: (200, found, b"") if len(late.requests) > 2 else (404, {}, b""))
    assert push(docker, f"{late.host}/a:v1", None, silent, (0.0, 0.0)) == DIGEST
    never = serve(lambda _: (404, {}, b""))
    with pytest.raises(RsctlError) as refused:
        push(docker, f"{never.host}/a:v1", None, silent, (0.0,))
    assert refusal(refused.value)[:3] == (
        *("REFUSED", "push"),
        f"{never.host}/a:v1 was pushed, but the registry does not show it",
    )


def test_lines_of_any_kind(registry: Script, tmp_path: Path) -> None:
    docker = program(
        tmp_path,
        "head -c 300000 /dev/zero | tr '\\0' x; printf '\\377\\n'\n"
        f"echo v1: digest: {DIGEST} size: 528",
    )
    said: list[str] = []
    assert push(docker, f"{registry.host}/a:v1", None, said.append) == DIGEST
    assert [len(line) for line in said[:-1]] == [len("…") + (1 << 14)]
