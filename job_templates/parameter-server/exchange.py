"""What workers and parameter servers share: the model, its parts, and how they reach each other."""

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

GRADIENT, LAST = 0.0, 1.0
"""What the last number of a worker's message means: a gradient, or that no more will come."""


def build_model(features: int = 32, width: int = 256, classes: int = 8) -> nn.Module:
    """The same on every node: the seed is."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(features, width),
        nn.GELU(),
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, classes),
    )


def load_checkpoint(model: nn.Module) -> int:
    """Bring the model to its last checkpoint, if there is one; after which epoch that was."""
    path = checkpoint_path()
    if not path.exists():
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    return int(state["epoch"])


def checkpoint_path() -> Path:
    return Path(os.environ.get("RSCTL_CHECKPOINT_DIR", "checkpoints"), "last.pt")


def servers() -> list[str]:
    """HOST:PORT of each parameter server."""
    return json.loads(os.environ["RSCTL_ROLE_HOSTS"])["ps"]


def join() -> tuple[int, int]:
    """Join the group of all servers and all ranks of the workers; how many of each there are.

    Servers come first in it. The first one keeps the store in which all meet.
    """
    addresses = servers()
    host, _, port = addresses[0].rpartition(":")
    is_server = os.environ["RSCTL_ROLE"] == "ps"
    index = int(os.environ["RSCTL_ROLE_INDEX"] if is_server else os.environ["RANK"])
    store = dist.TCPStore(
        host.strip("[]"), int(port), is_master=is_server and index == 0, wait_for_workers=False
    )
    if not is_server and index == 0:  # servers have no ranks, so a worker tells how many there are
        store.set("ranks", os.environ["WORLD_SIZE"])
    ranks = int(store.get("ranks"))
    rank = index if is_server else len(addresses) + index
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("all", store), rank=rank, world_size=len(addresses) + ranks
    )
    return len(addresses), ranks
