"""What a local plan takes from this machine: its GPUs, its cores, its limits."""

from __future__ import annotations

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
