"""Process groups after a restart by torchrun."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from torch._C._distributed_c10d import PrefixStore, TCPStore


def separate(arguments: MutableMapping[str, Any]) -> None:
    """Give this attempt's `init_process_group` a place of its own in torchrun's store.

    torchrun keeps its store over restarts, and PyTorch (seen with 2.13) uses the same keys in each:
    workers find the addresses of those that have ended, and fail or hang. The first attempt is left
    alone, as is whoever brings a store or a rendezvous of his own.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    if arguments.get("store") is not None or arguments.get("init_method") not in (None, "env://"):
        return
    world = int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, world, is_master=False)
    if arguments.get("timeout") is not None:
        store.set_timeout(arguments["timeout"])
    arguments.pop("init_method", None)
    arguments["store"] = PrefixStore(f"rsctl/attempt-{attempt}", store)
    arguments["world_size"], arguments["rank"] = world, int(os.environ["RANK"])
