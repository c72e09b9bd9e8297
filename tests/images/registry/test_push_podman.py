"""Pushing with podman, whose storage and log-ins are its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.operations import find_pushed
from rsctl.images.registry.push import push
from tests.kit.docker import needs_registry

from .conftest import PASSWORD, USER, Registry, refusal

pytestmark = [
    needs_registry,
    pytest.mark.skipif(
        os.environ.get("CI") != "true" and shutil.which("podman") is None, reason="needs podman"
    ),
]


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, bare_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images in the test's folder, copied rather than mounted, so that any machine can."""
    config = tmp_path / "storage.conf"
    config.write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{tmp_path}/run"\ngraphroot = "{tmp_path}/graph"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(config))
    (bare_home / "run").mkdir()


def make_image(reference: str, folder: Path) -> None:
    (folder / "file").write_text("hello")
    tar = folder / "image.tar"
    subprocess.run(["tar", "-C", str(folder), "-cf", str(tar), "file"], check=True)
    subprocess.run(["podman", "import", str(tar), reference], check=True, capture_output=True)


def test_a_push_with_a_log_in(
    start_registry: Callable[..., Registry], tmp_path: Path, bare_home: Path
) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference, tmp_path)
    login = Login(registry.host, USER, PASSWORD)
    seen: dict[str, bytes] = {}

    def look_around(_: str) -> None:
        for top in (bare_home, tmp_path / "tmp", tmp_path / "run"):
            for folder, _, names in os.walk(top):  # of which podman removes some meanwhile
                for path in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        if path.is_file():
                            seen[str(path)] = path.read_bytes()

    digest = push("podman", reference, login, look_around)
    assert find_pushed(reference, login) == digest
    configs = [json.loads(c) for name, c in seen.items() if name.endswith("/config.json")]
    assert {"credHelpers": {registry.host: "rsctl"}} in configs
    for name, content in seen.items():
        assert PASSWORD.encode() not in content, name
        assert login.basic.encode() not in content, name


def test_podmans_own_log_in_serves(start_registry: Callable[..., Registry], tmp_path: Path) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference, tmp_path)
    login = ["podman", "login", "--tls-verify=false", "--username", USER, "--password-stdin"]
    subprocess.run(
        [*login, registry.host], input=PASSWORD.encode(), check=True, capture_output=True
    )
    assert push("podman", reference, None, lambda _: None) == find_pushed(reference, None)


def test_a_wrong_password(start_registry: Callable[..., Registry], tmp_path: Path) -> None:
    registry = start_registry(with_password=True)
    reference = f"{registry.repository()}:v1"
    make_image(reference, tmp_path)
    with pytest.raises(RsctlError) as pushed:
        push("podman", reference, Login(registry.host, USER, "guessed"), lambda _: None, ())
    assert refusal(pushed.value)[:2] == ("REFUSED", "login-refused")


def test_nobody_there_and_no_image(tmp_path: Path) -> None:
    reference = "127.0.0.1:1/rsctl-r/tiny:v1"
    with pytest.raises(RsctlError) as unknown:
        push("podman", reference, None, lambda _: None, ())
    assert refusal(unknown.value)[:2] == ("ENVIRONMENT", "image-missing")
    make_image(reference, tmp_path)
    with pytest.raises(RsctlError) as pushed:
        push("podman", reference, None, lambda _: None, ())
    assert refusal(pushed.value)[:2] == ("ENVIRONMENT", "registry-unreachable")
