"""The C++ core by way of ctypes: no compiler, no Python or torch ABI when it is used."""

from __future__ import annotations

import ctypes
import math
import socket
import time
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int64, c_uint8, c_uint32
from ctypes import c_uint64 as u64
from ctypes import c_void_p as handle
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from rsctl.transport.engine_interface import (
    ClientStats,
    EpochGroup,
    EpochOutcome,
    Membership,
    ReducerStats,
    Sockets,
)
from rsctl.transport.errors import EngineFailure, ErrorCode, printable
from rsctl.transport.frames import ITEM_BYTES

LIBRARY = Path(__file__).parent / "librsctl_core.so"
"""Where the package's build puts the core."""

TEXT_BYTES = 2048
"""Room for a text of the core, its end included."""

_ABI = 5
_SLICE_SECONDS = 0.5  # a wait inside C holds signals back for no longer than this


class _Group(Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("world", "frame", "window", "epoch")),
        ("job", u64),
        ("silence", c_double),
    ]


class _ReducerStats(Structure):
    _fields_ = [("bytes_in", u64), ("bytes_out", u64), ("blocks", u64), ("members", c_uint32)]


class _Membership(Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("rank", "world", "servers", "row", "frame", "epoch")),
        ("job", u64),
        ("silence", c_double),
        ("timeout", c_double),
    ]


class _ClientStats(Structure):
    _fields_ = [
        *((name, u64) for name in ("bytes_in", "bytes_out", "operations", "reduced")),
        ("busy", c_double),
        ("stalled", c_double),
    ]


class _Failure(Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("code", "server", "rank", "remote", "blamed")),
        ("sequence", u64),
        ("detail", c_char * TEXT_BYTES),
    ]


_SIGNATURES = {
    "core_abi": (c_uint32,),
    "reducer_start": (handle, POINTER(_Group)),
    "reducer_adopt": (c_int, handle, c_int, handle, c_uint32),
    "reducer_ending": (c_int, handle, POINTER(c_uint32), c_char_p),
    "reducer_read": (
        None,
        handle,
        POINTER(_ReducerStats),
        POINTER(c_double),
        POINTER(c_double),
    ),
    "reducer_stop": (None, handle, c_uint32, c_char_p),
    "reducer_free": (None, handle),
    "client_start": (
        handle,
        POINTER(_Membership),
        POINTER(c_uint32),
        POINTER(c_uint32),
        POINTER(c_int),
        POINTER(handle),
    ),
    "client_submit": (u64, handle, handle, u64, c_uint32, c_uint8, c_uint8),
    "client_wait": (c_int, handle, u64, c_double),
    "client_set_timeout": (None, handle, c_double),
    "client_completed": (u64, handle),
    "client_committed": (u64, handle),
    "client_failure": (c_int, handle, POINTER(_Failure)),
    "client_read": (None, handle, POINTER(_ClientStats)),
    "client_stop": (None, handle),
    "client_free": (None, handle),
    "tls_names": (c_char_p,),
    "tls_use": (None, POINTER(handle)),
    "tls_context_start": (handle, c_char_p, u64, c_char_p, u64, c_int),
    "tls_context_free": (None, handle),
    "tls_start": (handle, handle),
    "tls_free": (None, handle),
    "tls_handshake": (c_int, handle, c_char_p),
    "tls_binding": (c_uint32, handle, c_char_p, c_uint32),
    "tls_put": (c_int, handle, c_char_p, u64),
    "tls_take": (u64, handle, c_char_p, u64),
    "tls_write": (c_int, handle, c_char_p, u64),
    "tls_read": (c_int64, handle, c_char_p, u64),
    "tls_finish": (None, handle),
    "pack": (None, handle, handle, handle, u64, c_uint8),
    "unpack": (None, handle, handle, u64, c_uint8),
    "reduce_blocks": (None, handle, c_uint32, u64, c_uint8, c_uint8, handle),
}


@cache
def library() -> ctypes.CDLL | None:
    """The loaded core; None if it was not built, or cannot run here."""
    try:
        core = ctypes.CDLL(str(LIBRARY))
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(core, f"rsctl_{name}")
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return core if core.rsctl_core_abi() == _ABI else None


def _loaded() -> ctypes.CDLL:
    core = library()
    if core is None:
        raise OSError("the transport's core is not built")
    return core


def _named(structure: Structure) -> dict[str, Any]:
    """The numbers of a structure, by the names of its fields."""
    return {name: getattr(structure, name) for name, *_ in structure._fields_}


def _hand_over(sock: socket.socket) -> tuple[int, int | None]:
    """A descriptor, and the core's TLS object on it if there is one."""
    hand_over = getattr(sock, "hand_over", None)  # of CoreTlsSocket, whose module imports `ssl`
    return hand_over() if hand_over else (sock.detach(), None)


class CoreReducer:
    """A ReducerEngine in C++."""

    def __init__(self, group: EpochGroup) -> None:
        """Raises OSError if the core does not exist, MemoryError if it cannot start."""
        self._core = _loaded()
        self._world = group.world
        fields = _Group(**asdict(group))
        self._handle = self._core.rsctl_reducer_start(ctypes.byref(fields))
        if not self._handle:
            raise MemoryError("the reducer could not start")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._core.rsctl_reducer_free(self._handle)

    def adopt(self, sock: socket.socket, rank: int) -> None:
        """See ReducerEngine."""
        self._core.rsctl_reducer_adopt(self._handle, *_hand_over(sock), rank)

    def outcome(self) -> EpochOutcome | None:
        """See ReducerEngine."""
        code, text = c_uint32(), ctypes.create_string_buffer(TEXT_BYTES)
        if not self._core.rsctl_reducer_ending(self._handle, ctypes.byref(code), text):
            return None
        return EpochOutcome(ErrorCode(code.value) if code.value else None, printable(text.value))

    def stats(self) -> ReducerStats:
        """See ReducerEngine."""
        stats, late = _ReducerStats(), [(c_double * self._world)() for _ in range(2)]
        self._core.rsctl_reducer_read(self._handle, ctypes.byref(stats), *late)
        return ReducerStats(**_named(stats), late_mean=list(late[0]), late_most=list(late[1]))

    def stop(self, code: ErrorCode, message: str) -> None:
        """See ReducerEngine."""
        self._core.rsctl_reducer_stop(self._handle, int(code), message.encode())


class CoreClient:
    """A ClientEngine in C++. `sockets` are opened, in the schedule's order."""

    def __init__(self, membership: Membership, sockets: Sockets) -> None:
        """Raises OSError if the core does not exist, MemoryError if it cannot start."""
        self._core = _loaded()
        self._schedule = schedule = membership.schedule
        fields = _Membership(
            membership.rank,
            schedule.workers,
            schedule.servers,
            len(schedule.slots),
            schedule.frame,
            membership.epoch,
            membership.job,
            membership.silence,
            membership.timeout,
        )
        fds, tls = zip(*(_hand_over(sock) for sock in sockets), strict=True)
        self._handle = self._core.rsctl_client_start(
            ctypes.byref(fields),
            (c_uint32 * len(schedule.slots))(*schedule.slots),
            (c_uint32 * schedule.servers)(*schedule.windows),
            (c_int * schedule.servers)(*fds),
            (handle * schedule.servers)(*tls),
        )
        if not self._handle:
            raise MemoryError("the client could not start")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._core.rsctl_client_free(self._handle)

    def submit(self, data: memoryview, dtype: int, op: int) -> int:
        """See ClientEngine."""
        size = len(data)
        memory = (c_char * size).from_buffer(data) if size else None
        chunk_bytes = self._schedule.chunk_bytes(size, ITEM_BYTES[dtype])
        sequence: int = self._core.rsctl_client_submit(
            self._handle, memory, size, chunk_bytes, dtype, op
        )
        return sequence

    def set_timeout(self, timeout: float) -> None:
        """See ClientEngine."""
        self._core.rsctl_client_set_timeout(self._handle, timeout)

    def wait(self, sequence: int, timeout: float | None) -> bool:
        """See ClientEngine."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = max(0.0, min(until - time.monotonic(), _SLICE_SECONDS))
            if self._core.rsctl_client_wait(self._handle, sequence, left):
                return True
            if left < _SLICE_SECONDS or self.failure() is not None:
                return False

    @property
    def completed(self) -> int:
        """See ClientEngine."""
        completed: int = self._core.rsctl_client_completed(self._handle)
        return completed

    @property
    def committed(self) -> int:
        """See ClientEngine."""
        committed: int = self._core.rsctl_client_committed(self._handle)
        return committed

    def failure(self) -> EngineFailure | None:
        """See ClientEngine."""
        found = _Failure()
        if not self._core.rsctl_client_failure(self._handle, ctypes.byref(found)):
            return None
        return EngineFailure(
            ErrorCode(found.code),
            found.server,
            found.rank,
            found.sequence,
            printable(found.detail),
            bool(found.remote),
            found.blamed - 1 if found.remote and found.blamed else None,
        )

    def stats(self) -> ClientStats:
        """See ClientEngine."""
        found = _ClientStats()
        self._core.rsctl_client_read(self._handle, ctypes.byref(found))
        return ClientStats(**_named(found))

    def stop(self) -> None:
        """See ClientEngine."""
        self._core.rsctl_client_stop(self._handle)
