"""DiLoCo by torchft, if it is installed: each worker is a replica group of one rank.

A round is an all-reduce of the parameters' change over gloo, which all workers then hand to an
outer optimizer. The first rank also runs the lighthouse, by which the workers find each other.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

_PORT = 29510
_TIMEOUT = timedelta(minutes=10)


@contextmanager
def local_steps(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int
) -> Iterator[None]:
    """Within it each `steps` of the optimizer end with a round, by Nesterov's momentum of 0.9 and
    a learning rate of 0.7, as `comm.outer` has them.
    """
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo
    from torchft.manager import Manager
    from torchft.process_group import ProcessGroupGloo

    rank, workers, chief = dist.get_rank(), dist.get_world_size(), os.environ["MASTER_ADDR"]
    address = _own_address(chief)
    lighthouse = LighthouseServer(f"[::]:{_PORT}", workers) if rank == 0 else None
    dist.barrier()
    store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(_TIMEOUT),
        load_state_dict=None,
        state_dict=None,
        min_replica_size=workers,
        use_async_quorum=False,
        init_sync=False,  # all have the seed's parameters
        timeout=_TIMEOUT,
        quorum_timeout=_TIMEOUT,
        rank=0,
        world_size=1,
        store_addr=address,
        store_port=store.port,
        lighthouse_addr=f"http://{chief}:{_PORT}",
        replica_id=f"worker-{rank}",
        hostname=address,
    )
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    try:
        with DiLoCo(
            manager, [model], optimizer, outer, steps, pin_memory=False, use_bucketization=True
        ):
            yield
    finally:
        dist.barrier()
        manager.shutdown(wait=False)
        if lighthouse is not None:
            lighthouse.shutdown()


def _own_address(chief: str) -> str:
    """This worker's address on the network of the chief."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((chief, _PORT))
        return str(sock.getsockname()[0])
