"""The clock of a node, from what kernels show of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.node import clocks
from rsctl.node.clocks import cpu_clock

VIRTUAL = """processor\t: 0
model name\t: AMD EPYC
cpu MHz\t\t: {}
flags\t\t: fpu {}

processor\t: 1
cpu MHz\t\t: 9999.0
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in place of /sys and /proc."""
    monkeypatch.setattr(clocks, "_LIMITS", f"{tmp_path}/policy*/cpuinfo_max_freq")
    monkeypatch.setattr(clocks, "_CPU_INFO", f"{tmp_path}/cpuinfo")
    return tmp_path


def test_the_highest_clock_of_all_cores(kernel: Path) -> None:
    for number, khz in enumerate(["3700000\n", "5572000\n", "odd\n"]):
        (kernel / f"policy{number}").mkdir()
        (kernel / f"policy{number}" / "cpuinfo_max_freq").write_text(khz)
    (kernel / "cpuinfo").write_text(VIRTUAL.format("2599.998", "hypervisor"))
    assert cpu_clock() == "5.55 GHz"


@pytest.mark.parametrize(
    ("mhz", "flags", "expected"),
    [
        ("2596.132", "hypervisor", "2.6 GHz"),
        ("2595.998", "hypervisor", "2.6 GHz"),
        ("2249.998", "hypervisor", "2.25 GHz"),
        ("2250.001", "hypervisor", "2.25 GHz"),
        ("3187.402", "", None),
        ("3187.402", "hypervisor aperfmperf", None),
        ("unknown", "hypervisor", None),
    ],
)
def test_a_virtual_machine(kernel: Path, mhz: str, flags: str, expected: str | None) -> None:
    """On a machine of its own /proc/cpuinfo has the current clock, which fluctuates."""
    (kernel / "cpuinfo").write_text(VIRTUAL.format(mhz, flags))
    assert cpu_clock() == expected


def test_a_kernel_that_shows_nothing(kernel: Path) -> None:
    assert cpu_clock() is None
