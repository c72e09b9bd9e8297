"""Keys of service accounts, made and checked once a process instead of once for each test."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any


class _Shared:
    """The module with which google-auth reads keys, which reads each private key once."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.load_pem_private_key = lru_cache(module.load_pem_private_key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def share_google_keys() -> None:
    """Called as a test begins, for what it makes and reads.

    Making a key takes 35 ms and more of processor, and reading one 30 ms, since OpenSSL sees each
    time whether its numbers are prime. A test's emulators have keys that differ, and the next
    test's have the same. Does nothing to modules that are not imported yet.
    """
    reader: Any = sys.modules.get("google.auth.crypt._cryptography_rsa")
    if reader is not None and not isinstance(reader.serialization, _Shared):
        reader.serialization = _Shared(reader.serialization)
    maker: Any = sys.modules.get("rsctl.targets.vertex.emulator.google_services")
    if maker is not None:
        if not isinstance(maker.new_key, _Keys):
            maker.new_key = _Keys(maker.new_key)
        maker.new_key.given = 0


class _Keys:
    """Makes the first key of each test once, the second once, and so on."""

    def __init__(self, make: Any) -> None:
        self._make, self._made = make, list[Any]()
        self.given = 0

    def __call__(self) -> Any:
        if self.given == len(self._made):
            self._made.append(self._make())
        self.given += 1
        return self._made[self.given - 1]
