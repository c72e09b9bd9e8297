"""The clock of this node's processors: the highest that they can have, which does not fluctuate.

The current clock changes with load and temperature, so that two runs on one machine would look like
runs on two. Values are rounded: a virtual machine measures its clock when it starts.
"""

from __future__ import annotations

from glob import glob

from rsctl.node.small_files import fields

_LIMITS = "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq"
_CPU_INFO = "/proc/cpuinfo"
_FIRST_PROCESSOR = 1 << 13
"""Characters of that file that have the first processor: the kernel asks each for its clock."""
_STEP_MHZ = 50


def cpu_clock() -> str | None:
    """The clock, such as `3.7 GHz`; None if only the current one is known.

    The kernel names the highest clock of each core in kHz, in `cpuinfo_max_freq` of cpufreq. A
    virtual machine without cpufreq shows a constant in /proc/cpuinfo, unless the host passes the
    counters of the current clock (`aperfmperf`) through.
    """
    highest = max(map(_khz, glob(_LIMITS)), default=0)
    megahertz = highest / 1000 if highest else _constant_mhz()
    return gigahertz(megahertz) if megahertz else None


def gigahertz(megahertz: float) -> str | None:
    """A clock in GHz, rounded to 50 MHz; None if it is less."""
    steps = round(megahertz / _STEP_MHZ)
    return f"{steps * _STEP_MHZ / 1000:g} GHz" if steps > 0 else None


def _khz(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return 0


def _constant_mhz() -> float:
    """The clock of a virtual machine in /proc/cpuinfo; 0 if it is not a constant."""
    found = fields(_CPU_INFO, _FIRST_PROCESSOR)
    flags = found.get("flags", "").split()
    is_constant = "hypervisor" in flags and "aperfmperf" not in flags
    try:
        return float(found["cpu MHz"]) if is_constant else 0.0
    except (KeyError, ValueError):
        return 0.0
