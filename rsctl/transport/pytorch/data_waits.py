"""How long a script waits for its DataLoader."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def report_waits(waited: Callable[[float, bool], None]) -> None:
    """Have DataLoader's iterators report each wait of the main thread for a batch.

    `waited` gets its seconds, and whether worker processes prefetch. Only a script that has
    imported DataLoader before this call is seen waiting.
    """
    loader: Any = sys.modules.get("torch.utils.data.dataloader")
    if loader is None:
        return
    iterator = loader._BaseDataLoaderIter
    real = iterator.__next__
    main = threading.main_thread()

    @functools.wraps(real)
    def __next__(self: Any) -> Any:
        begin = time.perf_counter()
        try:
            return real(self)
        finally:
            if threading.current_thread() is main:
                waited(time.perf_counter() - begin, getattr(self, "_num_workers", 0) > 0)

    iterator.__next__ = __next__
