"""What a local plan takes from this machine: its GPUs, its cores, its limits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rsctl.targets.local.host import this_host


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        (["null", "nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps"], 3),
        (["null"], 0),
        (None, 0),
    ],
)
def test_each_device_file_of_a_gpu_counts(
    monkeypatch: pytest.MonkeyPatch, devices: list[str] | None, gpus: int
) -> None:
    def listed(folder: Path) -> list[str]:
        assert folder == Path("/dev")
        if devices is None:
            raise PermissionError
        return devices

    monkeypatch.setattr(os, "listdir", listed)
    assert this_host().gpus == gpus


def test_only_the_cores_that_this_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert this_host().cpus == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert this_host().cpus == 64


@pytest.mark.parametrize(
    ("user", "status", "may"),
    [
        (1000, "CapEff:\t0000000000000000\n", True),  # the engine has rights of its own
        (0, "Name:\tpython\nCapEff:\t000001ffffffffff\n", True),
        (0, "Name:\tpython\nCapEff:\t00000000a80425fb\n", False),  # as in a container of Docker
        (0, "Name:\tpython\n", True),
        (0, None, True),
    ],
)
def test_root_in_a_container_may_not_lift_the_limit_of_locked_memory(
    monkeypatch: pytest.MonkeyPatch, user: int, status: str | None, may: bool
) -> None:
    def read(path: Path) -> str:
        if status is None:
            raise FileNotFoundError(path)
        return status

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(Path, "read_text", read)
    assert this_host().may_lock_memory is may


# As `docker context create` writes it for dockerd-rootless-setuptool.sh.
CONTEXT = {
    "Name": "rootless",
    "Metadata": {"Description": "Rootless mode"},
    "Endpoints": {"docker": {"Host": "unix://SOCKET", "SkipTLSVerify": False}},
}
NAME = "12b961af5feb3e9d39f93b2cefb9a1a944f18d02cca0cac2f04f5a982240605f"  # its SHA-256


@pytest.mark.parametrize("how", ["DOCKER_HOST", "DOCKER_CONTEXT", "currentContext"])
@pytest.mark.parametrize("user", [1000, 0])
@pytest.mark.parametrize(("owner", "may"), [(1000, False), (0, True)])
def test_an_engine_of_a_user_may_not_lift_the_limit_of_locked_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, user: int, owner: int, may: bool
) -> None:
    """Rootless docker: https://github.com/elastic/start-local/issues/66."""
    socket, folder = tmp_path / "docker.sock", tmp_path / "contexts" / "meta" / NAME
    socket.touch()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(CONTEXT).replace("SOCKET", str(socket)))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    if how == "currentContext":
        (tmp_path / "config.json").write_text(json.dumps({"currentContext": "rootless"}))
    else:
        monkeypatch.setenv(how, "rootless" if how == "DOCKER_CONTEXT" else f"unix://{socket}")
    found = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        facts = list(found(path, **options))
        facts[4] = owner if path == socket else facts[4]
        return os.stat_result(facts)

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(Path, "read_text", lambda _: "CapEff:\t000001ffffffffff\n")
    monkeypatch.setattr(Path, "stat", stat)
    assert this_host().may_lock_memory is may


@pytest.mark.parametrize(
    "configuration", [None, "[]", "{", '{"currentContext": 7}', '{"currentContext": "../x"}']
)
def test_an_engine_that_no_context_names_is_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, configuration: str | None
) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    if configuration is not None:
        (tmp_path / "config.json").write_text(configuration)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert this_host().may_lock_memory
    monkeypatch.setenv("DOCKER_CONTEXT", "\udcff")  # a byte that is not UTF-8
    assert this_host().may_lock_memory
    monkeypatch.setenv("DOCKER_HOST", "ssh://user@node")
    assert this_host().may_lock_memory
