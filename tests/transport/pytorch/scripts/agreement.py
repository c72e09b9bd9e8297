"""Three workers whose transport breaks when they have finished different operations."""

import json
import sys
import threading

import torch
import torch.distributed as dist

from rsctl.transport import ErrorCode, TransportError
from rsctl.transport.pytorch.gradient_pipeline import GradientPipeline
from rsctl.transport.pytorch.intra_node import WholeGradient
from rsctl.transport.pytorch.recovery import Recovery
from rsctl.transport.pytorch.reducer_loss import ReducerLoss
from rsctl.transport.pytorch.topology import Topology

case = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
BROKEN = threading.Event()


class Work:
    def __init__(self, transport, number):
        self.transport, self.number = transport, number

    def wait(self):
        BROKEN.wait()
        if self.number > self.transport.completed:
            raise self.transport.failure()


class Transport:
    """Finishes a given number of operations, with results of its own, then breaks."""

    def __init__(self, completed):
        self.completed, self.committed, self.begun = completed, 0, 0

    def all_reduce(self, data, dtype, op):
        self.begun += 1
        if self.begun <= self.completed:
            data.cast("f")[0] = 50.0
        return Work(self, self.begun)

    def failure(self):
        code = ErrorCode.MISMATCH if case == "one cannot go on" and rank == 2 else ErrorCode.LOST
        return TransportError(code, "the transport broke", sequence=1) if BROKEN.is_set() else None

    def give_up(self):
        pass

    def close(self):
        BROKEN.set()


transport = Transport(1 if rank == 1 and case == "one is ahead" else 0)
pipeline = GradientPipeline(
    transport, WholeGradient(), torch.device("cpu"), ReducerLoss(Recovery(Topology(rank, 3)))
)
futures = [pipeline.reduce(torch.tensor([rank + 1.0]), torch.float32) for _ in range(2)]
BROKEN.set()
results = []
for future in futures:
    try:
        results.append(future.wait().tolist())
    except RuntimeError as error:
        results.append(str(error).splitlines()[0].removeprefix("RuntimeError: "))
sys.stdout.write(json.dumps({"rank": rank, "results": results}) + "\n")
sys.stdout.flush()
pipeline.close()
dist.destroy_process_group()
