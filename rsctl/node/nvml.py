"""Utilization, memory and health of this node's NVIDIA GPUs, by the driver's library (NVML)."""

from __future__ import annotations

import ctypes

_LIBRARY = "libnvidia-ml.so.1"
_CLOCK_SM = 1  # NVML_CLOCK_SM of nvmlClockType_t
_UNCORRECTED, _SINCE_LOAD = 1, 0  # of nvmlMemoryErrorType_t and nvmlEccCounterType_t
_DOUBLE_BIT = 1  # NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
_XID_EVENT = 8  # nvmlEventTypeXidCriticalError
_MOST_EVENTS = 100


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Event(ctypes.Structure):
    """nvmlEventData_t; `data` is the number of an Xid."""

    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


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
        return [name for index in range(self._count()) if (name := self._name(index))]

    def highest_clocks(self) -> list[int]:
        """The highest clock of each GPU's multiprocessors in MHz, if the library reports it."""
        return [mhz for index in range(self._count()) if (mhz := self._highest_clock(index))]

    def _highest_clock(self, index: int) -> int:
        device, clock = self._handle(index), ctypes.c_uint()
        if device is None:
            return 0
        known = self._call("nvmlDeviceGetMaxClockInfo", device, _CLOCK_SM, ctypes.byref(clock))
        return clock.value if known else 0

    def _name(self, index: int) -> str | None:
        device, text = self._handle(index), ctypes.create_string_buffer(96)  # ..._V2_BUFFER_SIZE
        if device is None:
            return None
        known = self._call("nvmlDeviceGetName", device, text, ctypes.c_uint(len(text)))
        return text.value.decode(errors="replace") or None if known else None

    def read(self) -> list[dict[str, int]]:
        """Each GPU's index, use in percent and memory in bytes, if the library reports them."""
        return [self._read_gpu(index) for index in range(self._count())]

    def _read_gpu(self, index: int) -> dict[str, int]:
        gpu: dict[str, int] = {"index": index}
        device, utilization, memory = self._handle(index), _Utilization(), _Memory()
        if device is None:
            return gpu
        if self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(utilization)):
            gpu["util_percent"] = utilization.gpu
        if self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory)):
            gpu["memory_bytes"] = memory.used
            gpu["memory_total_bytes"] = memory.total
        return gpu

    def health(self) -> list[dict[str, int]]:
        """Each GPU's index and signs of a fault, if the library reports them.

        `ecc_uncorrected` counts since the driver was loaded. `remap_pending` and `remap_failed`
        are of memory rows (Ampere and later), `retired_pages` and `retirement_pending` of memory
        pages (before). `throttled` has the bits of nvmlClocksEventReasons.
        """
        return [self._health_of(index) for index in range(self._count())]

    def _health_of(self, index: int) -> dict[str, int]:
        gpu: dict[str, int] = {"index": index}
        device = self._handle(index)
        if device is None:
            return gpu
        errors, reasons = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        kinds = (_UNCORRECTED, _SINCE_LOAD)
        if self._call("nvmlDeviceGetTotalEccErrors", device, *kinds, ctypes.byref(errors)):
            gpu["ecc_uncorrected"] = errors.value
        rows = [ctypes.c_uint() for _ in range(4)]
        if self._call("nvmlDeviceGetRemappedRows", device, *map(ctypes.byref, rows)):
            gpu |= {"remap_pending": rows[2].value, "remap_failed": rows[3].value}
        pages, addresses = ctypes.c_uint(1024), (ctypes.c_ulonglong * 1024)()
        call = ("nvmlDeviceGetRetiredPages", device, _DOUBLE_BIT, ctypes.byref(pages), addresses)
        if self._call(*call):
            gpu["retired_pages"] = pages.value
        pending = ctypes.c_uint()
        if self._call("nvmlDeviceGetRetiredPagesPendingStatus", device, ctypes.byref(pending)):
            gpu["retirement_pending"] = pending.value
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            if self._call(name, device, ctypes.byref(reasons)):
                gpu["throttled"] = reasons.value
                break
        return gpu

    def watch_xids(self) -> XidEvents | None:
        """The driver's reports of errors from now on; None if the library cannot report them."""
        events = ctypes.c_void_p()
        if not self._call("nvmlEventSetCreate", ctypes.byref(events)):
            return None
        indexes: dict[int, int] = {}
        for index in range(self._count()):
            device = self._handle(index)
            kind = ctypes.c_ulonglong(_XID_EVENT)
            if device is not None and self._call("nvmlDeviceRegisterEvents", device, kind, events):
                indexes[device.value or 0] = index
        return XidEvents(self, events, indexes)

    def _count(self) -> int:
        """The number of GPUs; 0 if the library does not tell."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def _handle(self, index: int) -> ctypes.c_void_p | None:
        device = ctypes.c_void_p()
        known = self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
        return device if known else None

    def next_xid(self, events: ctypes.c_void_p) -> tuple[int, int] | None:
        """The handle of a GPU and the number of its error; None if there is no further report."""
        event = _Event()
        known = self._call("nvmlEventSetWait_v2", events, ctypes.byref(event), ctypes.c_uint(0))
        return (event.device or 0, event.data) if known else None

    def _call(self, function: str, *arguments: object) -> bool:
        """Whether the library has this function and it succeeded. 0 is NVML_SUCCESS."""
        entry = getattr(self._library, function, None)
        return entry is not None and entry(*arguments) == 0


class XidEvents:
    """Errors that the driver has reported since `Nvml.watch_xids`."""

    def __init__(self, nvml: Nvml, events: ctypes.c_void_p, indexes: dict[int, int]) -> None:
        self._nvml, self._events, self._indexes = nvml, events, indexes

    def read(self) -> list[tuple[int, int]]:
        """The index of a GPU and the number of its error (Xid), for each that is new."""
        found: list[tuple[int, int]] = []
        while len(found) < _MOST_EVENTS and (event := self._nvml.next_xid(self._events)):
            found.append((self._indexes.get(event[0], 0), event[1]))
        return found
