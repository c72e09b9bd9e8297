"""Utilization and memory of this node's NVIDIA GPUs, by the driver's library (NVML)."""

from __future__ import annotations

import ctypes

_LIBRARY = "libnvidia-ml.so.1"
_CLOCK_SM = 1  # NVML_CLOCK_SM of nvmlClockType_t


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Nvml:
    """The driver's library, loaded and initialised; `Nvml.load()` makes one."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def load(cls) -> Nvml | None:
        """The library of this node; None if there is no NVIDIA driver, or it does not work."""
        try:
            nvml = cls(ctypes.CDLL(_LIBRARY))
        except OSError:
            return None
        return nvml if nvml._call("nvmlInit_v2") else None

    def driver(self) -> str | None:
        """The driver's version, such as `570.86.15`."""
        # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80.
        text = ctypes.create_string_buffer(80)
        known = self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(len(text)))
        return text.value.decode(errors="replace") or None if known else None

    def names(self) -> list[str]:
        """The product name of each GPU, if the library reports it."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [name for index in range(count.value) if (name := self._name(index))]

    def highest_clocks(self) -> list[int]:
        """The highest clock of each GPU's multiprocessors in MHz, if the library reports it."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [mhz for index in range(count.value) if (mhz := self._highest_clock(index))]

    def _highest_clock(self, index: int) -> int:
        device, clock = ctypes.c_void_p(), ctypes.c_uint()
        if not self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device)):
            return 0
        known = self._call("nvmlDeviceGetMaxClockInfo", device, _CLOCK_SM, ctypes.byref(clock))
        return clock.value if known else 0

    def _name(self, index: int) -> str | None:
        device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)  # ..._V2_BUFFER_SIZE
        if not self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device)):
            return None
        known = self._call("nvmlDeviceGetName", device, text, ctypes.c_uint(len(text)))
        return text.value.decode(errors="replace") or None if known else None

    def read(self) -> list[dict[str, int]]:
        """Each GPU's index, use in percent and memory in bytes, if the library reports them."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._read_gpu(index) for index in range(count.value)]

    def _read_gpu(self, index: int) -> dict[str, int]:
        gpu: dict[str, int] = {"index": index}
        device, utilization, memory = ctypes.c_void_p(), _Utilization(), _Memory()
        if not self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device)):
            return gpu
        if self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(utilization)):
            gpu["util_percent"] = utilization.gpu
        if self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory)):
            gpu["memory_bytes"] = memory.used
            gpu["memory_total_bytes"] = memory.total
        return gpu

    def _call(self, function: str, *arguments: object) -> bool:
        """Whether the library has this function and it succeeded. 0 is NVML_SUCCESS."""
        entry = getattr(self._library, function, None)
        return entry is not None and entry(*arguments) == 0
